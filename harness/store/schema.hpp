// The schema of a result file, read from schema.toml (which is compiled in): the only place that knows which tables and columns exist.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace megatoken {

enum class ColumnType { String, Int, Float, Bool };
std::string to_string(ColumnType type);

struct ColumnSchema {
  std::string name;
  ColumnType type = ColumnType::Float;
  std::string units, meaning;
};

struct TableSchema {
  std::string name;       // HDF5 group: "results"
  std::string dimension;  // name of the scale all columns share: "result"
  std::string meaning;
  bool axes = false;      // grows one column per axis that occurs
  std::vector<ColumnSchema> columns;
};

struct ResultSchema {
  std::string name, version;
  std::vector<TableSchema> tables;
  std::vector<std::pair<std::string, std::string>> axes;  // axis name → long name

  /// Throws a usage Error with the nearest names when there is no such table.
  const TableSchema& table(std::string_view name) const;
  const TableSchema* find(std::string_view name) const;
  /// "tokens" for t; the name itself for an axis the schema does not list.
  std::string axis_meaning(const std::string& axis) const;
};

/// "1.2" → {1, 2}; {0, 0} when it is no version.
std::pair<int, int> parse_version(const std::string& version);

/// The schema this program writes.
const ResultSchema& result_schema();
/// Parses schema.toml; unknown keys, types and doubled names are usage errors.
ResultSchema parse_schema(std::string_view toml, const std::string& file);
/// The tables of README.md, in Markdown.
std::string schema_markdown(const ResultSchema& schema);

}  // namespace megatoken
