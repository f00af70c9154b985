#include "harness/store/export.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/core/error.hpp"

namespace megatoken {

void write_json(const ResultData& data, const std::string& path) {
  nlohmann::ordered_json root;
  for (const Table& table : data.tables) {
    if (table.rows() == 0) continue;
    auto& rows = root[table.name()] = nlohmann::ordered_json::array();
    for (int64_t row = 0; row < table.rows(); ++row) {
      nlohmann::ordered_json object;
      for (const Column& column : table.columns())
        std::visit(
            [&](const auto& values) {
              const auto& value = values[static_cast<size_t>(row)];
              using T = std::decay_t<decltype(value)>;
              if constexpr (std::is_same_v<T, double>) {
                if (std::isfinite(value)) object[column.schema.name] = value;
              } else if constexpr (std::is_same_v<T, int64_t>) {
                if (value != -1) object[column.schema.name] = value;
              } else {
                if (!value.empty()) object[column.schema.name] = value;
              }
            },
            column.data);
      rows.push_back(std::move(object));
    }
  }
  const std::string part = path + ".tmp";
  std::ofstream out(part);
  out << root.dump(1) << "\n";
  out.close();
  if (!out || std::rename(part.c_str(), path.c_str()) != 0) {
    std::remove(part.c_str());
    throw Error(ErrorKind::Environment, "cannot write " + path, "check the folder and the free space");
  }
}

}  // namespace megatoken
