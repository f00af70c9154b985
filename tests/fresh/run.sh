#!/usr/bin/env bash
# Repeats the README's two commands on a fresh machine: a minimal Debian 12 of its own in a temporary folder, a fresh clone of this
# repository inside, nothing else. Prints how long each stage took. The package source is the host's; the host itself stays untouched:
# everything is mounted in a namespace that ends with this script, and the folder is removed whatever happens.
set -euo pipefail

usage() {
  cat <<'END'
tests/fresh/run.sh [demo|test|both|prefix] [options]      as root, with debootstrap
  demo, test, both   ./run demo, ./run test, or one after the other (default both)
  prefix             with a compiler only and without root: ./run deps, ./run build cpu, the tests
  --suite NAME       Debian release (default bookworm)
  --cores N          processors to use (default 2)
  --cuda DIR         the host's CUDA toolkit, shown inside at /usr/local/cuda, to compile the kernels too
  --keep             leave the folder in place
END
}
die() { printf 'fresh: %s\n' "$2" >&2; exit "$1"; }

what=both suite=bookworm cores=2 cuda='' keep=''
arguments=("$@")
while (( $# > 0 )); do
  case $1 in
    demo | test | both | prefix) what=$1 ;;
    --suite) suite=${2:?--suite needs a name}; shift ;;
    --cores) cores=${2:?--cores needs a number}; shift ;;
    --cuda) cuda=${2:?--cuda needs a folder}; shift ;;
    --keep) keep=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die 2 "unknown word '$1'" ;;
  esac
  shift
done
(( EUID == 0 )) || die 5 "needs root, for debootstrap and chroot"
command -v debootstrap >/dev/null || die 5 "needs debootstrap: apt-get install debootstrap"
[[ -z $cuda || -x $cuda/bin/nvcc ]] || die 2 "--cuda $cuda holds no bin/nvcc"

# In namespaces of our own: mounts and processes vanish with them, also when this script is killed.
if [[ -z ${MEGATOKEN_FRESH_INSIDE:-} ]]; then
  root=$(mktemp -d "${TMPDIR:-/tmp}/megatoken-fresh.XXXXXX")
  chmod 755 "$root"
  trap '[[ -n $keep ]] && echo "kept: $root" || rm -rf --one-file-system "$root"' EXIT
  MEGATOKEN_FRESH_INSIDE=$root unshare --mount --pid --fork --mount-proc --kill-child --propagation private "$0" "${arguments[@]}"
  exit
fi
root=$MEGATOKEN_FRESH_INSIDE
repository=$(cd "$(dirname "$0")/../.." && pwd)

# Processor seconds of everything that ended so far: what a stage costs, whatever else the host is doing.
processor_seconds() { awk -v ticks="$(getconf CLK_TCK)" '{print int(($16 + $17) / ticks)}' /proc/$$/stat; }

stages=()
stage() {
  local name=$1 start=$SECONDS spent code=0
  spent=$(processor_seconds)
  shift
  echo "==== $name"
  "$@" || code=$?
  stages+=("$(printf '%-28s %5d s   processor %5d s%s' "$name" $((SECONDS - start)) $(($(processor_seconds) - spent)) \
    "$( (( code == 0 )) || echo "   FAILED, exit $code")")")
  return $code
}
trap 'echo; printf "%s\n" "${stages[@]}"' EXIT

# The host's own Debian sources, as "URI suite" lines.
sources() {
  # shellcheck disable=SC2016  # apt fills these in
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' | grep -E " $suite(-[a-z]+)?\$" | sort -u
}

bootstrap() {
  local mirror
  mirror=$(sources | awk -v suite="$suite" '$2 == suite {print $1; exit}')
  [[ -n $mirror ]] || die 5 "the host has no package source for $suite: apt-get update, or --suite"
  debootstrap --variant=minbase --include=git,ca-certificates "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
    { tail -5 "$root.log" >&2; die 5 "debootstrap from $mirror failed"; }
  rm -f "$root.log"
  sources | sed 's/^/deb /; s/$/ main/' >"$root/etc/apt/sources.list"
  apt-config dump Acquire::http::Proxy >"$root/etc/apt/apt.conf.d/90host"
  apt-config dump Acquire::https::Proxy >>"$root/etc/apt/apt.conf.d/90host"
  rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb   # bare: no package list, no package
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  mount -t proc proc "$root/proc"
  mount -t tmpfs shm "$root/dev/shm" 2>/dev/null || { mkdir -p "$root/dev/shm"; mount -t tmpfs shm "$root/dev/shm"; }
  if [[ -n $cuda ]]; then
    mkdir -p "$root/usr/local/cuda"
    mount --rbind "$(readlink -f "$cuda")" "$root/usr/local/cuda"
    mount -o remount,ro,bind "$root/usr/local/cuda"
  fi
}

clone() {
  git -c safe.directory='*' -C "$repository" status --porcelain | grep -q . && echo "note: uncommitted changes are not part of the clone"
  git -c safe.directory='*' clone --quiet --no-hardlinks "$repository" "$root/megatoken"
  git -C "$root/megatoken" log -1 --format='commit %h %s'
}

# inside USER COMMAND...: in the new machine, with nothing of the host's environment
inside() {
  local user=$1
  shift
  env -i HOME=/tmp TERM=dumb LANG=C.UTF-8 PATH=/usr/local/cuda/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    taskset -c "0-$((cores - 1))" chroot --userspec="$user" "$root" sh -c "cd /megatoken && $*"
}

stage "bare Debian ($suite)" bootstrap
stage "clone" clone
case $what in
  demo | both)
    stage "./run demo" inside root ./run demo
    stage "./run demo, when built" inside root ./run demo ;;&
  test | both)
    stage "./run test" inside root ./run test ;;
  prefix)
    stage "a compiler, by the owner" inside root "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends g++ >/dev/null 2>&1"
    rm -rf "$root"/var/lib/apt/lists/*
    chown -R 1000:1000 "$root/megatoken"
    stage "./run deps, no root" inside 1000:1000 ./run deps
    stage "./run deps again" inside 1000:1000 ./run deps
    stage "./run test, no root" inside 1000:1000 ./run test ;;
esac
printf 'disk: %s\n' "$(du -sh --one-file-system "$root" | cut -f1)"
