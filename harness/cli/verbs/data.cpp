// megatoken data list|fetch|verify: what data there is, getting it, and holding it against its checksums.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "datasets/catalog.hpp"
#include "datasets/fetch.hpp"
#include "datasets/records.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/data_folders.hpp"
#include "harness/cli/verb.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

using Row = std::vector<std::string>;

void print_table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(i + 1 < row.size() ? widths[i] - row[i].size() + 2 : 0, ' ');
    std::cout << line << "\n";
  }
}

/// Where it is, or where it would come from.
std::string source_of(const CatalogEntry& entry) {
  if (entry.present()) return entry.file();
  std::string source = entry.set->source();
  if (entry.set->download > 0) source += format(", {}", format_bytes(static_cast<double>(entry.set->download)));
  if (entry.set->quick) source += ", quick";
  return source;
}

/// What the content is. A file verified before and unchanged since is not read again.
std::string label_of(const CatalogEntry& entry, int64_t& bytes) {
  try {
    const Records records(entry.folder);
    const DataFacts* known = records.unchanged(entry.path);
    const DataFacts facts = known ? *known : inspect_data(entry.file(), data_kind(entry.path));
    bytes = facts.content.bytes;
    return facts.label;
  } catch (const Error& error) {
    return error.message();
  }
}

int list(const std::vector<std::string>& arguments) {
  std::string folder;
  std::vector<std::string> names;
  parse_arguments("data list", "Data sets that can be fetched and files in the data folders.", {{"--data", "data folder (default: data)", &folder}},
                  {"NAME", "names or globs; all when none is given", &names}, arguments);
  const Catalog catalog(builtin_manifest(), data_folders(folder));
  std::vector<Row> rows{{"NAME", "STATE", "BYTES", "CONTENT", "WHAT", "SOURCE"}};
  for (const CatalogEntry* entry : catalog.select(names)) {
    const DataState state = data_state(*entry);
    int64_t bytes = entry->promised ? entry->promised->bytes : 0;
    const std::string content = state == DataState::Absent ? "-" : label_of(*entry, bytes);
    rows.push_back({entry->name, state == DataState::Absent ? "absent" : state == DataState::Present ? "present" : "verified",
                    bytes > 0 ? format("{}", bytes) : "?", content, entry->set ? entry->set->what : "-", source_of(*entry)});
  }
  print_table(rows);
  if (names.empty())
    for (const DataSet& set : builtin_manifest().sets)
      if (set.is_template()) std::cout << format("{}: {}, from {}\n", set.files[0].name(), set.what, set.source());
  return kPassed;
}

int fetch(const std::vector<std::string>& arguments) {
  std::string folder;
  bool again = false;
  std::vector<std::string> names;
  parse_arguments("data fetch", "Gets data sets into the data folder. What is there and right is not fetched again.",
                  {{"--data", "data folder (default: data)", &folder}, {"--again", "replace what is there", &again}},
                  {"NAME", "data sets; the quick ones (a few MB) when none is given", &names}, arguments);
  std::vector<DataSet> sets;
  for (const DataSet& set : builtin_manifest().sets)
    if (names.empty() && set.quick) sets.push_back(set);
  for (const std::string& name : names) {
    DataSet set = builtin_manifest().set_of(name);
    if (std::none_of(sets.begin(), sets.end(), [&](const DataSet& other) { return other.name == set.name; })) sets.push_back(std::move(set));
  }
  const bool is_new = !folder.empty() && !std::filesystem::exists(folder);
  const Catalog catalog(builtin_manifest(), data_folders(is_new ? "" : folder));
  const FetchOptions options{own_data_folder(folder), again, [](const std::string& line) { std::cout << line << std::endl; }};
  for (const DataSet& set : sets) fetch_data(set, catalog, options);
  return kPassed;
}

int verify(const std::vector<std::string>& arguments) {
  std::string folder;
  std::vector<std::string> names;
  parse_arguments("data verify", "Reads data files and holds them against their checksums; exit code 1 when one differs.",
                  {{"--data", "data folder (default: data)", &folder}},
                  {"NAME", "names or globs; all that is there when none is given", &names}, arguments);
  const Catalog catalog(builtin_manifest(), data_folders(folder));
  const bool own_is_writable = access(own_data_folder(folder).c_str(), W_OK) == 0;
  int64_t checked = 0, failed = 0;
  for (const CatalogEntry* entry : catalog.select(names)) {
    if (!entry->present()) continue;
    const Verification verification = verify_data(*entry);
    ++checked;
    failed += !verification.passed;
    const char* verdict = verification.passed ? "ok    " : "FAILED";
    std::cout << format("{}  {}: {} ({})", verdict, entry->name, verification.message, entry->file()) << std::endl;
    if (verification.passed && own_is_writable && entry->folder == own_data_folder(folder))
      Records(entry->folder).put(entry->path, verification.facts);
  }
  if (checked == 0)
    throw Error(ErrorKind::Usage,
                format("nothing to verify: {} not in {}", names.empty() ? "no data" : join(names, ", "), join(catalog.folders(), ", ")),
                "megatoken data fetch");
  std::cout << format("{} of {} files are right\n", checked - failed, checked);
  return failed == 0 ? kPassed : kWrongNumbers;
}

int run(const std::vector<std::string>& arguments) {
  const std::string action = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(arguments.begin() + !arguments.empty(), arguments.end());
  if (action == "list") return list(rest);
  if (action == "fetch") return fetch(rest);
  if (action == "verify") return verify(rest);
  if (action.starts_with("-")) parse_arguments("data", "data list, data fetch or data verify; each has its own --help.", {}, {}, arguments);
  if (action.empty()) throw Error(ErrorKind::Usage, "data needs an action", "megatoken data list, fetch or verify");
  throw_unknown_name("action of data", action, {"list", "fetch", "verify"});
}

static const Registered<Verb> registered{Verb{"data", "list, fetch and verify data sets", run}};

}  // namespace
}  // namespace megatoken
