#include "harness/store/provenance.hpp"

#include <gnu/libc-version.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/store/build_info.hpp"
#include "harness/store/files.hpp"
#include "harness/store/hdf5.hpp"
#include "harness/store/text.hpp"

namespace megatoken {
namespace {

std::string host_name() {
  utsname system{};
  return uname(&system) == 0 ? system.nodename : "";
}

/// PRETTY_NAME of /etc/os-release.
std::string os_name() {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    std::erase(line, '"');
    return line.substr(line.find('=') + 1);
  }
  return "";
}

std::string kernel_name() {
  utsname system{};
  return uname(&system) == 0 ? format("{} {} {}", system.sysname, system.release, system.machine) : "";
}

/// FNV-1a: tells machines apart without naming them.
std::string hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return format("{:016x}", hash);
}

std::string container_name() {
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  return "";
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return format("{}.{}.{}", major, minor, release);
}

void add_environment(Fields& fields) {
  constexpr std::array<std::string_view, 4> kPrefixes{"CUDA_", "NCCL_", "OMP_", "MEGATOKEN_"};
  std::map<std::string, std::string> kept;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const bool allowed = std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return text.starts_with(prefix); });
    if (allowed && equals != text.npos) kept.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<std::string> names, values;
  for (const auto& [name, value] : kept) {
    names.push_back(name);
    values.push_back(value);
  }
  fields.push_back({"env_names", names});
  fields.push_back({"env_values", values});
}

}  // namespace

Fields collect_provenance() {
  const auto& build = build_info();
  Fields fields{{"git_commit", build.git_commit},
                {"git_branch", build.git_branch},
                {"git_dirty", build.git_dirty},
                {"diff_sha256", build.diff_sha256},
                {"build_type", build.build_type},
                {"cxx_compiler", build.cxx_compiler},
                {"cxx_flags", build.cxx_flags},
                {"nvcc_version", build.nvcc_version},
                {"cuda_flags", build.cuda_flags},
                {"cuda_archs", build.cuda_archs}};
  for (const auto* name : {"cuda_runtime", "cuda_driver", "nccl", "cublas", "cudnn", "seed_root"}) fields.push_back({name, ""});
  set_field(fields, "hdf5", hdf5_version());
  set_field(fields, "os", os_name());
  set_field(fields, "kernel", kernel_name());
  set_field(fields, "libc", format("glibc {}", gnu_get_libc_version()));
  set_field(fields, "hostname_hash", hash_of(host_name()));
  set_field(fields, "container", container_name());
  add_environment(fields);
  return fields;
}

std::string new_uuid() {
  std::string hex = random_hex(32);
  hex[12] = '4';                                   // version 4: random
  hex[16] = "89ab"[static_cast<size_t>(hex[16]) % 4];  // variant 1
  for (const size_t dash : {8, 13, 18, 23}) hex.insert(dash, "-");
  return hex;
}

std::string default_result_path(const std::string& run_id) {
  std::string time = utc_now();
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  std::string host = host_name().substr(0, 40);
  for (char& c : host)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  std::error_code error;
  std::filesystem::create_directories("results", error);  // a failure shows when the file is made
  return format("results/{}-{}-{}.h5", time, host, run_id.substr(0, 8));
}

std::string to_json(const std::map<std::string, std::string>& tags) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, value] : tags) json[valid_utf8(key)] = valid_utf8(value);
  return json.dump();
}

}  // namespace megatoken
