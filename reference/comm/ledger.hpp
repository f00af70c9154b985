// The byte ledger: what one rank sent and received, by operation, phase and peer. Copies to oneself are not traffic.
// Collectives are booked by the ring-optimal convention: (n−1)/n of the full buffer for all_gather, reduce_scatter and
// all_to_all, twice that for all_reduce, the buffer once for broadcast; point-to-point by what was passed to send.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace megatoken {

struct Transfer {
  std::string operation;  // "exchange" "all_gather" …
  std::string phase;      // what the caller set: "fwd" "bwd" "fwd/step 3"
  int peer;               // −1 for collectives
  int64_t sent, received; // bytes
};

class Ledger {
 public:
  void set_phase(std::string phase) { phase_ = std::move(phase); }
  void add(const std::string& operation, int peer, int64_t sent, int64_t received) { transfers_.push_back({operation, phase_, peer, sent, received}); }
  const std::vector<Transfer>& transfers() const { return transfers_; }
  /// Sums over transfers whose phase starts with `phase`.
  int64_t sent(const std::string& phase = "") const;
  int64_t received(const std::string& phase = "") const;
  int64_t messages(const std::string& phase = "") const;
  void clear() { transfers_.clear(); }

 private:
  std::string phase_;
  std::vector<Transfer> transfers_;
};

}  // namespace megatoken
