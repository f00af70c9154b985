#include "datasets/download.hpp"

#include <filesystem>

#include "datasets/process.hpp"
#include "reference/core/error.hpp"

namespace megatoken {
namespace {

constexpr int kCouldNotResolve = 6, kCouldNotConnect = 7, kHttpError = 22, kWriteError = 23, kTimeout = 28, kRangeRefused = 33, kBadResume = 36;

ProcessResult curl(const std::string& url, const std::string& partial, bool resume) {
  std::vector<std::string> command{"curl", "--fail", "--location", "--silent", "--show-error", "--connect-timeout", "20", "--speed-limit", "1000",
                                   "--speed-time", "60", "--retry", "2", "--output", partial};
  if (resume) command.insert(command.end(), {"--continue-at", "-"});
  command.insert(command.end(), {"--url", url});
  return run_process(command);
}

std::string hint_for(int code) {
  if (code == kCouldNotResolve || code == kCouldNotConnect || code == kTimeout)
    return "is this machine online? Otherwise bring the file in a folder of your own and pass --data FOLDER";
  if (code == kWriteError) return "is the disk full or read-only?";
  if (code == kHttpError) return "the file is not at that address any more: bring it in a folder of your own and pass --data FOLDER";
  return "try again: what was received so far is kept";
}

}  // namespace

void download(const std::string& url, const std::string& partial) {
  const bool resume = std::filesystem::exists(partial);
  ProcessResult result = curl(url, partial, resume);
  // A server that cannot continue, or has nothing to add to a part that is longer than the file: once more from the start.
  if (resume && (result.code == kHttpError || result.code == kRangeRefused || result.code == kBadResume)) {
    std::filesystem::remove(partial);
    result = curl(url, partial, false);
  }
  if (result.code != 0) throw Error(ErrorKind::Environment, format("cannot download {}: {}", url, result.last_error()), hint_for(result.code));
}

}  // namespace megatoken
