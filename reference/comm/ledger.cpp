#include "reference/comm/ledger.hpp"

namespace megatoken {
namespace {

int64_t sum(const std::vector<Transfer>& transfers, const std::string& phase, int64_t Transfer::*value) {
  int64_t total = 0;
  for (const auto& transfer : transfers)
    if (transfer.phase.starts_with(phase)) total += transfer.*value;
  return total;
}

}  // namespace

int64_t Ledger::sent(const std::string& phase) const { return sum(transfers_, phase, &Transfer::sent); }
int64_t Ledger::received(const std::string& phase) const { return sum(transfers_, phase, &Transfer::received); }
int64_t Ledger::messages(const std::string& phase) const { return sum(transfers_, phase, &Transfer::messages); }

}  // namespace megatoken
