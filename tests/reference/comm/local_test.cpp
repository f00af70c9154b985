// Every operation of the local communicator: what arrives, what the ledger books, over 1 to 8 ranks, with and without random delays.
#include "reference/comm/local.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <set>

namespace megatoken {
namespace {

constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 8};

/// Calls test(ranks, options) for every number of ranks, calmly and with delays and reordering.
template <class F>
void for_all(F test) {
  for (int ranks : kRankCounts)
    for (double delay : {0.0, 3e-4}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, delay " << delay);
      test(ranks, LocalOptions{.timeout = 30, .delay = delay, .reorder = delay > 0, .seed = static_cast<uint64_t>(ranks)});
    }
}

Tensor numbers(std::initializer_list<double> values, DType dtype = DType::F64) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  int64_t i = 0;
  for (double value : values) set_value(tensor, i++, value);
  return tensor;
}

/// A value that names its sender, receiver and place.
double mark(int from, int to, int64_t place) { return 10000 * from + 100 * to + static_cast<double>(place); }

Tensor marked(int from, int to, int64_t n) {
  Tensor tensor(DType::F32, {n});
  for (int64_t i = 0; i < n; ++i) set_value(tensor, i, mark(from, to, i));
  return tensor;
}

void expect_marked(const TensorView& tensor, int from, int to) {
  for (int64_t i = 0; i < tensor.size(); ++i) EXPECT_EQ(value_at(tensor, i), mark(from, to, i)) << "from " << from << " to " << to;
}

TEST(Local, RanksAreNumberedAndAllRun) {
  for_all([](int ranks, const LocalOptions& options) {
    std::mutex lock;
    std::set<int> seen;
    run_ranks(ranks, [&](Communicator& c) {
      EXPECT_EQ(c.size(), ranks);
      const std::lock_guard guard(lock);
      seen.insert(c.rank());
    }, options);
    EXPECT_EQ(static_cast<int>(seen.size()), ranks);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), ranks - 1);
  });
}

TEST(Local, ExchangeWithEveryPeerInBothDirections) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      std::vector<Tensor> out, in;
      std::vector<Message> sends, receives;
      for (int peer = 0; peer < ranks; ++peer) {  // to oneself too; sizes differ by pair, some are empty
        out.push_back(marked(c.rank(), peer, (c.rank() + 2 * peer) % 4));
        in.push_back(Tensor(DType::F32, {(peer + 2 * c.rank()) % 4}));
      }
      for (int peer = 0; peer < ranks; ++peer) {
        sends.push_back({out[static_cast<size_t>(peer)], peer});
        receives.push_back({in[static_cast<size_t>(peer)], peer});
      }
      c.exchange(sends, receives);
      int64_t sent = 0;
      for (int peer = 0; peer < ranks; ++peer) {
        expect_marked(in[static_cast<size_t>(peer)], peer, c.rank());
        if (peer != c.rank()) sent += out[static_cast<size_t>(peer)]->bytes();
      }
      EXPECT_EQ(c.ledger().sent(), sent);
      EXPECT_EQ(c.ledger().messages(), ranks - 1);
    }, options);
  });
}

TEST(Local, TwoRanksTellNextAndPreviousApartByOrder) {
  run_ranks(2, [](Communicator& c) {  // next and previous are the same peer
    const int peer = 1 - c.rank();
    const Tensor up = marked(c.rank(), 10, 3), down = marked(c.rank(), 20, 3), from_below(DType::F32, {3}), from_above(DType::F32, {3});
    c.exchange({{up, peer}, {down, peer}}, {{from_below, peer}, {from_above, peer}});
    expect_marked(from_below, peer, 10);
    expect_marked(from_above, peer, 20);
  }, {.timeout = 30, .delay = 1e-3, .reorder = true});
}

TEST(Local, MessagesOfOnePairNeverOvertake) {
  for (uint64_t seed = 0; seed < 10; ++seed)
    run_ranks(3, [](Communicator& c) {
      if (c.rank() < 2) {
        std::vector<Tensor> tensors;
        std::vector<Message> sends;
        for (int i = 0; i < 8; ++i) sends.push_back({tensors.emplace_back(marked(c.rank(), i, 2)), 2});
        c.exchange(sends, {});
      } else {
        std::vector<Tensor> tensors;
        std::vector<Message> receives;
        for (int i = 0; i < 16; ++i) receives.push_back({tensors.emplace_back(DType::F32, Dims{2}), i % 2});
        c.exchange({}, receives);
        for (int i = 0; i < 16; ++i) expect_marked(tensors[static_cast<size_t>(i)], i % 2, i / 2);
      }
    }, {.timeout = 30, .delay = 2e-4, .reorder = true, .seed = seed});
}

