#include "datasets/fetch.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "datasets/debian_package.hpp"
#include "datasets/download.hpp"
#include "datasets/process.hpp"
#include "datasets/r_data.hpp"
#include "datasets/records.hpp"
#include "reference/core/error.hpp"

namespace megatoken {
namespace {

namespace fs = std::filesystem;

constexpr char kFolderHint[] = "pass --data FOLDER that can be written";

/// The lock goes when the process does, however it ends.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : file_(open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ < 0) throw Error(ErrorKind::Environment, format("cannot write in {}: {}", folder, std::strerror(errno)), kFolderHint);
    while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {}
  }
  ~FolderLock() { close(file_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

/// FOLDER/.fetch for half-done work. Under the lock, so what lies there was left by a fetch that was interrupted.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& folder) : path_(folder + "/.fetch") {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw Error(ErrorKind::Environment, format("cannot write {}", path), "is the disk full?");
}

/// The program's libraries were unpacked beside it and may lie below any architecture's folder.
std::string library_path(const std::string& root) {
  std::string path;
  for (const auto& item : fs::recursive_directory_iterator(root)) {
    const std::string folder = item.path().parent_path().string() + ":";
    const bool library = item.path().filename().string().find(".so.") != std::string::npos;
    if (library && path.find(folder) == std::string::npos) path += folder;
  }
  return path;
}

/// Makes one file of a package set at `to`.
void produce(const DataFile& file, const std::string& root, const std::string& to) {
  if (file.r_record >= 0) return write_file(to, read_r_lines(root + "/" + file.from, file.r_record));
  if (!file.from.empty()) {
    if (!fs::exists(root + "/" + file.from))
      throw Error(ErrorKind::Environment, format("the package holds no {}", file.from), "the manifest was written for the packages of Debian 12");
    fs::rename(root + "/" + file.from, to);
    return;
  }
  std::vector<std::string> command{"env", "LD_LIBRARY_PATH=" + library_path(root), root + "/" + file.command[0]};
  command.insert(command.end(), file.command.begin() + 1, file.command.end());
  const ProcessResult result = run_process(command, root, to);
  if (result.code != 0) throw Error(ErrorKind::Environment, format("{} failed: {}", file.command[0], result.last_error()));
}

/// Holds a fresh file against the manifest and the pin of an earlier fetch, then moves it to its name and remembers it.
void put_in_place(const std::string& fresh, const DataFile& file, Records& records, const FetchOptions& options) {
  DataFacts facts;
  std::string problem;
  try {
    facts = inspect_data(fresh, data_kind(file.path));
    problem = difference(facts, file);
  } catch (const Error& error) {
    problem = error.message();
  }
  const std::string pinned = records.pinned_sha256(file.path);
  if (problem.empty() && file.sha256.empty() && file.contig.empty() && !options.again && !pinned.empty() && pinned != facts.content.sha256)
    problem = format("sha256 {} instead of {}, which it had when it was fetched first", facts.content.sha256, pinned);
  if (!problem.empty()) {
    fs::remove(fresh);
    throw Error(ErrorKind::Environment, format("what came for {} is something else: {}", file.path, problem),
                "nothing was changed; its source has changed or is damaged");
  }
  const std::string final_name = options.folder + "/" + file.path;
  fs::create_directories(fs::path(final_name).parent_path());
  fs::rename(fresh, final_name);
  records.put(file.path, facts);
  options.say(format("{}: {}, {} bytes, {}", file.name(), facts.label, facts.content.bytes, final_name));
}

/// True when the file need not be fetched. Throws when it is there and differs.
bool is_there(const DataFile& file, const Catalog& catalog, Records& records, const FetchOptions& options) {
  CatalogEntry entry{file.name(), options.folder, "", nullptr, &file};
  for (const CatalogEntry& known : catalog.entries())
    if (known.name == file.name() && known.present()) entry.folder = known.folder, entry.path = known.path;
  if (!entry.present()) {
    if (!fs::exists(options.folder + "/" + file.path)) return false;  // a template, or fetched since the catalog was made
    entry.path = file.path;
  }
  const bool own = entry.folder == options.folder;
  if (own && options.again) return false;
  if (data_state(entry) != DataState::Verified) {
    const Verification verification = verify_data(entry);
    if (!verification.passed)
      throw Error(ErrorKind::Usage, format("{} differs: {}", entry.file(), verification.message),
                  own ? "fetch it again with --again, or move it away" : "move it away");
    if (own) records.put(entry.path, verification.facts);
  }
  options.say(format("{}: there already, {}", file.name(), entry.file()));
  return true;
}

void fetch_locked(const DataSet& set, const Catalog& catalog, const FetchOptions& options) {
  Records records(options.folder);
  std::vector<const DataFile*> missing;
  for (const DataFile& file : set.files)
    if (!is_there(file, catalog, records, options)) missing.push_back(&file);
  if (missing.empty()) return;

  const std::string size = set.download > 0 ? ", " + format_bytes(static_cast<double>(set.download)) : "";
  options.say(format("{}: fetching from {}{}", set.name, set.source(), size));
  const WorkFolder work(options.folder);
  const std::string root = set.packages.empty() ? "" : unpack_debian_packages(set.packages, work.path());
  for (const DataFile* file : missing) {
    std::string fresh = work.path() + "/" + fs::path(file->path).filename().string();
    if (set.packages.empty()) {
      const std::string partial = options.folder + "/" + file->path + ".partial";
      fs::create_directories(fs::path(partial).parent_path());
      if (file->sha256.empty() && file->contig.empty()) fs::remove(partial);  // no check would notice two versions glued together
      download(file->url, partial);
      fs::rename(partial, fresh);
    } else {
      produce(*file, root, fresh);
    }
    put_in_place(fresh, *file, records, options);
  }
}

}  // namespace

void fetch_data(const DataSet& set, const Catalog& catalog, const FetchOptions& options) {
  try {
    fs::create_directories(options.folder);
    const FolderLock lock(options.folder);
    fetch_locked(set, catalog, options);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::Environment, format("{}: {}", error.path1().string(), error.code().message()), kFolderHint);
  }
}

}  // namespace megatoken
