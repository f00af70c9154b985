// The contents of a result file in memory, without its tensors.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/store/table.hpp"
#include "harness/store/value.hpp"

namespace megatoken {

struct ResultData {
  Fields attributes;  // of the file: schema, run_id, status, argv, …
  Fields provenance;  // of /provenance: commit, compiler, machine
  std::vector<Table> tables;

  /// Every table of the schema, empty.
  static ResultData empty();
  /// Table by name; throws with the nearest names when there is none.
  const Table& table(std::string_view name) const;
  Table& table(std::string_view name);
};

}  // namespace megatoken