TEST(Local, ReceivesAreNaNUntilTheExchangeIsOver) {
  run_ranks(2, [](Communicator& c) {
    const Tensor out = marked(c.rank(), 0, 2), in = Tensor::zeros(DType::F32, {2});
    c.start_exchange({{out, 1 - c.rank()}}, {{in, 1 - c.rank()}});
    EXPECT_TRUE(std::isnan(value_at(in, 0)));
    c.wait_exchange();
    expect_marked(in, 1 - c.rank(), 0);
  });
}

TEST(Local, DataIsCopiedNotAliased) {
  run_ranks(2, [](Communicator& c) {
    const Tensor out = marked(c.rank(), 0, 2), in(DType::F32, {2}), gathered(DType::F32, {4});
    c.exchange({{out, 1 - c.rank()}}, {{in, 1 - c.rank()}});
    c.all_gather(out, gathered);
    fill(out, -1);
    c.barrier();
    expect_marked(in, 1 - c.rank(), 0);
    expect_marked(gathered->slice(0, 2, 4), 1, 0);
  });
}

TEST(Local, AllReduceSumsInRankOrderWithTheSameBitsEverywhere) {
  for_all([](int ranks, const LocalOptions& options) {
    for (DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
      std::vector<Tensor> results(static_cast<size_t>(ranks));
      run_ranks(ranks, [&](Communicator& c) {
        const Tensor x(dtype, {5});
        for (int64_t i = 0; i < 5; ++i) set_value(x, i, std::sin(static_cast<double>(7 * c.rank() + i)) * std::pow(10, (c.rank() * 3 + i) % 5));
        c.all_reduce(x, Reduction::Sum);
        results[static_cast<size_t>(c.rank())] = x;
        EXPECT_EQ(c.ledger().sent(), 2 * x->bytes() * (ranks - 1) / ranks);
        EXPECT_EQ(c.ledger().received(), c.ledger().sent());
      }, options);
      for (int64_t i = 0; i < 5; ++i) {
        Tensor sum(dtype, {1});
        for (int rank = 0; rank < ranks; ++rank) {
          Tensor term(dtype, {1});
          set_value(term, 0, std::sin(static_cast<double>(7 * rank + i)) * std::pow(10, (rank * 3 + i) % 5));
          set_value(sum, 0, rank == 0 ? value_at(term, 0) : value_at(sum, 0) + value_at(term, 0));
        }
        for (const auto& result : results) EXPECT_EQ(value_at(result, i), value_at(sum, 0)) << to_string(dtype);
      }
    }
  });
}

TEST(Local, AllReduceOfIntegersAndMaxima) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      const Tensor counts = numbers({1.0, 2.0 * c.rank(), 1e9}, DType::I64), largest = numbers({-5.0 - c.rank(), 3.0 * c.rank()}, DType::F32);
      c.all_reduce(counts, Reduction::Sum);
      c.all_reduce(largest, Reduction::Max);
      EXPECT_EQ(value_at(counts, 0), ranks);
      EXPECT_EQ(value_at(counts, 1), ranks * (ranks - 1));
      EXPECT_EQ(value_at(counts, 2), 1e9 * ranks);
      EXPECT_EQ(value_at(largest, 0), -5);
      EXPECT_EQ(value_at(largest, 1), 3 * (ranks - 1));
      const Tensor nan = numbers({c.rank() == ranks / 2 ? std::nan("") : 1.0});
      c.all_reduce(nan, Reduction::Max);
      EXPECT_TRUE(std::isnan(value_at(nan, 0)));
    }, options);
  });
}

TEST(Local, AllGatherPutsPiecesInRankOrder) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      const Tensor in = marked(c.rank(), 0, 3), out(DType::F32, {3 * ranks});
      c.all_gather(in, out);
      for (int rank = 0; rank < ranks; ++rank) expect_marked(out->slice(0, 3 * rank, 3 * rank + 3), rank, 0);
      EXPECT_EQ(c.ledger().sent(), (ranks - 1) * in->bytes());
      EXPECT_EQ(c.ledger().received(), (ranks - 1) * in->bytes());
    }, options);
  });
}

