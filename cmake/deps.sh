# shellcheck shell=bash disable=SC2154  # log comes from ./run
# What Megatoken needs from the system, how to see that it is there, and two ways to bring what is missing:
# installed by apt as root, or unpacked into a prefix without root. Sourced by ./run, which defines say, die, log and DEPS.

# package → the command or header that shows it is there, wherever it came from
readonly required=(
  'g++ g++' 'cmake cmake' 'ninja-build ninja'
  'libeigen3-dev Eigen/Dense' 'libfmt-dev fmt/core.h' 'libcli11-dev CLI/CLI.hpp' 'libtomlplusplus-dev toml++/toml.h'
  'nlohmann-json3-dev nlohmann/json.hpp' 'libhdf5-dev hdf5.h' 'zlib1g-dev zlib.h'
)
readonly optional=(  # quicker rebuilds, tests, microbenchmarks
  'ccache ccache' 'libgtest-dev gtest/gtest.h' 'libgmock-dev gmock/gmock.h' 'libbenchmark-dev benchmark/benchmark.h'
)
readonly plot_packages=(python3 python3-numpy python3-h5py python3-matplotlib python3-jinja2)
readonly header_packages=(libeigen3-dev libfmt-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev)
# A prefix links HDF5 statically, so that it needs no further runtime library on the machines it is brought to.
readonly library_packages=(libhdf5-dev libaec-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev)

# is_there NAME: a command, or a header of the system or of the prefix
is_there() {
  case $1 in
    */* | *.h)
      local root folder
      for root in "$DEPS/usr" /usr /usr/local; do
        for folder in include include/eigen3 include/hdf5/serial; do
          [[ -e $root/$folder/$1 ]] && return
        done
      done
      return 1 ;;
    *) command -v "$1" >/dev/null || [[ -x $DEPS/bin/$1 ]] ;;
  esac
}

can_plot() {
  local python
  for python in "${PLOT_PYTHON:-}" "$DEPS/bin/plot-python" /usr/bin/python3 python3; do
    "$python" -c 'import numpy, h5py, matplotlib, jinja2' 2>/dev/null && return
  done
  return 1
}

# missing_of ENTRY...: the packages whose command or header is not there
missing_of() {
  local entry
  for entry in "$@"; do
    is_there "${entry#* }" || echo "${entry% *}"
  done
}

# ensure_dependencies: nothing is fetched when everything is there. What only speeds up, tests or draws may stay missing.
ensure_dependencies() {
  local needed wanted
  mapfile -t needed < <(missing_of "${required[@]}")
  mapfile -t wanted < <(missing_of "${optional[@]}"; can_plot || printf '%s\n' "${plot_packages[@]}")
  if (( ${#needed[@]} + ${#wanted[@]} == 0 )); then
    say "dependencies: everything is there"
  elif ! command -v apt-get >/dev/null; then
    (( ${#needed[@]} == 0 )) || die 5 "missing: ${needed[*]}; this machine has no apt-get: bring a folder filled by './run deps --prefix DIR' elsewhere, as .deps"
    say "going on without: ${wanted[*]}"
  elif (( EUID == 0 )); then
    install_packages "${needed[@]}" "${wanted[@]}" && return
    (( ${#needed[@]} == 0 )) || die 5 "cannot install ${needed[*]}: no package source answered (log: $log); connect the machine, or bring a folder filled by './run deps --prefix DIR' as .deps"
    say "no package source answered; going on without: ${wanted[*]}"
  else
    fill_prefix "${DEPS:-.deps}" all
  fi
}

install_packages() {
  say "dependencies: installing $*"
  local quiet=(-qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2)
  export DEBIAN_FRONTEND=noninteractive
  { apt-get "${quiet[@]}" update; apt-get "${quiet[@]}" install -y --no-install-recommends "$@"; } >>"$log" 2>&1
}

# fill_prefix DIR all|headers: packages unpacked below DIR/usr; DIR/.packages remembers which, so that none is fetched twice.
# The libraries go in whether or not this machine has them, because DIR may be brought to one that has not; tools and Python only where missing.
fill_prefix() {
  local dir=$1 what=$2 package packages=("${header_packages[@]}") extra=()
  command -v apt-get >/dev/null ||
    die 5 "this machine has no apt-get: run './run deps --prefix DIR' on a Debian or Ubuntu machine and bring DIR here as .deps"
  mkdir -p "$dir/.packages" "$dir/.download"
  dir=$(cd "$dir" && pwd)
  if [[ $what == all ]]; then
    command -v "${CXX:-g++}" >/dev/null ||
      die 5 "no C++ compiler on this machine, and a prefix cannot hold one: ask for g++ 12 or newer (on a cluster often 'module load gcc')"
    packages+=("${library_packages[@]}")
    for package in cmake ninja-build ccache; do
      command -v "${package%-build}" >/dev/null || extra+=("$package")
    done
    if [[ -x /usr/bin/python3 ]] && ! /usr/bin/python3 -c 'import numpy, h5py, matplotlib, jinja2' 2>/dev/null; then
      extra+=("${plot_packages[@]:1}")
    fi
  fi

  local fetch=()
  for package in "${packages[@]}" "${extra[@]}"; do
    [[ -e $dir/.packages/$package ]] || fetch+=("$package")
  done
  if (( ${#fetch[@]} == 0 )); then
    say "dependencies: $dir holds everything"
  else
    say "dependencies: unpacking ${fetch[*]} into $dir"
    download "$dir" "${fetch[@]}" || die 5 "cannot fetch ${fetch[*]}: no package source answered (log: $log); connect the machine or bring a filled folder as .deps"
    unpack "$dir"
    for package in "${fetch[@]}"; do touch "$dir/.packages/$package"; done
    wrap_tools "$dir"
  fi
  rm -rf "$dir/.download" "$dir/.apt"
  DEPS=$dir
}

# download DIR PACKAGE...: .deb files into DIR/.download, with everything the tools and Python modules need that this machine lacks.
# The system's package lists serve when they know every package; otherwise lists of our own, which need no root.
download() {
  local dir=$1; shift
  local apt=(apt-get -qq -o Acquire::Retries=2 -o APT::Sandbox::User=root) names
  if ! names=$(closure "$@") || ! fetch_debs; then
    rm -rf "$dir/.apt"
    mkdir -p "$dir/.apt/lists/partial" "$dir/.apt/cache/archives/partial"
    apt+=(-o "Dir::State::Lists=$dir/.apt/lists" -o "Dir::Cache=$dir/.apt/cache")
    "${apt[@]}" update >>"$log" 2>&1 && names=$(closure "$@") && fetch_debs
  fi
}

# closure PACKAGE...: names to download. Header and static libraries stand alone, apart from Google Benchmark's shared object.
# Matplotlib's font tools ask for SciPy, which asks for Boost: 500 MB that drawing never touches.
closure() {
  local package whole=()
  for package in "$@"; do
    case $package in
      lib* | nlohmann* | zlib1g-dev) echo "$package" ;;
      *) whole+=("$package") ;;
    esac
  done
  if [[ " $* " == *' libbenchmark-dev '* ]]; then
    apt-cache "${apt[@]:1}" depends libbenchmark-dev 2>>"$log" | awk '/Depends: libbenchmark/ {print $2}'
  fi
  (( ${#whole[@]} > 0 )) || return 0
  "${apt[@]}" --print-uris -y --no-install-recommends install "${whole[@]}" 2>>"$log" | awk '{sub(/_.*/, "", $2); print $2}' |
    sed -E '/scipy|pythran|boost|sympy|mpmath/d'
}

