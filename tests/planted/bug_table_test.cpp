// Holds the table of public bug reports in tests/README.md against what exists: every row once, every named test and planted fault there,
// every count right.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "harness/check/fault.hpp"
#include "reference/core/registry.hpp"

namespace megatoken {
namespace {

const std::map<std::string, std::pair<std::string, int>> kRows{{"glm53", {"", 45}}, {"kda", {"", 36}}, {"dsa", {"B", 44}}, {"parallel", {"F", 10}}};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Everything that the last column may name: tests as Suite.Name, faults by their label.
std::set<std::string> names_that_exist(const std::filesystem::path& tests) {
  std::set<std::string> names;
  const std::regex test(R"(TEST(?:_P|_F)?\((\w+),\s*(\w+)\))");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tests)) {
    if (!entry.path().string().ends_with("_test.cpp")) continue;
    const std::string text = read(entry.path());
    for (std::sregex_iterator match(text.begin(), text.end(), test), end; match != end; ++match) names.insert((*match)[1].str() + "." + (*match)[2].str());
  }
  for (const Fault* fault : Registry<Fault>::instance().all()) names.insert(fault->label());
  return names;
}

struct Counts {
  int covered = 0, missing = 0;
  std::string line() const { return std::to_string(covered + missing) + " rows: " + std::to_string(covered) + " covered, " + std::to_string(missing) + " not yet."; }
};

/// What is wrong with the table; "" when nothing is.
std::string complaints(const std::string& readme, const std::set<std::string>& names) {
  const std::regex row(R"(\| (glm53|kda|dsa|parallel) (\w+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|)"), quoted("`([^`]+)`");
  std::string found;
  std::map<std::string, Counts> counts;
  Counts all;
  std::set<std::string> seen;
  std::istringstream lines(readme);
  for (std::string line; std::getline(lines, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    const std::string key = cells[1].str() + " " + cells[2].str(), where = cells[5];
    if (!seen.insert(key).second) found += key + " stands there twice\n";
    const bool missing = where.starts_with("not yet: ");
    for (Counts* count : {&all, &counts[cells[1]]}) ++(missing ? count->missing : count->covered);
    int named = 0;
    for (std::sregex_iterator name(where.begin(), where.end(), quoted), end; name != end; ++name, ++named)
      if (!names.contains((*name)[1])) found += key + " names " + (*name)[1].str() + ", which does not exist\n";
    if (named == 0 && !missing) found += key + " names nothing and gives no reason\n";
  }
  for (const auto& [table, rows] : kRows) {
    for (int i = 1; i <= rows.second; ++i)
      if (const std::string key = table + " " + rows.first + std::to_string(i); seen.erase(key) == 0) found += key + " is missing\n";
    if (readme.find("\n" + counts[table].line() + "\n") == std::string::npos) found += table + " has " + counts[table].line() + "\n";
  }
  for (const auto& key : seen) found += key + " is no row of the collection\n";
  if (readme.find("\n" + all.line() + "\n") == std::string::npos) found += "all tables have " + all.line() + "\n";
  return found;
}

const std::filesystem::path kTests = std::filesystem::path(MEGATOKEN_SOURCE_DIR) / "tests";

TEST(BugTable, NamesWhatExists) { EXPECT_EQ(complaints(read(kTests / "README.md"), names_that_exist(kTests)), ""); }

TEST(BugTable, NoticesLostRowsNamesAndCounts) {
  const std::string readme = read(kTests / "README.md");
  const auto names = names_that_exist(kTests);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = readme;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return complaints(text.replace(at, from.size(), to), names);
  };
  EXPECT_NE(with("| kda 21 |", "| kda 20 |").find("kda 21 is missing"), std::string::npos);
  EXPECT_NE(with("| kda 21 |", "| kda 20 |").find("kda 20 stands there twice"), std::string::npos);
  EXPECT_NE(with("`kda:tail_rows_not_neutral`", "`kda:tail`").find("kda 21 names kda:tail, which does not exist"), std::string::npos);
  EXPECT_NE(with("`IndexTopk.VeryNegativeScoresAreStillCandidates`", "soon").find("dsa B12 names nothing"), std::string::npos);
  EXPECT_NE(with(" rows: ", " rows: 1").find("all tables have"), std::string::npos);
  EXPECT_NE(with("not yet: no paged caches", "`Kda.DoubledBetaReachesTwo`").find("glm53 has"), std::string::npos);
}

}  // namespace
}  // namespace megatoken
