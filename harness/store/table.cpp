#include "harness/store/table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {

/// A value that fits its column.
struct Table::Cell {
  size_t column;
  std::variant<int64_t, double, std::string> value;
};

namespace {

using CellValue = std::variant<int64_t, double, std::string>;

/// The value as the column stores it; nothing when it does not fit. Integers may become floats, never the other way round.
std::optional<CellValue> fit(const Value& value, ColumnType type) {
  const auto* integer = value.if_is<int64_t>();
  const auto* flag = value.if_is<bool>();
  switch (type) {
    case ColumnType::String:
      if (const auto* text = value.if_is<std::string>()) return *text;
      break;
    case ColumnType::Int:
      if (integer) return *integer;
      break;
    case ColumnType::Float:
      if (const auto* number = value.if_is<double>()) return *number;
      if (integer) return static_cast<double>(*integer);
      break;
    case ColumnType::Bool:
      if (flag) return int64_t{*flag};
      if (integer && *integer >= -1 && *integer <= 1) return *integer;
      break;
  }
  return std::nullopt;
}

std::string type_name(const Value& value) {
  constexpr const char* kNames[] = {"int", "float", "bool", "string", "list of strings"};
  return kNames[value.variant().index()];
}

/// The column type of a new axis; a list of strings cannot be one.
ColumnType axis_type(const NamedValue& axis) {
  constexpr ColumnType kTypes[] = {ColumnType::Int, ColumnType::Float, ColumnType::Bool, ColumnType::String};
  const size_t index = axis.value.variant().index();
  MEGATOKEN_CHECK(index < std::size(kTypes), "axis '{}' is a list: an axis has one value per row", axis.name);
  return kTypes[index];
}

}  // namespace

Column make_column(ColumnSchema schema) {
  Column column{std::move(schema), std::vector<int64_t>{}};
  if (column.schema.type == ColumnType::Float) column.data = std::vector<double>{};
  if (column.schema.type == ColumnType::String) column.data = std::vector<std::string>{};
  return column;
}

int64_t length(const Column& column) {
  return std::visit([](const auto& data) { return static_cast<int64_t>(data.size()); }, column.data);
}

void resize(Column& column, int64_t rows) {
  const auto size = static_cast<size_t>(rows);
  if (auto* ints = std::get_if<std::vector<int64_t>>(&column.data)) ints->resize(size, -1);
  if (auto* floats = std::get_if<std::vector<double>>(&column.data)) floats->resize(size, std::numeric_limits<double>::quiet_NaN());
  if (auto* strings = std::get_if<std::vector<std::string>>(&column.data)) strings->resize(size);
}

Table::Table(TableSchema schema) : schema_(std::move(schema)) {
  for (const auto& column : schema_.columns) columns_.push_back(make_column(column));
}

Table::Table(TableSchema schema, std::vector<Column> columns) : schema_(std::move(schema)), columns_(std::move(columns)) {
  rows_ = columns_.empty() ? 0 : length(columns_.front());
  for (const auto& column : columns_)
    MEGATOKEN_CHECK(length(column) == rows_, "table '{}': column '{}' has {} rows, '{}' has {}", name(), column.schema.name, length(column),
                    columns_.front().schema.name, rows_);
}

int64_t Table::append(const Fields& fields, const Fields& axes) {
  std::vector<Column> added;
  auto cells = resolve(fields, false, added);
  auto axis_cells = resolve(axes, true, added);
  for (auto& column : added) {
    resize(column, rows_);
    columns_.push_back(std::move(column));
  }
  ++rows_;
  for (auto& column : columns_) resize(column, rows_);
  store(rows_ - 1, std::move(cells));
  store(rows_ - 1, std::move(axis_cells));
  return rows_ - 1;
}

void Table::set(int64_t row, const Fields& fields) {
  MEGATOKEN_CHECK(row >= 0 && row < rows_, "table '{}' has {} rows, row {} was to be changed", name(), rows_, row);
  std::vector<Column> added;
  store(row, resolve(fields, false, added));
}

void Table::truncate(int64_t rows) {
  rows_ = std::min(rows_, rows);
  for (auto& column : columns_) resize(column, rows_);
}

std::vector<Table::Cell> Table::resolve(const Fields& fields, bool new_axes, std::vector<Column>& added) const {
  std::vector<Cell> cells;
  for (const auto& field : fields) {
    const auto is_named = [&](const Column& column) { return column.schema.name == field.name; };
    auto index = static_cast<size_t>(std::ranges::find_if(columns_, is_named) - columns_.begin());
    if (index == columns_.size()) {
      if (!new_axes || !schema_.axes) (void)column(field.name);  // throws with the nearest names
      MEGATOKEN_CHECK(field.name != schema_.dimension, "axis '{}' is called like the dimension of table '{}'", field.name, name());
      const auto known = std::ranges::find_if(added, is_named);
      index += static_cast<size_t>(known - added.begin());
      if (known == added.end()) added.push_back(make_column({field.name, axis_type(field), "1", result_schema().axis_meaning(field.name)}));
    }
    const auto& schema = index < columns_.size() ? columns_[index].schema : added[index - columns_.size()].schema;
    auto value = fit(field.value, schema.type);
    MEGATOKEN_CHECK(value, "column '{}' of table '{}' holds {}, not {}", field.name, name(), to_string(schema.type),
                    type_name(field.value));
    cells.push_back({index, std::move(*value)});
  }
  return cells;
}

void Table::store(int64_t row, std::vector<Cell> cells) {
  for (auto& cell : cells)
    std::visit(
        [&](auto& value) {
          using T = std::remove_reference_t<decltype(value)>;
          std::get<std::vector<T>>(columns_[cell.column].data)[static_cast<size_t>(row)] = std::move(value);
        },
        cell.value);
}

const Column* Table::find(std::string_view name) const {
  const auto found = std::ranges::find_if(columns_, [&](const Column& column) { return column.schema.name == name; });
  return found == columns_.end() ? nullptr : &*found;
}

const Column& Table::column(std::string_view name) const {
  if (const auto* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const auto& column : columns_) names.push_back(column.schema.name);
  throw_unknown_name(format("column of table '{}'", schema_.name), name, names);
}

template <class T>
const std::vector<T>& Table::typed(std::string_view name) const {
  const auto& found = column(name);
  const auto* data = std::get_if<std::vector<T>>(&found.data);
  MEGATOKEN_CHECK(data, "column '{}' of table '{}' holds {}", name, schema_.name, to_string(found.schema.type));
  return *data;
}

const std::vector<int64_t>& Table::ints(std::string_view name) const { return typed<int64_t>(name); }
const std::vector<double>& Table::floats(std::string_view name) const { return typed<double>(name); }
const std::vector<std::string>& Table::strings(std::string_view name) const { return typed<std::string>(name); }

std::string Table::text(int64_t row, std::string_view name) const {
  const auto& found = column(name);
  MEGATOKEN_CHECK(row >= 0 && row < rows_, "table '{}' has {} rows, row {} was asked for", schema_.name, rows_, row);
  const auto index = static_cast<size_t>(row);
  if (const auto* strings = std::get_if<std::vector<std::string>>(&found.data)) return (*strings)[index];
  if (const auto* floats = std::get_if<std::vector<double>>(&found.data))
    return std::isnan((*floats)[index]) ? "" : format("{}", (*floats)[index]);
  const int64_t integer = std::get<std::vector<int64_t>>(found.data)[index];
  if (integer == -1) return "";
  if (found.schema.type == ColumnType::Bool) return integer ? "true" : "false";
  return format("{}", integer);
}

}  // namespace megatoken
