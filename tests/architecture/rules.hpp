// The rules of the house, each a function from source files to complaints. rules_test.cpp shows that each can fail.
#pragma once
#include <map>
#include <regex>
#include <set>

#include "tests/architecture/source.hpp"

namespace megatoken::architecture {

using Complaints = std::vector<std::string>;

inline std::string at(const Source& source, size_t line, const std::string& what) { return source.path + ":" + std::to_string(line + 1) + ": " + what; }

struct Include {
  std::string file;
  bool quoted;
  size_t line;
};

inline std::vector<Include> includes_of(const Source& source) {
  static const std::regex pattern(R"(^#include\s*([<"])([^>"]+)[>"].*)");
  std::vector<Include> includes;
  std::smatch match;
  for (size_t i = 0; i < source.code.size(); ++i)
    if (std::regex_match(source.code[i], match, pattern)) includes.push_back({match[2], match[1] == "\"", i});
  return includes;
}

/// Each line of code that `pattern` is found in.
inline Complaints find_in_code(const Source& source, const std::regex& pattern, const std::string& what) {
  Complaints complaints;
  std::smatch match;
  for (size_t i = 0; i < source.code.size(); ++i)
    if (std::regex_search(source.code[i], match, pattern)) complaints.push_back(at(source, i, what + ": " + match.str()));
  return complaints;
}

/// harness → optimized → reference, harness → datasets → reference/core; optimized sees contracts, never implementations; paths from the root.
inline Complaints arrows(const Source& source) {
  static const std::map<std::string, std::vector<std::string>> allowed{
      {"reference", {"reference/"}},
      {"optimized", {"optimized/", "reference/"}},
      {"datasets", {"datasets/", "reference/core/"}},
      {"harness", {"harness/", "optimized/", "datasets/", "reference/"}},
      {"tests", {"tests/", "harness/", "optimized/", "datasets/", "reference/"}},
  };
  static const std::regex implementation(R"(reference/.*(\.(cpp|cu)|/(cpu|gpu)[^/]*\.(hpp|cuh)))");
  Complaints complaints;
  for (const auto& include : includes_of(source)) {
    if (!include.quoted) continue;
    const auto& folders = allowed.at(source.floor());
    if (std::ranges::none_of(folders, [&](const auto& folder) { return include.file.starts_with(folder); }))
      complaints.push_back(at(source, include.line, source.floor() + "/ may not include " + include.file));
    else if (source.floor() == "optimized" && std::regex_match(include.file, implementation))
      complaints.push_back(at(source, include.line, "optimized/ may include contracts of reference/, not implementations: " + include.file));
  }
  return complaints;
}

/// Libraries with one home: binary formats and transports, and those that cost seconds in every file that includes them.
inline Complaints homes(const Source& source) {
  static const std::vector<std::pair<std::regex, std::regex>> kHomes{
      {std::regex("hdf5.*\\.h|H5.*\\.h"), std::regex("harness/store/.*")},
      {std::regex("nccl\\.h|mpi\\.h"), std::regex("optimized/comm/.*")},
      {std::regex("CLI/.*"), std::regex("harness/cli/arguments\\.cpp")},
      {std::regex("toml\\+\\+/.*|nlohmann/.*"), std::regex(".*\\.cpp")},
      {std::regex("fmt/(?!core\\.h).*"), std::regex("reference/core/format\\.cpp")},
  };
  Complaints complaints;
  for (const auto& include : includes_of(source))
    for (const auto& [library, home] : kHomes)
      if (source.floor() != "tests" && std::regex_match(include.file, library) && !std::regex_match(source.path, home))
        complaints.push_back(at(source, include.line, include.file + " has another home"));
  return complaints;
}

/// 500 lines are an alarm. Kernels may be exempted here, by name.
inline Complaints length(const Source& source) {
  static const std::set<std::string> kExempt{};
  if (source.code.size() <= 500 || kExempt.contains(source.path)) return {};
  return {source.path + ": " + std::to_string(source.code.size()) + " lines, more than 500"};
}

/// Libraries do not print, exit or read the environment.
inline Complaints silence(const Source& source) {
  static const std::regex loud(
      R"(std::(cout|cerr|clog|print(ln)?)\b|(^|[^.>:\w]|\bstd::|(^|[^\w>])::)(printf|fprintf|puts|putchar|exit|_exit|quick_exit|getenv|secure_getenv|setenv)\s*\()");
  if (source.floor() != "reference" && source.floor() != "optimized") return {};
  return find_in_code(source, loud, "reference/ and optimized/ do not print, exit or read the environment");
}

