#include "datasets/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "reference/core/error.hpp"

extern char** environ;

namespace megatoken {
namespace {

struct SpawnActions {
  posix_spawn_file_actions_t actions;
  SpawnActions() { posix_spawn_file_actions_init(&actions); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions); }
};

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::Environment, format("cannot make a pipe: {}", std::strerror(errno)));
  }
  ~Pipe() {
    close(ends[0]);
    close_write_end();
  }
  void close_write_end() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
};

}  // namespace

std::string ProcessResult::last_error() const {
  std::string last, line;
  for (char c : errors + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    line.clear();
  }
  return last.empty() ? "it said nothing" : last;
}

ProcessResult run_process(const std::vector<std::string>& command, const std::string& folder, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  Pipe errors;
  SpawnActions spawn;
  posix_spawn_file_actions_addopen(&spawn.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&spawn.actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&spawn.actions, errors.ends[1], 2);
  posix_spawn_file_actions_addchdir_np(&spawn.actions, folder.c_str());
  pid_t process = 0;
  const int failure = posix_spawnp(&process, arguments[0], &spawn.actions, nullptr, arguments.data(), environ);
  if (failure != 0)
    throw Error(ErrorKind::Environment, format("cannot run {}: {}", command[0], std::strerror(failure)), format("install {}", command[0]));
  errors.close_write_end();

  ProcessResult result;
  char block[4096];
  for (ssize_t got; (got = read(errors.ends[0], block, sizeof block)) > 0 || (got < 0 && errno == EINTR);)
    if (got > 0) result.errors.append(block, static_cast<size_t>(got));
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace megatoken
