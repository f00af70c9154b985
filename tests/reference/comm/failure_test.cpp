// What goes wrong is said by every rank, soon, with the ranks and operations named; nothing hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "reference/comm/local.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using Operation = std::function<void(Communicator&)>;

Tensor ones(int64_t n, DType dtype = DType::F32) {
  Tensor tensor(dtype, {n});
  fill(tensor, 1);
  return tensor;
}

/// Every kind of call, between which the failing ones are placed.
std::vector<std::pair<std::string, Operation>> operations() {
  return {
      {"exchange", [](Communicator& c) { c.exchange({{ones(4), (c.rank() + 1) % c.size()}}, {{ones(4), (c.rank() + c.size() - 1) % c.size()}}); }},
      {"all_reduce", [](Communicator& c) { c.all_reduce(ones(4), Reduction::Sum); }},
      {"all_gather", [](Communicator& c) { c.all_gather(ones(4), ones(4 * c.size())); }},
      {"reduce_scatter", [](Communicator& c) { c.reduce_scatter(ones(4 * c.size()), ones(4)); }},
      {"all_to_all", [](Communicator& c) { c.all_to_all(ones(c.size()), ones(c.size())); }},
      {"all_to_all_v", [](Communicator& c) {
         const std::vector<int64_t> rows(static_cast<size_t>(c.size()), 1);
         c.all_to_all_v(ones(c.size()), rows, ones(c.size()), rows);
       }},
      {"broadcast", [](Communicator& c) { c.broadcast(ones(4), c.size() - 1); }},
      {"barrier", [](Communicator& c) { c.barrier(); }},
      {"split", [](Communicator& c) { c.split(0, 0)->barrier(); }},
  };
}

struct Outcome {
  std::string message;
  ErrorKind kind = ErrorKind::Usage;
  int failed_ranks = 0;
  double seconds = 0;
};

