// The communicator `local`: ranks are threads of one process, so every scheme runs and is tested without GPUs, MPI or a second
// machine. Data is really copied. Injectable: random delays, delivery in another order, a rank that fails or silently stops.
//
// It is stricter than the contract asks, so that a mistake shows here and not on a cluster: a receive buffer is poisoned with NaN
// from start_exchange to wait_exchange, a send buffer that changes in between is reported, wait_exchange returns only when the
// peer has posted the matching receive (as with NCCL), and ranks that call different operations are told so, both named.
#pragma once
#include <functional>

#include "reference/comm/communicator.hpp"

namespace megatoken {

enum class Failure : uint8_t {
  None,
  Throws,  // the rank throws: the others hear of it
  Silent,  // the rank never comes back: the others must find out by themselves
};

struct LocalOptions {
  double timeout = 300;         // seconds that one call may wait for other ranks
  double delay = 0;             // longest pause before a call and before each delivery, in seconds; drawn anew every time
  bool reorder = false;         // messages of different peers arrive in random order; those of one pair never do
  uint64_t seed = 0;            // of delays and orders
  Failure failure = Failure::None;
  int failing_rank = 0;
  int64_t failing_call = 0;     // counted per rank from 0 over all its communicators: start_exchange, wait_exchange and every collective
};

/// Starts `ranks` threads, each with its communicator, and waits for all. When a rank fails, the others are stopped and its error is
/// thrown again with the rank named; the kind of error stays.
void run_ranks(int ranks, const std::function<void(Communicator&)>& work, const LocalOptions& options = {});

}  // namespace megatoken