TEST(Local, ReduceScatterSumsAndKeepsTheOwnPiece) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      const Tensor in(DType::F32, {2 * ranks}), out(DType::F32, {2});
      for (int64_t i = 0; i < 2 * ranks; ++i) set_value(in, i, 100 * c.rank() + static_cast<double>(i));
      c.reduce_scatter(in, out);
      for (int64_t i = 0; i < 2; ++i) EXPECT_EQ(value_at(out, i), 100 * ranks * (ranks - 1) / 2 + ranks * (2 * c.rank() + static_cast<double>(i)));
      EXPECT_EQ(c.ledger().sent(), (ranks - 1) * out->bytes());
    }, options);
  });
}

TEST(Local, AllToAllTransposesThePieces) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      const Tensor in(DType::F32, {ranks, 2}), out(DType::F32, {ranks, 2});
      for (int peer = 0; peer < ranks; ++peer) copy(marked(c.rank(), peer, 2), in->slice(0, peer, peer + 1).reshape({2}));
      c.all_to_all(in, out);
      for (int peer = 0; peer < ranks; ++peer) expect_marked(out->slice(0, peer, peer + 1).reshape({2}), peer, c.rank());
      EXPECT_EQ(c.ledger().sent(), (ranks - 1) * 8);
    }, options);
  });
}

TEST(Local, AllToAllVMovesUnevenRowsAndNone) {
  for_all([](int ranks, const LocalOptions& options) {
    const auto rows = [](int from, int to) { return (3 * from + to) % 4 == 1 ? 0 : (from + 2 * to) % 3; };  // some pairs have nothing
    run_ranks(ranks, [&](Communicator& c) {
      std::vector<int64_t> send, receive;
      int64_t out_rows = 0, in_rows = 0;
      for (int peer = 0; peer < ranks; ++peer) {
        in_rows += send.emplace_back(rows(c.rank(), peer));
        out_rows += receive.emplace_back(rows(peer, c.rank()));
      }
      const Tensor in(DType::F32, {in_rows, 2}), out(DType::F32, {out_rows, 2});
      int64_t row = 0;
      for (int peer = 0; peer < ranks; ++peer)
        for (int64_t i = 0; i < send[static_cast<size_t>(peer)]; ++i, ++row)
          for (int64_t e = 0; e < 2; ++e) set_value(in, 2 * row + e, mark(c.rank(), peer, 2 * i + e));
      c.all_to_all_v(in, send, out, receive);
      row = 0;
      for (int peer = 0; peer < ranks; ++peer)
        for (int64_t i = 0; i < receive[static_cast<size_t>(peer)]; ++i, ++row)
          for (int64_t e = 0; e < 2; ++e) EXPECT_EQ(value_at(out, 2 * row + e), mark(peer, c.rank(), 2 * i + e));
      const auto self = static_cast<size_t>(c.rank());
      EXPECT_EQ(c.ledger().sent(), (in_rows - send[self]) * 8);
      EXPECT_EQ(c.ledger().received(), (out_rows - receive[self]) * 8);
    }, options);
  });
}

TEST(Local, BroadcastFromEveryRoot) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      for (int root = 0; root < ranks; ++root) {
        const Tensor x = marked(c.rank(), root, 3);
        c.ledger().clear();
        c.broadcast(x, root);
        expect_marked(x, root, root);
        EXPECT_EQ(c.ledger().sent(), ranks > 1 && c.rank() == root ? x->bytes() : 0);
        EXPECT_EQ(c.ledger().received(), c.rank() == root ? 0 : x->bytes());
      }
    }, options);
  });
}

TEST(Local, BarrierHoldsEveryoneUntilAllCame) {
  for_all([](int ranks, const LocalOptions& options) {
    std::atomic<int> arrived{0};
    run_ranks(ranks, [&](Communicator& c) {
      for (int round = 1; round <= 5; ++round) {
        ++arrived;
        c.barrier();
        EXPECT_GE(arrived.load(), round * ranks);
        c.barrier();
      }
      EXPECT_TRUE(c.ledger().transfers().empty());
    }, options);
  });
}

