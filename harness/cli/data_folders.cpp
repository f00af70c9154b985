#include "harness/cli/data_folders.hpp"

#include <cstdlib>
#include <filesystem>

#include "reference/core/error.hpp"

namespace megatoken {

namespace {

void check_folder(const std::string& folder, const char* named_by) {
  if (!std::filesystem::is_directory(folder))
    throw Error(ErrorKind::Usage, format("{} names '{}', which is no folder", named_by, folder), "name a folder with books/ and genome/");
}

}  // namespace

std::string own_data_folder(const std::string& option) { return option.empty() ? "data" : option; }

std::vector<std::string> data_folders(const std::string& option) {
  std::vector<std::string> folders;
  if (!option.empty()) {
    check_folder(option, "--data");
    folders.push_back(option);
  }
  if (const char* given = std::getenv("MEGATOKEN_DATA"); given && *given) {
    check_folder(given, "MEGATOKEN_DATA");
    folders.push_back(given);
  }
  if (option != "data") folders.push_back("data");
  return folders;
}

}  // namespace megatoken
