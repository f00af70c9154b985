#include "harness/store/result_io.hpp"

#include <algorithm>
#include <numeric>

#include "harness/store/hdf5.hpp"

namespace megatoken {
namespace {

constexpr const char* kTensors = "tensors";
constexpr const char* kProvenance = "provenance";
constexpr const char* kDamaged = "the file is damaged; restore it or make it again";

void write_table(hdf5::Group& file, const Table& table) {
  auto group = file.create_group(table.name());
  std::vector<int64_t> numbers(static_cast<size_t>(table.rows()));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  auto scale = group.create_column(table.schema().dimension, numbers, ColumnType::Int);
  scale.set_attributes({{"long_name", format("row of /{}", table.name())}, {"units", "1"}});
  scale.make_scale(table.schema().dimension);
  std::vector<std::string> names;
  for (const auto& column : table.columns()) {
    auto dataset = group.create_column(column.schema.name, column.data, column.schema.type);
    dataset.set_attributes({{"long_name", column.schema.meaning}, {"units", column.schema.units}});
    dataset.attach_scale(scale);
    names.push_back(column.schema.name);
  }
  group.set_attributes({{"table", 1}, {"columns", names}, {"dimension", table.schema().dimension}, {"long_name", table.schema().meaning}});
}

/// A column of the file, in the order and with the words of the file where the schema does not know it.
Column read_column(const hdf5::Group& group, const std::string& name, const TableSchema* known) {
  const auto dataset = group.dataset(name);
  if (known)
    for (const auto& schema : known->columns)
      if (schema.name == name) return {schema, dataset.column(schema.type)};
  const auto attributes = dataset.attributes();
  const ColumnType type = dataset.column_type();
  return {{name, type, text_field(attributes, "units"), text_field(attributes, "long_name")}, dataset.column(type)};
}

Table read_table(const hdf5::Group& group, const std::string& name) {
  const auto attributes = group.attributes();
  const Value* listed = find_field(attributes, "columns");
  const auto* names = listed ? listed->if_is<std::vector<std::string>>() : nullptr;
  if (!names) group.place().fail("read the list of columns");
  const TableSchema* known = result_schema().find(name);
  TableSchema schema{name, text_field(attributes, "dimension"), text_field(attributes, "long_name"), false, {}};
  if (known) schema = *known;
  std::vector<Column> columns;
  for (const auto& column : *names) columns.push_back(read_column(group, column, known));
  const int64_t rows = columns.empty() ? 0 : length(columns[0]);
  for (const auto& column : schema.columns) {  // columns this program knows and the (older) file lacks are missing in every row
    if (std::ranges::find(*names, column.name) != names->end()) continue;
    columns.push_back(make_column(column));
    resize(columns.back(), rows);
  }
  try {
    return Table(std::move(schema), std::move(columns));
  } catch (const Error& error) {
    throw Error(ErrorKind::Usage, format("{}: {}", group.place().file, error.message()), kDamaged);
  }
}

/// Refuses files of other programs and of newer versions.
void check_version(const hdf5::File& file) {
  const auto& schema = result_schema();
  const std::string& name = file.place().file;
  const auto attributes = file.attributes();
  if (text_field(attributes, "schema") != schema.name)
    throw Error(ErrorKind::Usage, format("{} is an HDF5 file, but no result file of megatoken", name), "name a file that megatoken wrote");
  const auto version = text_field(attributes, "schema_version");
  const auto [major, minor] = parse_version(version);
  if (major < 1) throw Error(ErrorKind::Usage, format("{} has no valid schema_version ('{}')", name, version), kDamaged);
  if (major > parse_version(schema.version).first)
    throw Error(ErrorKind::Usage, format("{} has schema {}, this program reads {}", name, version, schema.version),
                "use a newer megatoken");
}

std::string row_name(int64_t result) { return format("{}", result); }

}  // namespace

std::vector<std::byte> encode_results(const std::string& path, const ResultData& data, const std::string& previous,
                                      std::span<const SavedTensor> unsaved) {
  auto file = hdf5::File::in_memory(path);
  {
    file.set_attributes(data.attributes);
    file.create_group(kProvenance).set_attributes(data.provenance);
    for (const auto& table : data.tables) write_table(file, table);
    if (!previous.empty()) {
      const auto old = hdf5::File::open(previous);
      if (old.has(kTensors)) file.copy_from(old, kTensors);
    }
    for (const auto& saved : unsaved) {
      auto tensors = file.has(kTensors) ? file.group(kTensors) : file.create_group(kTensors);
      const auto row = row_name(saved.result);
      auto group = tensors.has(row) ? tensors.group(row) : tensors.create_group(row);
      group.create_tensor(saved.name, saved.tensor).set_attributes({{"layout", saved.layout}, {"role", saved.role}});
    }
  }
  return std::move(file).image();
}

ResultData decode_results(const std::string& path) {
  const auto file = hdf5::File::open(path);
  check_version(file);
  ResultData data{file.attributes(), {}, {}};
  if (file.has(kProvenance)) data.provenance = file.group(kProvenance).attributes();
  for (const auto& name : file.names()) {
    if (!file.is_group(name)) continue;
    const auto group = file.group(name);
    if (group.has_attribute("table")) data.tables.push_back(read_table(group, name));
  }
  for (const auto& schema : result_schema().tables)  // tables that came into the schema after the file was written
    if (!file.has(schema.name)) data.tables.emplace_back(schema);
  return data;
}

std::vector<std::string> list_tensors(const std::string& path) {
  const auto file = hdf5::File::open(path);
  std::vector<std::string> names;
  if (!file.has(kTensors)) return names;
  const auto tensors = file.group(kTensors);
  for (const auto& row : tensors.names())
    for (const auto& name : tensors.group(row).names()) names.push_back(row + "/" + name);
  return names;
}

std::vector<SavedTensor> read_tensors(const std::string& path, int64_t result) {
  const auto file = hdf5::File::open(path);
  std::vector<SavedTensor> saved;
  if (!file.has(kTensors) || !file.group(kTensors).has(row_name(result))) return saved;
  const auto group = file.group(kTensors).group(row_name(result));
  for (const auto& name : group.names()) {
    const auto dataset = group.dataset(name);
    const auto attributes = dataset.attributes();
    saved.push_back({result, name, text_field(attributes, "layout"), text_field(attributes, "role"), dataset.tensor()});
  }
  return saved;
}

}  // namespace megatoken