TEST(Local, SplitOrdersByKeyAndGroupsWorkSideBySide) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      const auto parity = c.split(c.rank() % 2, -c.rank());  // in reverse order
      const int members = (ranks + 1 - c.rank() % 2) / 2;
      ASSERT_EQ(parity->size(), members);
      EXPECT_EQ(parity->rank(), members - 1 - c.rank() / 2);
      const auto alone = parity->split(parity->rank(), 0);
      EXPECT_EQ(alone->size(), 1);
      const Tensor in = marked(c.rank(), 0, 1), out(DType::F32, {members});
      parity->all_gather(in, out);
      for (int i = 0; i < members; ++i) EXPECT_EQ(value_at(out, i), mark(c.rank() % 2 + 2 * (members - 1 - i), 0, 0));
      // Exchanges under way in both communicators at once.
      const Tensor a(DType::F32, {1}), b(DType::F32, {1});
      c.start_exchange({{in, (c.rank() + 1) % ranks}}, {{a, (c.rank() + ranks - 1) % ranks}});
      parity->exchange({{in, (parity->rank() + 1) % members}}, {{b, (parity->rank() + members - 1) % members}});
      c.wait_exchange();
      EXPECT_EQ(value_at(a, 0), mark((c.rank() + ranks - 1) % ranks, 0, 0));
      EXPECT_EQ(static_cast<int>(value_at(b, 0)) / 10000 % 2, c.rank() % 2);
      EXPECT_EQ(c.ledger().sent(), ranks > 1 ? 4 : 0);
      EXPECT_EQ(parity->ledger().sent(), members > 1 ? 4 * (members - 1) + 4 : 0);
    }, options);
  });
}

TEST(Local, EmptyTensorsPassThroughEveryOperation) {
  for_all([](int ranks, const LocalOptions& options) {
    run_ranks(ranks, [&](Communicator& c) {
      const Tensor in(DType::F32, {0, 4}), out(DType::F32, {0, 4});
      const std::vector<int64_t> none(static_cast<size_t>(ranks), 0);
      c.exchange({{in, (c.rank() + 1) % ranks}}, {{out, (c.rank() + ranks - 1) % ranks}});
      c.exchange({}, {});
      c.all_reduce(in, Reduction::Sum);
      c.all_gather(in, out);
      c.reduce_scatter(in, out);
      c.all_to_all(in, out);
      c.all_to_all_v(in, none, out, none);
      c.broadcast(in, 0);
      EXPECT_EQ(c.ledger().sent(), 0);
    }, options);
  });
}

TEST(Ledger, SumsByPhaseAndNamesOperationAndPeer) {
  run_ranks(3, [](Communicator& c) {
    const Tensor x = marked(0, 0, 4), y(DType::F32, {4});
    c.ledger().set_phase("fwd/step 0");
    c.exchange({{x, (c.rank() + 1) % 3}, {x, (c.rank() + 1) % 3}}, {{y, (c.rank() + 2) % 3}, {y, (c.rank() + 2) % 3}});
    c.ledger().set_phase("bwd");
    c.all_reduce(x, Reduction::Sum);
    EXPECT_EQ(c.ledger().sent("fwd"), 32);
    EXPECT_EQ(c.ledger().messages("fwd"), 2);
    EXPECT_EQ(c.ledger().sent("bwd"), 2 * 16 * 2 / 3);  // 21⅓, rounded down
    EXPECT_EQ(c.ledger().messages("bwd"), 1);
    EXPECT_EQ(c.ledger().sent(), 32 + 21);
    ASSERT_EQ(c.ledger().transfers().size(), 3u);  // one a peer, one a collective
    for (const auto& transfer : c.ledger().transfers())
      if (transfer.operation == "exchange") EXPECT_EQ(transfer.sent, transfer.peer == (c.rank() + 1) % 3 ? 32 : 0);
      else EXPECT_EQ(transfer.peer, -1);
  });
}

TEST(Local, StressOfMixedOperationsUnderDelays) {
  for (uint64_t seed = 1; seed <= 3; ++seed)
    run_ranks(4, [](Communicator& c) {
      const auto pair = c.split(c.rank() / 2, c.rank());
      for (int round = 0; round < 40; ++round) {
        const Tensor out = marked(c.rank(), round, 64), in(DType::F32, {64}), all(DType::F32, {256});
        c.start_exchange({{out, (c.rank() + 1 + round % 3) % 4}}, {{in, (c.rank() + 3 - round % 3) % 4}});
        const Tensor sum = numbers({1.0 * c.rank(), 1.0 * round});
        pair->all_reduce(sum, Reduction::Sum);
        EXPECT_EQ(value_at(sum, 0), c.rank() < 2 ? 1 : 5);
        c.wait_exchange();
        expect_marked(in, (c.rank() + 3 - round % 3) % 4, round);
        c.all_gather(in, all);
        expect_marked(all->slice(0, 0, 64), (3 - round % 3) % 4, round);
      }
    }, {.timeout = 60, .delay = 2e-4, .reorder = true, .seed = seed});
}

}  // namespace
}  // namespace megatoken
