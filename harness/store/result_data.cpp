#include "harness/store/result_data.hpp"

#include <algorithm>
#include <utility>

#include "reference/core/names.hpp"

namespace megatoken {

ResultData ResultData::empty() {
  ResultData data;
  for (const auto& schema : result_schema().tables) data.tables.emplace_back(schema);
  return data;
}

const Table& ResultData::table(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& table : tables) {
    if (table.name() == name) return table;
    names.push_back(table.name());
  }
  throw_unknown_name("table", name, names);
}

Table& ResultData::table(std::string_view name) { return const_cast<Table&>(std::as_const(*this).table(name)); }

}  // namespace megatoken
