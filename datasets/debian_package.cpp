#include "datasets/debian_package.hpp"

#include <unistd.h>

#include <filesystem>

#include "datasets/process.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> apt(const std::vector<std::string>& options, const std::vector<std::string>& words) {
  std::vector<std::string> command{"apt-get", "--quiet", "--yes"};
  if (geteuid() == 0) command.insert(command.end(), {"-o", "APT::Sandbox::User=root"});  // or it complains that _apt cannot write here
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

/// apt-get's reason lies among its warnings; its last words may only say that something failed.
std::string reason(const std::vector<ProcessResult>& results) {
  for (const ProcessResult& result : results)
    for (const std::string& line : split(result.errors, '\n'))
      if (line.find("Failed to fetch") != std::string::npos) return line;
  return results.back().last_error();
}

}  // namespace

void unpack_deb_files(const std::string& folder, const std::string& root) {
  fs::create_directories(root);
  for (const auto& item : fs::directory_iterator(folder)) {
    if (item.path().extension() != ".deb") continue;
    const ProcessResult unpacked = run_process({"dpkg-deb", "--extract", item.path().string(), root});
    if (unpacked.code != 0)
      throw Error(ErrorKind::Environment, format("cannot unpack {}: {}", item.path().filename().string(), unpacked.last_error()),
                  "is the disk full?");
  }
}

std::string unpack_debian_packages(const std::vector<std::string>& packages, const std::string& work) {
  const std::string here = fs::absolute(work).string();
  std::vector<std::string> words{"download"};
  words.insert(words.end(), packages.begin(), packages.end());

  const ProcessResult first = run_process(apt({}, words), here);
  if (first.code != 0) {
    fs::create_directories(here + "/lists/partial");
    fs::create_directories(here + "/cache/archives/partial");
    const std::vector<std::string> own{"-o", "Dir::State::Lists=" + here + "/lists", "-o", "Dir::Cache=" + here + "/cache"};
    const ProcessResult updated = run_process(apt(own, {"update"}), here);
    const ProcessResult second = run_process(apt(own, words), here);
    if (second.code != 0)
      throw Error(ErrorKind::Environment,
                  format("cannot download the Debian package{} {}: {}", packages.size() > 1 ? "s" : "", join(packages, ", "),
                         reason({first, updated, second})),
                  "this needs Debian 12, a network and room on the disk; otherwise bring the files in a folder of your own and pass "
                  "--data FOLDER");
  }
  unpack_deb_files(here, here + "/root");
  return here + "/root";
}

}  // namespace megatoken
