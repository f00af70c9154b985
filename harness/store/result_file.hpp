// The result file of a run: the only writer of result files. Rows are kept in memory; every checkpoint writes the whole file beside
// the old one and renames it, so that the file on disk opens at any moment, also after kill -9, and holds whole cases only.
//
//   ResultFile file = ResultFile::create("run.h5", {.argv = argv, .config_toml = suite, .tags = {{"host", "a"}}});
//   const int64_t row = file.table("results").append({{"key", key}, {"status", "pass"}, {"time_median", 1e-3}}, {{"t", 65536}});
//   file.table("checks").append({{"result", row}, {"output", "dk"}, {"passed", true}});
//   file.checkpoint();            // after each case
//   file.finish("complete");
//
// One thread writes: rank 0, with the rows of the other ranks sent to it.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/store/files.hpp"
#include "harness/store/result_data.hpp"
#include "reference/core/tensor.hpp"

namespace megatoken {

struct RunInfo {
  std::vector<std::string> argv;
  std::string config_toml;                  // suite and options in effect
  std::map<std::string, std::string> tags;  // --tag key=value
};

/// A tensor saved with a result (--save), with the attributes it carries in the file.
struct SavedTensor {
  int64_t result = 0;
  std::string name;
  std::string layout;  // "b t h d"
  std::string role;    // in, out or oracle
  Tensor tensor;
};

class ResultFile {
 public:
  /// Makes a new file; an empty path means results/<utc>-<host>-<shortid>.h5. A usage Error when it exists: nothing is ever overwritten.
  static ResultFile create(const std::string& path, const RunInfo& run);
  /// Opens the file of an interrupted run with all its rows and goes on; run_id, created and provenance stay, attribute `resumed` grows.
  static ResultFile resume(const std::string& path, const RunInfo& run);

  ResultFile(ResultFile&&) = default;
  ResultFile& operator=(ResultFile&&) = delete;
  /// A run that was not finished is written as "aborted", without the rows after the last checkpoint, as far as the disk allows.
  ~ResultFile();

  const std::string& path() const { return path_; }
  const ResultData& data() const { return *data_; }
  Table& table(std::string_view name) { return data_->table(name); }
  /// Adds or replaces one entry of /provenance, for what only the caller knows: cuda_driver, nccl, seed_root, …
  void set_provenance(std::string_view name, Value value);
  /// Keys with a row whose status is not not_run: what --resume need not run again.
  std::set<std::string> finished_keys() const;

  /// Keeps a copy of the tensor as /tensors/<result>/<name>.
  void save_tensor(int64_t result, const std::string& name, const TensorView& tensor, const std::string& layout, const std::string& role);

  /// Call after each case: writes the file unless that happened less than 10 s ago. Returns whether it was written.
  bool checkpoint();
  /// Writes the file now. An Environment Error (disk full, folder gone) leaves the last good file in place.
  void flush();
  /// Last call: status "complete" or "aborted".
  void finish(const std::string& status);

 private:
  ResultFile(std::string path, ResultData data);
  void write(bool create);
  void mark_finished_cases();
  void drop_unfinished_case();

  std::string path_;
  std::unique_ptr<ResultData> data_;  // stays at one address, so that references to tables survive a move of the file
  std::vector<SavedTensor> unsaved_;
  std::vector<int64_t> whole_rows_;  // of each table at the last checkpoint: rows of finished cases
  std::set<std::string> tensor_names_;
  std::optional<FileIdentity> identity_;  // of the file this run wrote last
  std::chrono::steady_clock::time_point written_;
  std::chrono::steady_clock::duration write_time_{};
  bool finished_ = false;
};

/// Reads a result file. A missing, damaged, foreign or newer file is a usage Error that names it.
class ResultReader {
 public:
  explicit ResultReader(std::string path);
  const std::string& path() const { return path_; }
  const ResultData& data() const { return data_; }
  const Table& table(std::string_view name) const { return data_.table(name); }
  const Fields& attributes() const { return data_.attributes; }
  const Fields& provenance() const { return data_.provenance; }
  /// The tensors saved with a result, with their names, layouts and roles.
  std::vector<SavedTensor> tensors(int64_t result) const;

 private:
  std::string path_;
  ResultData data_;
};

}  // namespace megatoken
