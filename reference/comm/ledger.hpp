// The byte ledger: what one rank sent and received, by operation, phase and peer. Copies to oneself are not traffic.
// Collectives are booked by the ring-optimal convention: (n−1)/n of the full buffer for all_gather, reduce_scatter and
// all_to_all, twice that for all_reduce; broadcast: the root sends the buffer once, every other rank receives it; all_to_all_v and
// point-to-point by what was passed to send. A share that is not a whole number of bytes is rounded down. One rank alone has no traffic.
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
  int64_t messages;       // point-to-point messages sent; 1 for a collective
};

class Ledger {
 public:
  void set_phase(std::string phase) { phase_ = std::move(phase); }
  const std::string& phase() const { return phase_; }
  void add(const std::string& operation, int peer, int64_t sent, int64_t received, int64_t messages) {
    transfers_.push_back({operation, phase_, peer, sent, received, messages});
  }
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
