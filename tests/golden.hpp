// Tensors of the public reference model, for tests that hold the oracles against something nobody here wrote.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/store/hdf5.hpp"

namespace megatoken::test {

/// Folder of the golden files: environment variable MEGATOKEN_GOLDEN, else shared/golden beside the clone.
inline std::filesystem::path golden_folder() {
  if (const char* folder = std::getenv("MEGATOKEN_GOLDEN")) return folder;
  return std::filesystem::path(MEGATOKEN_SOURCE_DIR) / ".." / "shared" / "golden";
}

class Golden {
 public:
  /// golden("nano.h5"); a test skips with missing() when the file is absent.
  static bool exists(const std::string& file) { return std::filesystem::exists(golden_folder() / file); }
  static std::string missing(const std::string& file) {
    return (golden_folder() / file).string() + " is absent; set MEGATOKEN_GOLDEN to the folder of golden files";
  }
  explicit Golden(const std::string& file) : file_(hdf5::File::open((golden_folder() / file).string())) {}

  /// "weights/layers.0.self_attn.q_proj.weight", "captured/layers.0.self_attn/out0": contiguous, fp64 (ids int64).
  Tensor operator()(const std::string& path) const { return file_.dataset(path).tensor(); }

 private:
  hdf5::File file_;
};

}  // namespace megatoken::test
