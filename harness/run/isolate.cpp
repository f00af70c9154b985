#include "harness/run/isolate.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

/// In the child: never returns. Only calls that are safe after fork.
[[noreturn]] void become(char* const* arguments, int64_t memory_limit) {
  if (memory_limit > 0) {
    const rlimit limit{static_cast<rlim_t>(memory_limit), static_cast<rlim_t>(memory_limit)};
    setrlimit(RLIMIT_AS, &limit);
  }
  const int null = open("/dev/null", O_RDWR);
  for (int stream : {0, 1, 2}) dup2(null, stream);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return format("the case's process was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return format("the case's process ended with code {} and no result", WEXITSTATUS(status));
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments, double timeout, int64_t memory_limit) {
  std::vector<char*> pointers;
  std::string program = "megatoken";
  pointers.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (auto& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const pid_t child = fork();
  if (child < 0) throw Error(ErrorKind::Environment, format("no process for an isolated case: {}", std::strerror(errno)), "close other programs, or run without --isolate");
  if (child == 0) become(pointers.data(), memory_limit);

  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (timeout > 0 && elapsed() > timeout) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return {"timeout", format("not done after {}", format_seconds(timeout)), elapsed()};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(elapsed() < 1 ? 2 : 20));
  }
  if (WIFSIGNALED(status)) return {WTERMSIG(status) == SIGKILL ? "oom" : "crash", describe_end(status), elapsed()};  // SIGKILL nobody here sent: the kernel's out-of-memory killer
  if (WEXITSTATUS(status) == 127) return {"crash", describe_end(status), elapsed()};
  return {"", describe_end(status), elapsed()};
}

}  // namespace megatoken
