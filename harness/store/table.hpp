// A column table in memory: rows go in as named values, columns come out as plain vectors. Result files are written from these
// and read back into these.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/store/schema.hpp"
#include "harness/store/value.hpp"

namespace megatoken {

/// Bool columns are kept as ints: 1, 0, −1 for missing.
using ColumnData = std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;

struct Column {
  ColumnSchema schema;
  ColumnData data;
};

class Table {
 public:
  explicit Table(TableSchema schema);
  /// From columns read from a file, all of the same length.
  Table(TableSchema schema, std::vector<Column> columns);

  const std::string& name() const { return schema_.name; }
  const TableSchema& schema() const { return schema_; }
  int64_t rows() const { return rows_; }
  const std::vector<Column>& columns() const { return columns_; }

  /// Appends a row and returns its number. What is not named is missing ("", −1, NaN). Every name in `fields` must be a column;
  /// `axes` may bring new ones (tables with axes only), which are missing in the rows before.
  /// An unknown name or a value of the wrong type is a usage Error and leaves the table as it was.
  int64_t append(const Fields& fields, const Fields& axes = {});
  /// Changes values of an existing row.
  void set(int64_t row, const Fields& fields);
  /// Drops the rows from `rows` on.
  void truncate(int64_t rows);

  /// Column by name; throws with the nearest names when there is none.
  const Column& column(std::string_view name) const;
  const Column* find(std::string_view name) const;
  /// Whole columns; throw when the column has another type. Bool columns are read as ints.
  const std::vector<int64_t>& ints(std::string_view name) const;
  const std::vector<double>& floats(std::string_view name) const;
  const std::vector<std::string>& strings(std::string_view name) const;
  /// One cell as text, for messages and printing: "1.5e-3", "true", "" when missing.
  std::string text(int64_t row, std::string_view name) const;

 private:
  struct Cell;
  std::vector<Cell> resolve(const Fields& fields, bool new_axes, std::vector<Column>& added) const;
  void store(int64_t row, std::vector<Cell> cells);
  template <class T>
  const std::vector<T>& typed(std::string_view name) const;

  TableSchema schema_;
  std::vector<Column> columns_;
  int64_t rows_ = 0;
};

/// An empty column of this schema.
Column make_column(ColumnSchema schema);
int64_t length(const Column& column);
/// Cuts the column to `rows`, or appends missing values until it has so many.
void resize(Column& column, int64_t rows);

}  // namespace megatoken
