// Scratch folders and child processes for tests that damage files and kill writers.
#pragma once
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace megatoken {

/// A folder of its own that goes away with the object.
class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "megatoken-store-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder_); }
  const std::filesystem::path& folder() const { return folder_; }
  std::string file(const std::string& name) const { return folder_ / name; }
  /// Names in the folder, sorted, for "nothing is left behind".
  std::string listing() const {
    std::string names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names += entry.path().filename().string() + " ";
    return names;
  }

 private:
  std::filesystem::path folder_;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put_bytes(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// Runs `work` in a child process and returns the text it returns; "died" when the child did not return.
template <class Work>
std::string in_child(Work&& work) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& error) {  // must not unwind into the test program
      text = std::string("threw ") + error.what();
    }
    const bool sent = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "died: " + text;
}

/// Mounts a small tmpfs over `folder`, seen by this (child) process only; false where that is not allowed.
inline bool mount_small(const std::string& folder, const std::string& options, unsigned long flags = 0) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", flags, options.c_str()) == 0;
}

}  // namespace megatoken
