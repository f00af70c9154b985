#include "harness/store/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int error = errno;
  const char* hint = error == ENOSPC || error == EDQUOT || error == EFBIG ? "free space or choose another output"
                     : error == ENOENT                                    ? "make its folder or choose another output"
                                                                          : "choose another output";
  throw Error(ErrorKind::Environment, format("cannot {} {}: {}", what, path, std::strerror(error)), hint);
}

/// A file beside the final one; gone unless it got the final name.
class Temporary {
 public:
  Temporary(std::string target, const std::string& suffix, int flags) : target_(std::move(target)), name_(target_ + suffix) {
    descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    if (descriptor_ < 0) fail(target_, "write");
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!kept_) ::unlink(name_.c_str());
  }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(target_, "write");
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  void finish() {
    if (::fsync(descriptor_) != 0) fail(target_, "write");
    const int closed = ::close(std::exchange(descriptor_, -1));
    if (closed != 0) fail(target_, "write");
  }

  void replace() {
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail(target_, "write");
    kept_ = true;
    sync_folder();
  }

  /// Takes the final name if it is free: a hard link never replaces.
  void claim() {
    if (::link(name_.c_str(), target_.c_str()) == 0) {
      ::unlink(name_.c_str());  // now, not after the sync: a run killed in between would leave the second name
      return sync_folder();
    }
    if (errno == EPERM || errno == EOPNOTSUPP) {  // no hard links here: reserve the name, then replace the empty file
      const int reserved = ::open(target_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (reserved >= 0) {
        ::close(reserved);
        return replace();
      }
    }
    if (errno == EEXIST)
      throw Error(ErrorKind::Usage, format("{} exists and is never overwritten", target_),
                  "name another output, or go on with it with --resume");
    fail(target_, "make");
  }

 private:
  /// Makes the new name survive a crash of the machine.
  void sync_folder() const {
    const auto slash = target_.rfind('/');
    const std::string folder = slash == target_.npos ? "." : target_.substr(0, slash + 1);
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
  }

  std::string target_, name_;
  int descriptor_ = -1;
  bool kept_ = false;
};

}  // namespace

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  Temporary file(path, ".tmp", O_TRUNC);
  for (const auto part : parts) file.append(part);
  file.finish();
  file.replace();
}

void write_file(const std::string& path, std::span<const std::byte> bytes) { write_file(path, std::span(&bytes, 1)); }

void write_file(const std::string& path, std::string_view text) { write_file(path, std::as_bytes(std::span(text))); }

void create_file(const std::string& path, std::span<const std::byte> bytes) {
  Temporary file(path, format(".{}.tmp", random_hex(8)), O_EXCL);  // a name of its own, because two processes may be here at once
  file.append(bytes);
  file.finish();
  file.claim();
}

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::string random_hex(size_t length) {
  std::random_device random;
  std::string text;
  while (text.size() < length) text += format("{:08x}", random());
  return text.substr(0, length);
}

}  // namespace megatoken