fetch_debs() {
  # shellcheck disable=SC2046  # one word per package
  (cd "$dir/.download" && "${apt[@]}" download $(sort -u <<<"$names")) >>"$log" 2>&1
}

unpack() {
  local dir=$1 deb
  for deb in "$dir"/.download/*.deb; do
    dpkg-deb -x "$deb" "$dir"
  done
  rm -rf "$dir"/usr/share/{doc,man,lintian,bug}
}

# wrap_tools DIR: programs from a prefix find their libraries and modules relative to themselves, so DIR can be moved
wrap_tools() {
  local dir=$1 tool
  local modules=$dir/usr/lib/python3/dist-packages
  mkdir -p "$dir/bin"
  for tool in cmake ctest ninja ccache; do
    [[ ! -x $dir/usr/bin/$tool ]] || write_wrapper "$tool" "\"\$here/usr/bin/$tool\""
  done
  if [[ -d $modules/matplotlib ]]; then
    [[ -e $modules/matplotlib/mpl-data ]] || ln -s ../../../../share/matplotlib/mpl-data "$modules/matplotlib/mpl-data"
    # shellcheck disable=SC2016  # the wrapper expands these
    write_wrapper plot-python 'env MATPLOTLIBRC="$here/etc" PYTHONPATH="$here/usr/lib/python3/dist-packages${PYTHONPATH:+:$PYTHONPATH}" /usr/bin/python3'
  fi
}

write_wrapper() {
  cat >"$dir/bin/$1" <<END
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/.." && pwd)
machine=\$(uname -m)-linux-gnu
for folder in lib/\$machine usr/lib/\$machine/lapack usr/lib/\$machine/blas usr/lib/\$machine; do
  LD_LIBRARY_PATH=\$here/\$folder\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec $2 "\$@"
END
  chmod +x "$dir/bin/$1"
}
