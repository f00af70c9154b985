// Runs a program of the system (apt-get, dpkg-deb, curl) without a shell, so that no name or address is ever interpreted.
#pragma once
#include <string>
#include <vector>

namespace megatoken {

struct ProcessResult {
  int code = 0;        // exit code; 128 + signal when it was killed
  std::string errors;  // what it wrote to standard error

  std::string last_error() const;  // the last line of it that says something
};

/// `command[0]` is looked up on PATH. Standard output goes to `output` (a file that is replaced), or nowhere.
/// Throws an environment Error when the program does not exist.
ProcessResult run_process(const std::vector<std::string>& command, const std::string& folder = ".", const std::string& output = "/dev/null");

}  // namespace megatoken
