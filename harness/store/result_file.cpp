#include "harness/store/result_file.hpp"

#include <algorithm>

#include "harness/store/build_info.hpp"
#include "harness/store/files.hpp"
#include "harness/store/provenance.hpp"
#include "harness/store/result_io.hpp"
#include "harness/store/text.hpp"

namespace megatoken {
namespace {

constexpr std::chrono::seconds kCheckpointInterval{10};
constexpr int kWriteShare = 20;  // writing takes at most one part in 20 of a run, also when the file is large

}  // namespace

ResultFile::ResultFile(std::string path, ResultData data) : path_(std::move(path)), data_(std::make_unique<ResultData>(std::move(data))) {}

ResultFile ResultFile::create(const std::string& path, const RunInfo& run) {
  ResultData data = ResultData::empty();
  const auto run_id = new_uuid();
  data.attributes = {{"schema", result_schema().name},
                     {"schema_version", result_schema().version},
                     {"run_id", run_id},
                     {"status", "running"},
                     {"created", utc_now()},
                     {"finished", ""},
                     {"argv", run.argv},
                     {"config_toml", run.config_toml},
                     {"tags_json", to_json(run.tags)},
                     {"tool_version", build_info().version}};
  data.provenance = collect_provenance();
  ResultFile file(path.empty() ? default_result_path(run_id) : path, std::move(data));
  file.finished_ = true;  // nothing to rescue if the first write fails
  file.write(true);
  file.finished_ = false;
  return file;
}

ResultFile ResultFile::resume(const std::string& path, const RunInfo& run) {
  ResultFile file(path, decode_results(path));
  file.finished_ = true;
  Fields& attributes = file.data_->attributes;
  if (const auto version = text_field(attributes, "schema_version"); parse_version(version) > parse_version(result_schema().version))
    throw Error(ErrorKind::Usage, format("{} has schema {}, this program writes {}", path, version, result_schema().version),
                "resume it with a newer megatoken");
  for (auto& name : list_tensors(path)) file.tensor_names_.insert(std::move(name));
  file.identity_ = file_identity(path);
  std::vector<std::string> resumed;
  if (const Value* before = find_field(attributes, "resumed"))
    if (const auto* texts = before->if_is<std::vector<std::string>>()) resumed = *texts;
  std::string command;
  for (const auto& word : run.argv) command += " " + word;
  resumed.push_back(format("{} commit {}{}:{}", utc_now(), build_info().git_commit, build_info().git_dirty ? "+changes" : "", command));
  set_field(attributes, "resumed", resumed);
  set_field(attributes, "schema_version", result_schema().version);
  set_field(attributes, "tool_version", build_info().version);
  set_field(attributes, "status", "running");
  set_field(attributes, "finished", "");
  file.write(false);
  file.finished_ = false;
  return file;
}

ResultFile::~ResultFile() {
  if (finished_ || !data_) return;
  try {
    drop_unfinished_case();
    finish("aborted");
  } catch (const std::exception&) {  // a destructor has nobody to tell; the last good file is in place
  }
}

void ResultFile::set_provenance(std::string_view name, Value value) { set_field(data_->provenance, name, std::move(value)); }

std::set<std::string> ResultFile::finished_keys() const {
  const auto& results = data_->table("results");
  const auto& keys = results.strings("key");
  const auto& status = results.strings("status");
  std::set<std::string> finished;
  for (size_t row = 0; row < keys.size(); ++row)
    if (status[row] != "not_run") finished.insert(keys[row]);
  return finished;
}

void ResultFile::save_tensor(int64_t result, const std::string& name, const TensorView& tensor, const std::string& layout,
                             const std::string& role) {
  const int64_t rows = table("results").rows();
  MEGATOKEN_CHECK(result >= 0 && result < rows, "tensor '{}' is to be saved for row {} of {} results", name, result, rows);
  MEGATOKEN_CHECK(!name.empty() && name.find('/') == name.npos && name != ".", "'{}' is no name for a tensor", name);
  MEGATOKEN_CHECK(tensor_names_.insert(format("{}/{}", result, name)).second, "tensor '{}' of row {} is saved already", name, result);
  unsaved_.push_back({result, name, layout, role, to_device(tensor, Device::Cpu)});
}

void ResultFile::mark_finished_cases() {
  whole_rows_.clear();
  for (const auto& table : data_->tables) whole_rows_.push_back(table.rows());
}

void ResultFile::drop_unfinished_case() {
  for (size_t i = 0; i < whole_rows_.size(); ++i) data_->tables[i].truncate(whole_rows_[i]);
  const int64_t results = table("results").rows();
  std::erase_if(unsaved_, [&](const SavedTensor& saved) { return saved.result >= results; });
}

bool ResultFile::checkpoint() {
  mark_finished_cases();
  const auto interval = std::max<std::chrono::steady_clock::duration>(kCheckpointInterval, kWriteShare * write_time_);
  if (std::chrono::steady_clock::now() - written_ < interval) return false;
  flush();
  return true;
}

void ResultFile::flush() { write(false); }

void ResultFile::finish(const std::string& status) {
  MEGATOKEN_CHECK(status == "complete" || status == "aborted", "a run ends complete or aborted, not '{}'", status);
  finished_ = true;
  set_field(data_->attributes, "status", status);
  set_field(data_->attributes, "finished", utc_now());
  write(false);
}

void ResultFile::write(bool create) {
  const auto start = std::chrono::steady_clock::now();
  const auto on_disk = file_identity(path_);
  if (!create && on_disk && on_disk != identity_)
    throw Error(ErrorKind::Environment, format("{} was replaced by another program while this run was writing it", path_),
                "give every run an output of its own");
  const auto bytes = encode_results(path_, *data_, create || !on_disk ? "" : path_, unsaved_);
  if (create) {
    create_file(path_, bytes);
  } else {
    write_file(path_, bytes);
  }
  mark_finished_cases();
  unsaved_.clear();
  identity_ = file_identity(path_);
  written_ = std::chrono::steady_clock::now();
  write_time_ = written_ - start;
}

ResultReader::ResultReader(std::string path) : path_(std::move(path)), data_(decode_results(path_)) {}

std::vector<SavedTensor> ResultReader::tensors(int64_t result) const { return read_tensors(path_, result); }

}  // namespace megatoken
