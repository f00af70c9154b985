#include "harness/store/schema.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <toml++/toml.h>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {

extern const std::string_view kSchemaToml;  // harness/store/schema.toml, embedded by the build

namespace {

constexpr std::array<std::pair<ColumnType, const char*>, 4> kTypes{
    {{ColumnType::String, "string"}, {ColumnType::Int, "int"}, {ColumnType::Float, "float"}, {ColumnType::Bool, "bool"}}};

class SchemaParser {
 public:
  SchemaParser(std::string_view toml, const std::string& file) : file_(file) {
    try {
      root_ = toml::parse(toml, file);
    } catch (const toml::parse_error& error) {
      throw Error(ErrorKind::Usage, format("{}: line {}: {}", file, error.source().begin.line, error.description()));
    }
  }

  ResultSchema parse() const {
    only_keys(root_, {"schema", "version", "axes", "table"}, "the file");
    ResultSchema schema{.name = text(root_, "schema", "the file"), .version = text(root_, "version", "the file"), .tables = {}, .axes = {}};
    const auto* tables = root_["table"].as_array();
    const auto* axes = root_["axes"].as_table();
    check(tables && axes, "needs [axes] and at least one [[table]]");
    for (const auto& [name, meaning] : *axes) {
      check(meaning.is_string(), format("axis '{}' needs a text", name.str()));
      schema.axes.emplace_back(name.str(), meaning.as_string()->get());
    }
    std::set<std::string> names;
    for (const auto& node : *tables) {
      check(node.is_table(), "[[table]] expected");
      schema.tables.push_back(parse_table(*node.as_table()));
      check(names.insert(schema.tables.back().name).second, format("table '{}' is listed twice", schema.tables.back().name));
    }
    return schema;
  }

 private:
  TableSchema parse_table(const toml::table& node) const {
    TableSchema table{.name = text(node, "name", "a [[table]]"), .dimension = "", .meaning = "", .columns = {}};
    const std::string where = format("table '{}'", table.name);
    only_keys(node, {"name", "dimension", "meaning", "axes", "columns"}, where);
    table.dimension = text(node, "dimension", where);
    table.meaning = text(node, "meaning", where);
    table.axes = node["axes"].value_or(false);
    const auto* columns = node["columns"].as_array();
    check(columns, format("{} needs columns", where));
    std::set<std::string> names{table.dimension};  // the scale is a dataset of the same group, so no column may be called like it
    for (const auto& column : *columns) {
      table.columns.push_back(parse_column(column, where));
      check(names.insert(table.columns.back().name).second, format("{}: '{}' is taken twice", where, table.columns.back().name));
    }
    return table;
  }

  ColumnSchema parse_column(const toml::node& node, const std::string& where) const {
    const auto* entry = node.as_array();
    const auto is_text = [](const toml::node& word) { return word.is_string(); };
    check(entry && entry->size() == 4 && std::all_of(entry->begin(), entry->end(), is_text),
          format("{}: a column is [name, type, units, meaning]", where));
    const auto word = [&](size_t i) { return entry->get(i)->as_string()->get(); };
    const auto type = std::ranges::find(kTypes, word(1), [](const auto& known) { return std::string(known.second); });
    check(type != kTypes.end(), format("{}: column '{}' has type '{}', not string, int, float or bool", where, word(0), word(1)));
    return {.name = word(0), .type = type->first, .units = word(2), .meaning = word(3)};
  }

  std::string text(const toml::table& node, std::string_view key, const std::string& where) const {
    const auto value = node[key].value<std::string>();
    check(value && !value->empty(), format("{} needs '{}'", where, key));
    return *value;
  }

  void only_keys(const toml::table& node, const std::vector<std::string>& keys, const std::string& where) const {
    for (const auto& [key, value] : node)
      check(std::ranges::find(keys, key.str()) != keys.end(), format("{} has the unknown key '{}'", where, key.str()));
  }

  void check(bool good, const std::string& message) const { MEGATOKEN_CHECK(good, "{}: {}", file_, message); }

  std::string file_;
  toml::table root_;
};

}  // namespace

std::string to_string(ColumnType type) {
  return std::ranges::find(kTypes, type, &std::pair<ColumnType, const char*>::first)->second;
}

const TableSchema* ResultSchema::find(std::string_view name) const {
  const auto found = std::ranges::find(tables, name, &TableSchema::name);
  return found == tables.end() ? nullptr : &*found;
}

const TableSchema& ResultSchema::table(std::string_view name) const {
  if (const auto* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const auto& table : tables) names.push_back(table.name);
  throw_unknown_name("table", name, names);
}

std::string ResultSchema::axis_meaning(const std::string& axis) const {
  const auto found = std::ranges::find(axes, axis, &std::pair<std::string, std::string>::first);
  return found == axes.end() ? axis : found->second;
}

std::pair<int, int> parse_version(const std::string& version) {
  int major = 0, minor = 0, end = 0;
  const bool good = std::sscanf(version.c_str(), "%4d.%4d%n", &major, &minor, &end) == 2 && static_cast<size_t>(end) == version.size();
  return good && major >= 0 && minor >= 0 ? std::pair{major, minor} : std::pair{0, 0};
}

const ResultSchema& result_schema() {
  static const ResultSchema schema = parse_schema(kSchemaToml, "harness/store/schema.toml");
  return schema;
}

ResultSchema parse_schema(std::string_view toml, const std::string& file) { return SchemaParser(toml, file).parse(); }

std::string schema_markdown(const ResultSchema& schema) {
  std::string text;
  for (const auto& table : schema.tables) {
    text += format("{}### /{}\n\n{}; dimension `{}`{}.\n\n", text.empty() ? "" : "\n", table.name, table.meaning, table.dimension,
                   table.axes ? ", and one further column per axis that occurs" : "");
    text += "| column | type | units | meaning |\n|---|---|---|---|\n";
    for (const auto& column : table.columns)
      text += format("| {} | {} | {} | {} |\n", column.name, to_string(column.type), column.units, column.meaning);
  }
  return text;
}

}  // namespace megatoken
