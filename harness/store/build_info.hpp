// Which sources, compilers and flags this program was built from; every result file records it.
#pragma once
#include <string>
#include <vector>

namespace megatoken {

struct BuildInfo {
  std::string version;                   // "0.1.0"
  std::string git_commit, git_branch;    // empty outside a git checkout
  bool git_dirty = false;                // tracked changes or new files
  std::string diff_sha256;               // of those changes; empty when clean
  std::string build_type;                // "Release"
  std::string cxx_compiler, cxx_flags;   // "GNU 12.2.0"; flags of every floor, then those of optimized/ alone
  std::string nvcc_version, cuda_flags;  // empty in a build without CUDA
  std::vector<std::string> cuda_archs;   // "90a-real", "100a-real"
  std::string source_root;               // the folder it was built from: reports/ lies there
  std::string plot_python;               // the Python that can draw reports; empty when none was found
};

const BuildInfo& build_info();

}  // namespace megatoken