/// Runs `work` and counts the ranks that saw an error.
Outcome outcome(int ranks, const Operation& work, const LocalOptions& options) {
  std::atomic<int> failed{0};
  Outcome result;
  const auto start = std::chrono::steady_clock::now();
  try {
    run_ranks(ranks, [&](Communicator& c) {
      try {
        work(c);
      } catch (const std::exception&) {
        ++failed;
        throw;
      }
    }, options);
  } catch (const Error& error) {
    result.message = error.what();
    result.kind = error.kind();
  }
  result.failed_ranks = failed;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void expect_contains(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text; }

class EveryOperation : public testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  std::string name() const { return operations()[std::get<0>(GetParam())].first; }
  Operation operation() const { return operations()[std::get<0>(GetParam())].second; }
  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(EveryOperation, AFailingRankStopsAllOthers) {
  for (int rank = 0; rank < ranks(); ++rank)
    for (int64_t call : {0, 1, 2}) {  // exchange and split make two calls each round
      const Outcome result = outcome(ranks(), [&](Communicator& c) { for (int i = 0; i < 3; ++i) operation()(c); },
                                     {.timeout = 30, .failure = Failure::Throws, .failing_rank = rank, .failing_call = call});
      EXPECT_EQ(result.kind, ErrorKind::Environment);
      expect_contains(result.message, format("rank {}: ", rank));
      expect_contains(result.message, format("(call {}): injected failure", call));
      EXPECT_LT(result.seconds, 10) << "the others must not wait for the time limit";
      EXPECT_GE(result.failed_ranks, 1);
    }
}

TEST_P(EveryOperation, ASilentRankIsMissedWithinTheTimeLimit) {
  const int silent = ranks() - 1;
  const Outcome result = outcome(ranks(), [&](Communicator& c) { operation()(c), operation()(c); },
                                 {.timeout = 0.2, .failure = Failure::Silent, .failing_rank = silent, .failing_call = 0});
  EXPECT_EQ(result.kind, ErrorKind::Timeout);
  expect_contains(result.message, "waited 0.2 s for rank");
  expect_contains(result.message, format("last call of the missing one: rank {}: ", silent));
  EXPECT_EQ(result.failed_ranks, ranks() - 1);
  EXPECT_LT(result.seconds, 10);
}

TEST_P(EveryOperation, ARankThatReturnedEarlyIsNamedAtOnce) {
  const Outcome result = outcome(ranks(), [&](Communicator& c) {
    operation()(c);
    if (c.rank() != 0) operation()(c);
  }, {.timeout = 30});
  EXPECT_EQ(result.kind, ErrorKind::Environment);
  EXPECT_LT(result.seconds, 10);
  expect_contains(result.message, "which has already returned");
}

TEST_P(EveryOperation, AbortReachesEveryRank) {
  const Outcome result = outcome(ranks(), [&](Communicator& c) {
    if (c.rank() == ranks() - 1) c.abort("the loss is not a number");
    for (int i = 0; i < 3; ++i) operation()(c);
  }, {.timeout = 30});
  expect_contains(result.message, format("rank {}: aborted: the loss is not a number", ranks() - 1));
  EXPECT_EQ(result.failed_ranks, ranks());
}

TEST_P(EveryOperation, WorksUnderTheSameLoadWithoutFailures) {
  const Outcome result = outcome(ranks(), [&](Communicator& c) { for (int i = 0; i < 3; ++i) operation()(c); }, {.timeout = 30});
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(result.failed_ranks, 0);
}

INSTANTIATE_TEST_SUITE_P(Local, EveryOperation, testing::Combine(testing::Range<size_t>(0, operations().size()), testing::Values(2, 3, 5)), [](const auto& info) {
  return operations()[std::get<0>(info.param)].first + "_" + std::to_string(std::get<1>(info.param)) + "_ranks";
});

std::string message_on(int ranks, const Operation& work) { return outcome(ranks, work, {.timeout = 30}).message; }

TEST(Mismatch, OfOperationsNamesBoth) {
  const auto message = message_on(3, [](Communicator& c) {
    if (c.rank() == 2) c.all_gather(ones(4), ones(12));
    else c.all_reduce(ones(4), Reduction::Sum);
  });
  expect_contains(message, "rank 0 calls all_reduce(sum) of 16 bytes fp32, but rank 2 calls all_gather of 16 bytes fp32");
}

TEST(Mismatch, OfSizesDtypesReductionsAndRootsNamesBoth) {
  const auto size = message_on(2, [](Communicator& c) { c.all_reduce(ones(4 + c.rank()), Reduction::Sum); });
  expect_contains(size, "rank 0 calls all_reduce(sum) of 16 bytes fp32, but rank 1 calls all_reduce(sum) of 20 bytes fp32");
  const auto dtype = message_on(2, [](Communicator& c) { c.all_gather(ones(c.rank() ? 8 : 4, c.rank() ? DType::BF16 : DType::F32), ones(c.rank() ? 16 : 8, c.rank() ? DType::BF16 : DType::F32)); });
  expect_contains(dtype, "all_gather of 16 bytes fp32, but rank 1 calls all_gather of 16 bytes bf16");
  const auto reduction = message_on(2, [](Communicator& c) { c.all_reduce(ones(1), c.rank() ? Reduction::Max : Reduction::Sum); });
  expect_contains(reduction, "all_reduce(max)");
  const auto root = message_on(2, [](Communicator& c) { c.broadcast(ones(1), c.rank()); });
  expect_contains(root, "broadcast of 4 bytes fp32 from rank 0, but rank 1 calls broadcast of 4 bytes fp32 from rank 1");
}

TEST(Mismatch, OfMessagesNamesBoth) {
  const auto message = message_on(2, [](Communicator& c) { c.exchange({{ones(2), 1 - c.rank()}}, {{ones(c.rank() + 2), 1 - c.rank()}}); });
  expect_contains(message, "rank 0 sends 8 bytes fp32 to rank 1, which expects 12 bytes fp32");
}

TEST(Mismatch, OfRowsNamesBoth) {
  const auto message = message_on(2, [](Communicator& c) {
    const std::vector<int64_t> send{1, 2}, receive{c.rank() ? 2 : 1, c.rank() ? 2 : 1};
    c.all_to_all_v(ones(3), send, ones(receive[0] + receive[1]), c.rank() ? std::vector<int64_t>{3, 1} : receive);
  });
  expect_contains(message, "rank 0 sends 2 rows to rank 1, which expects 3");
}

TEST(Mismatch, OfAnExchangeWithACollectiveIsFoundWithoutWaiting) {
  const auto message = message_on(2, [](Communicator& c) {
    if (c.rank() == 0) c.exchange({}, {{ones(1), 1}});
    else c.barrier();
  });
  expect_contains(message, "rank 0: wait_exchange (call 1) waits for rank 1, which waits for rank 0 in barrier");
}

TEST(Mismatch, RanksThatWaitForEachOtherAreToldSo) {
  const auto result = outcome(2, [](Communicator& c) {  // both receive first
    c.exchange({}, {{ones(1), 1 - c.rank()}});
    c.exchange({{ones(1), 1 - c.rank()}}, {});
  }, {.timeout = 0.2});
  EXPECT_EQ(result.kind, ErrorKind::Timeout);
  expect_contains(result.message, "the ranks wait for each other");
}

TEST(Mismatch, ASendNobodyReceivesIsFound) {
  const auto message = message_on(2, [](Communicator& c) {
    if (c.rank() == 0) c.exchange({{ones(1), 1}}, {});
  });
  expect_contains(message, "rank 0: wait_exchange (call 1) waits for rank 1, which has already returned");
}

TEST(Misuse, ASendBufferThatChangesBeforeTheWaitIsReported) {
  const auto message = message_on(2, [](Communicator& c) {
    const Tensor out = ones(3), in = ones(3);
    c.start_exchange({{out, 1 - c.rank()}}, {{in, 1 - c.rank()}});
    if (c.rank() == 1) set_value(out, 2, 5);
    c.wait_exchange();
    c.barrier();
  });
  expect_contains(message, "rank 1: the tensor of 12 bytes fp32 sent to rank 0 changed between start_exchange and wait_exchange");
}

TEST(Misuse, IsRefusedWithAReason) {
  expect_contains(message_on(1, [](Communicator& c) { c.wait_exchange(); }), "wait_exchange without an exchange under way");
  expect_contains(message_on(1, [](Communicator& c) { c.start_exchange({}, {}), c.start_exchange({}, {}); }), "before the exchange under way was waited for");
  expect_contains(message_on(1, [](Communicator& c) { c.start_exchange({}, {}); }), "returned without wait_exchange");
  expect_contains(message_on(2, [](Communicator& c) { c.exchange({{ones(1), 2}}, {}); }), "send: there is no rank 2 among 2 ranks");
  expect_contains(message_on(2, [](Communicator& c) { c.broadcast(ones(1), -1); }), "there is no rank -1");
  expect_contains(message_on(2, [](Communicator& c) { c.all_gather(ones(2), ones(3)); }), "out must hold 2 times in, but they have 12 bytes fp32 and 8 bytes fp32");
  expect_contains(message_on(3, [](Communicator& c) { c.all_to_all(ones(4), ones(4)); }), "4 elements over 3 ranks: pieces must be equal");
  expect_contains(message_on(2, [](Communicator& c) { c.all_to_all_v(ones(3), {1, 1}, ones(2), {1, 1}); }), "the row counts of in add up to 2, the tensor has 3 rows");
  const Tensor square(DType::F32, {4, 4});
  expect_contains(message_on(1, [&](Communicator& c) { c.all_reduce(square->slice(1, 0, 2), Reduction::Sum); }), "a contiguous host tensor is needed, not one of shape [4, 2]");
  expect_contains(test::message_of([] { run_ranks(0, [](Communicator&) {}); }), "0 ranks asked for");
}

TEST(RunRanks, RethrowsTheRootCauseWithItsRankAndKind) {
  const auto work = [](Communicator& c) {
    if (c.rank() == 1) throw Error(ErrorKind::Timeout, "out of patience", "wait longer");
    c.barrier();
  };
  const Outcome result = outcome(4, work, {.timeout = 30});
  EXPECT_EQ(result.message, "rank 1: out of patience; wait longer");
  EXPECT_EQ(result.kind, ErrorKind::Timeout);
  EXPECT_EQ(result.failed_ranks, 4);
  EXPECT_EQ(outcome(2, [](Communicator&) { throw std::runtime_error("broken"); }, {}).message.substr(6), ": broken");
}

TEST(RunRanks, TellsTheOtherRanksWhoFailedAndWhy) {
  std::string heard;
  outcome(2, [&](Communicator& c) {
    if (c.rank() == 1) throw Error(ErrorKind::Usage, "no such head");
    try {
      c.barrier();
    } catch (const Error& error) {
      heard = error.what();
      throw;
    }
  }, {.timeout = 30});
  EXPECT_EQ(heard, "rank 0: barrier (call 0) stopped, because rank 1 failed: no such head");
}

TEST(RunRanks, ARankThatDiesAfterItsLastUseIsStillReported) {
  const Outcome result = outcome(2, [](Communicator& c) {
    c.barrier();
    if (c.rank() == 1) c.exchange({}, {});
  }, {.timeout = 30, .failure = Failure::Silent, .failing_rank = 1, .failing_call = 1});
  EXPECT_EQ(result.message, "rank 1: start_exchange (call 1) never came back");
}

TEST(RunRanks, FailuresInASplitReachRanksOfOtherGroups) {
  const Outcome result = outcome(4, [](Communicator& c) {
    const auto half = c.split(c.rank() % 2, 0);
    if (c.rank() == 3) throw Error(ErrorKind::Usage, "lost");
    for (int i = 0; i < 3; ++i) half->barrier(), c.barrier();
  }, {.timeout = 30});
  EXPECT_EQ(result.message, "rank 3: lost");
  EXPECT_EQ(result.failed_ranks, 4);
}

}  // namespace
}  // namespace megatoken
