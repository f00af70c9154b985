#include "datasets/records.hpp"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "/verified.tsv";
constexpr char kHeader[] = "path\tfile_bytes\tfile_time\tsha256\tbytes\tsymbols\tunknown\tlower_case\tlabel";

int64_t file_time(const std::string& path) {  // nanoseconds since 1970
  return static_cast<int64_t>(std::chrono::file_clock::to_sys(fs::last_write_time(path)).time_since_epoch().count());
}

bool parse_number(const std::string& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Records::Records(const std::string& folder) : folder_(folder) {
  std::ifstream file(folder_ + kFile);
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line == kHeader) continue;
    const std::vector<std::string> f = split(line, '\t');
    Record r{};
    const bool good = f.size() == 9 && f[3].size() == 64 && parse_number(f[1], r.size) && parse_number(f[2], r.time) &&
                      parse_number(f[4], r.facts.content.bytes) && parse_number(f[5], r.facts.symbols) && parse_number(f[6], r.facts.unknown) &&
                      parse_number(f[7], r.facts.lower_case);
    if (!good)
      throw Error(ErrorKind::Usage, format("{}{} is damaged at line {}", folder_, kFile, number), "delete it: everything is verified anew");
    r.facts.content.sha256 = f[3];
    r.facts.label = f[8];
    records_[f[0]] = r;
  }
}

const DataFacts* Records::unchanged(const std::string& path) const {
  const auto found = records_.find(path);
  if (found == records_.end()) return nullptr;
  std::error_code missing;
  const auto size = fs::file_size(folder_ + "/" + path, missing);
  if (missing || static_cast<int64_t>(size) != found->second.size) return nullptr;
  return file_time(folder_ + "/" + path) == found->second.time ? &found->second.facts : nullptr;
}

std::string Records::pinned_sha256(const std::string& path) const {
  const auto found = records_.find(path);
  return found == records_.end() ? "" : found->second.facts.content.sha256;
}

void Records::put(const std::string& path, const DataFacts& facts) {
  const std::string whole = folder_ + "/" + path;
  records_[path] = {static_cast<int64_t>(fs::file_size(whole)), file_time(whole), facts};
  const std::string final_name = folder_ + kFile, temporary = final_name + ".tmp";
  {
    std::ofstream file(temporary);
    file << kHeader << "\n";
    for (const auto& [name, r] : records_)
      file << name << '\t' << r.size << '\t' << r.time << '\t' << r.facts.content.sha256 << '\t' << r.facts.content.bytes << '\t' << r.facts.symbols
           << '\t' << r.facts.unknown << '\t' << r.facts.lower_case << '\t' << r.facts.label << '\n';
    if (!file.flush()) throw Error(ErrorKind::Environment, format("cannot write {}", temporary), "is the disk full or read-only?");
  }
  fs::rename(temporary, final_name);
}

}  // namespace megatoken