/// 64-bit addresses in kernels. Three signs of 32-bit ones:
/// a stride, pitch or offset declared as a 32-bit variable (a constexpr, known at compile time, is fine);
/// a block index multiplied in a statement that widens nothing to int64_t;
/// two 32-bit variables multiplied inside a subscript.
inline Complaints wide_offsets(const Source& source) {
  static const std::string kNarrow = R"(\b(?:int|unsigned|unsigned int|int32_t|uint32_t)\s+(?!\()(\w*)";
  static const std::regex stride(kNarrow + R"((?:stride|pitch|offset)\w*))"), variable(kNarrow + R"(\w)\b)");
  static const std::regex block(R"(blockIdx\s*\.\s*[xyz]\s*\*|\*\s*blockIdx\b)"), wide(R"(\bint64_t\b|\bsize_t\b)");
  static const std::regex subscript(R"(\[[^\]]*\])"), product(R"(([A-Za-z_]\w*)\s*\*\s*(?=([A-Za-z_]\w*)))");
  if (!source.is_kernel()) return {};
  Complaints complaints;
  std::set<std::string> narrow;
  using Matches = std::sregex_iterator;
  for (const auto& line : source.code)
    if (line.find("constexpr") == std::string::npos)
      for (Matches match(line.begin(), line.end(), variable), end; match != end; ++match) narrow.insert((*match)[1]);
  for (size_t i = 0; i < source.code.size(); ++i) {
    const std::string& line = source.code[i];
    if (line.find("constexpr") == std::string::npos && std::regex_search(line, stride))
      complaints.push_back(at(source, i, "strides and offsets are int64_t"));
    if (std::regex_search(line, block) && !std::regex_search(line, wide))
      complaints.push_back(at(source, i, "widen before multiplying: int64_t{blockIdx.x} * …"));
    for (Matches index(line.begin(), line.end(), subscript), end; index != end; ++index) {
      const std::string inside = index->str();
      for (Matches match(inside.begin(), inside.end(), product); match != end; ++match)
        if (narrow.contains((*match)[1]) && narrow.contains((*match)[2]))
          complaints.push_back(at(source, i, "32-bit product as an index: " + (*match)[1].str() + " * " + (*match)[2].str()));
    }
  }
  return complaints;
}

/// A file that needs one architecture's instructions says so in its name.
inline Complaints architecture_names(const Source& source) {
  if (source.floor() != "optimized" || source.extension() != ".cu") return {};
  Complaints complaints;
  for (const auto& [instruction, suffix] : {std::pair{"wgmma", "_sm90"}, std::pair{"tcgen05", "_sm100"}})
    if (!source.stem().ends_with(suffix))
      for (auto& complaint : find_in_code(source, std::regex(instruction), std::string("the name must end in ") + suffix + ".cu")) complaints.push_back(complaint);
  return complaints;
}

/// Headers are guarded; headers and kernels begin by saying what they hold.
inline Complaints introductions(const Source& source) {
  if (!source.is_header() && !source.is_kernel()) return {};
  Complaints complaints;
  if (!source.text.starts_with("//")) complaints.push_back(source.path + ": the first line is a comment that says what the file holds and why");
  if (source.is_header() && std::ranges::find(source.code, "#pragma once") == source.code.end()) complaints.push_back(source.path + ": #pragma once is missing");
  return complaints;
}

/// No work left for later.
inline Complaints leftovers(const Source& source) {
  static const std::regex kLeftover(R"(\b(TODO|FIXME|XXX|HACK)\b)");
  if (source.below("tests/architecture/")) return {};
  Complaints complaints;
  std::istringstream lines(source.text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line); ++number)
    if (std::regex_search(line, kLeftover)) complaints.push_back(at(source, number, "finish it or file it"));
  return complaints;
}

/// One type, one name: two types of one qualified name in one program are undefined behaviour that no compiler reports.
/// Relies on the house's layout: namespaces and their closing comments start at the margin, nothing inside them is indented.
inline Complaints one_definition(const std::vector<Source>& sources) {
  static const std::regex opens(R"(^(?:inline )?namespace\s*([\w:]*)\s*\{$)"), closes(R"(^\}\s*$)");
  static const std::regex type(R"(^(?:struct|class|enum class|enum|union)\s+(?:alignas\([^)]*\)\s+)?([\w:]+)[^;=<]*\{.*)");
  std::map<std::string, std::string> first_place;
  Complaints complaints;
  for (const auto& source : sources) {
    if (source.floor() == "tests" && !source.below("tests/planted/")) continue;  // each test folder is a program of its own
    std::vector<std::string> scope;
    std::istringstream lines(source.text);
    size_t number = 0;
    std::smatch match;
    for (std::string line; std::getline(lines, line); ++number) {
      if (std::regex_match(line, match, opens)) {
        scope.push_back(match[1]);
      } else if (line.starts_with("}  // namespace") && !scope.empty()) {
        scope.pop_back();
      } else if (std::regex_match(line, match, type) && std::ranges::find(scope, "") == scope.end()) {
        std::string name;
        for (const auto& part : scope) name += part + "::";
        name += match[1];
        const auto [place, is_new] = first_place.emplace(name, source.path);
        if (!is_new) complaints.push_back(at(source, number, name + " is defined in " + place->second + " too"));
      }
    }
  }
  return complaints;
}

}  // namespace megatoken::architecture
