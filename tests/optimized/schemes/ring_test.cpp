// What is particular to the rings: traffic, memory, work in each step, precision, and public bug reports that a comparison at one size would miss.
#include "optimized/schemes/ring/ring.hpp"

#include <atomic>
#include <mutex>
#include <set>

#include "harness/check/tolerances.hpp"
#include "optimized/schemes/zigzag/zigzag.hpp"
#include "reference/core/documents.hpp"
#include "reference/schemes/balance.hpp"
#include "reference/schemes/traffic.hpp"
#include "tests/optimized/schemes/distance.hpp"
#include "tests/planted/wire.hpp"

namespace megatoken {
namespace {

const char* const kRings[] = {"ring", "zigzag"};
constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 8};

const Scheme& scheme(const std::string& name) { return find_scheme("attention", name); }
const Variant& cpu() { return find_variant("attention", "cpu"); }

Problem one_rank(const Problem& problem, DType dtype) {
  Problem result = problem.converted(dtype);
  run_variant(cpu(), result, Phase::Both);
  return result;
}

TEST(Ring, SendsExactlyWhatTheFormulaSays) {
  for (const char* name : kRings)
    for (int ranks : kRankCounts)
      for (DType dtype : {DType::F64, DType::F32, DType::BF16})
        for (const char* axes : {"b=2 t=64 h=4 hk=2 d=8", "b=1 t=43 h=3 hk=3 d=4 causal=0 docs=2"}) {
          SCOPED_TRACE(testing::Message() << name << " " << ranks << " ranks " << axes);
          const Problem whole = test::filled("attention", axes, dtype);
          const SchemeRun run = run_scheme(scheme(name), cpu(), whole, ranks, Phase::Both);
          const int64_t unit = name == std::string("zigzag") ? 2 * ranks : ranks, t = whole.axes()["t"];
          const AttentionTraffic traffic{.b = whole.axes()["b"], .n = (t + unit - 1) / unit * unit / ranks, .h = whole.axes()["h"], .hk = whole.axes()["hk"],
                                         .d = whole.axes()["d"], .element_bytes = size_of(dtype), .gradient_bytes = size_of(accumulator_of(dtype))};
          for (const Ledger& ledger : run.ledgers) {
            EXPECT_EQ(ledger.sent("fwd"), ring_bytes(traffic, ranks).forward);
            EXPECT_EQ(ledger.sent("bwd"), ring_bytes(traffic, ranks).backward);
            EXPECT_EQ(ledger.sent("fwd"), scheme(name).bytes_sent(whole.component(), whole.axes(), dtype, ranks, Phase::Forward));
            EXPECT_EQ(ledger.sent(), scheme(name).bytes_sent(whole.component(), whole.axes(), dtype, ranks, Phase::Both));
            EXPECT_EQ(ledger.received(), ledger.sent());
            EXPECT_EQ(ledger.messages("fwd"), 2 * (ranks - 1));  // k and v
            EXPECT_EQ(ledger.messages("bwd"), 4 * (ranks - 1));  // k, v, and the sums of dk, dv
          }
        }
}

TEST(Ring, TinyTrafficMatchesTheGoldenBytes) {
  const auto sent = [](const std::string& axes, DType dtype, int ranks, Phase phase) {
    const Component& c = find_component("attention");
    return scheme("ring").bytes_sent(c, c.complete(Axes::parse(axes)), dtype, ranks, phase);
  };
  EXPECT_EQ(sent("b=2 t=64 h=4 hk=2 d=8", DType::BF16, 4, Phase::Forward), 6144);
  EXPECT_EQ(sent("b=2 t=64 h=4 hk=2 d=8", DType::BF16, 4, Phase::Backward), 18432);
  EXPECT_EQ(sent("b=2 t=64 h=4 hk=2 d=8", DType::BF16, 2, Phase::Forward), 4096);
  EXPECT_EQ(sent("b=1 t=96 h=6 hk=2 d=16", DType::F32, 6, Phase::Forward), 20480);
  EXPECT_EQ(sent("b=1 t=96 h=6 hk=2 d=16", DType::F32, 6, Phase::Backward), 40960);
  EXPECT_EQ(sent("b=1 t=96 h=12 hk=3 d=16", DType::F32, 3, Phase::Forward), 24576);
  EXPECT_EQ(sent("b=1 t=131072 h=24 hk=4 d=256", DType::BF16, 8, Phase::Forward), 469762048);
  EXPECT_EQ(sent("b=1 t=131072 h=24 hk=4 d=256", DType::BF16, 8, Phase::Backward), 1409286144);
  EXPECT_EQ(sent("b=1 t=60 h=2 d=4 dv=10", DType::BF16, 3, Phase::Forward), 2 * 20 * 2 * (4 + 10) * 2);  // k and v of different widths
}

TEST(Ring, KeepsTwoReceivedBlocksAndTwoTravellingSumsAtMost) {  // A18
  for (const char* name : kRings)
    for (int ranks : {2, 3, 5, 8})
      for (Phase phase : {Phase::Forward, Phase::Backward}) {
        std::mutex lock;
        size_t most = 0;
        const Scheme watched = plant::with_exchanges(scheme(name), [&](const SchemeCall&) {
          return [&, buffers = std::set<void*>()](const std::vector<Message>& received, int) mutable {
            for (const auto& message : received) buffers.insert(message.tensor.data);
            const std::lock_guard guard(lock);
            most = std::max(most, buffers.size());
          };
        }, phase);
        run_scheme(watched, cpu(), test::filled("attention", "t=32 h=2 d=4", DType::BF16), ranks, Phase::Both);
        EXPECT_LE(most, phase == Phase::Forward ? 4u : 8u) << name << " on " << ranks;  // k and v count singly
      }
  // Scratch does not grow with the ranks at a fixed number of local rows.
  const Component& c = find_component("attention");
  const Axes local = c.complete(Axes::parse("t=64 h=2 d=8"));
  for (Phase phase : {Phase::Forward, Phase::Backward})
    EXPECT_EQ(scheme("zigzag").workspace(cpu(), local, DType::BF16, 2, phase), scheme("zigzag").workspace(cpu(), local, DType::BF16, 64, phase));
}

/// Rows × keys that the block variant was asked for, and what of it is visible, per rank and call.
struct Work {
  std::vector<std::vector<int64_t>> computed, visible;  // [rank][call]
};

Work work_of(const std::string& name, const Problem& whole, int ranks, Phase phase) {
  Work work{std::vector<std::vector<int64_t>>(static_cast<size_t>(ranks)), std::vector<std::vector<int64_t>>(static_cast<size_t>(ranks))};
  const Scheme watched = plant::with_block(scheme(name), [&](const Variant& block, int rank) {
    Variant counting = block;
    const auto count = [&work, rank](const Call& call) {
      const int64_t t = call.axes["t"], s = call.axes["s"];
      work.computed[static_cast<size_t>(rank)].push_back(t * s);
      work.visible[static_cast<size_t>(rank)].push_back(call.axes["causal"] ? t * (t + 1) / 2 : t * s);
    };
    if (phase == Phase::Forward) counting.forward = [count, run = block.forward](const Call& call) { count(call), run(call); };
    else counting.backward = [count, run = block.backward](const Call& call) { count(call), run(call); };
    return counting;
  });
  run_scheme(watched, cpu(), whole, ranks, Phase::Both);
  return work;
}

TEST(Ring, ComputesOnlyTheBlocksThatAreSeen) {
  for (Phase phase : {Phase::Forward, Phase::Backward})
    for (int ranks : kRankCounts) {
      const int64_t t = 6 * ranks, n = 6, a = 3;
      const Problem whole = test::filled("attention", format("t={} h=1 d=2", t));
      const Work ring = work_of("ring", whole, ranks, phase), zigzag = work_of("zigzag", whole, ranks, phase);
      for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
        EXPECT_EQ(ring.computed[rank], std::vector<int64_t>(rank + 1, n * n));
        std::vector<int64_t> steps(static_cast<size_t>(ranks), 2 * a * a);
        steps[phase == Phase::Forward ? 0 : steps.size() - 1] = n * n;  // the own block
        EXPECT_EQ(zigzag.computed[rank], steps);
      }
    }
}

TEST(Ring, WorkOfEveryStepIsWhatTheBalanceCountSays) {
  for (int ranks : kRankCounts) {
    const int64_t t = 8 * ranks;
    const auto counts = causal_pairs(TokenSplit::Zigzag, t, ranks);
    const Work work = work_of("zigzag", test::filled("attention", format("t={} h=1 d=2", t)), ranks, Phase::Forward);
    for (size_t step = 0; step < static_cast<size_t>(ranks); ++step)
      for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) EXPECT_EQ(work.visible[rank][step], counts.pairs[step][rank]);
  }
}

TEST(Ring, WithoutAMaskComputesEverythingInBothLayouts) {  // A13
  for (const char* name : kRings)
    for (const auto& rank : work_of(name, test::filled("attention", "t=24 h=1 d=2 causal=0"), 3, Phase::Forward).computed)
      EXPECT_EQ(rank, std::vector<int64_t>(3, 64));
}

TEST(Ring, ErrorAtBf16DoesNotGrowWithTheRanks) {  // A2
  const Problem whole = test::filled("attention", "b=1 t=128 h=4 hk=2 d=16 docs=2", DType::BF16);
  const Problem oracle = one_rank(whole, DType::F64), naive = one_rank(whole, DType::BF16);
  for (const char* name : kRings)
    for (const auto& result : kResults) {
      const double yardstick = distance(naive[result], oracle[result]).rms;
      for (int ranks : {1, 2, 4, 8, 16}) {
        const double error = distance(run_scheme(scheme(name), cpu(), whole, ranks, Phase::Both).result[result], oracle[result]).rms;
        EXPECT_LE(error, 1.02 * yardstick + 1e-7) << name << " " << result << " on " << ranks << " ranks";
      }
    }
}

TEST(Ring, IsWithinToleranceAtEveryDtypeWithEveryCpuVariant) {
  for (const Variant* block : variants_of("attention")) {
    if (block->device != Device::Cpu) continue;
    for (DType dtype : {DType::F32, DType::BF16, DType::F16})
      for (const char* distribution : {"normal", "aimed", "extreme"}) {
        const Problem whole = test::filled("attention", "b=2 t=61 h=4 hk=2 d=16 docs=3", dtype, distribution);
        const Problem oracle = one_rank(whole, DType::F64), naive = one_rank(whole, dtype);
        for (const char* name : kRings)
          for (int ranks : {1, 3, 8}) {
            const SchemeRun run = run_scheme(scheme(name), *block, whole, ranks, Phase::Both, 2);
            for (const auto& result : kResults) {
              const Tolerance gate = Tolerances::standard().lookup("attention", result, dtype, result[0] == 'd');
              const double limit = gate.factor * std::max(distance(naive[result], oracle[result]).rms, gate.floor);
              EXPECT_LE(distance(run.result[result], oracle[result]).rms, limit)
                  << block->label() << "@" << name << " " << to_string(dtype) << " " << distribution << " " << ranks << " ranks: " << result;
            }
          }
      }
  }
}

TEST(Ring, ExactInputsGiveExactResults) {
  for (const char* name : {"ring", "zigzag", "gather"})
    for (DType dtype : {DType::F64, DType::F32, DType::BF16})
      for (int ranks : kRankCounts) {
        const Problem whole = test::filled("attention", "b=2 t=75 h=4 hk=2 d=16 docs=3", dtype, "exact");
        const Problem oracle = one_rank(whole, DType::F64);
        const SchemeRun run = run_scheme(scheme(name), cpu(), whole, ranks, Phase::Both, 1, {.timeout = 30, .delay = 1e-4, .reorder = true});
        for (const char* result : {"o", "dq", "dk", "dv"}) EXPECT_EQ(distance(run.result[result], oracle[result]).wrong, 0) << name << " " << result;
        EXPECT_EQ(distance(run.result["lse"], convert(oracle["lse"], accumulator_of(dtype))).wrong, 0) << name;
      }
}

TEST(Ring, ScoresOfHundredsStayFinite) {  // A1: scale × 50
  for (const char* name : kRings)
    for (DType dtype : {DType::F64, DType::F32}) {
      const Problem whole = test::filled("attention", "b=1 t=61 h=2 d=16 docs=2 scale=12.5", dtype);
      const Problem oracle = one_rank(whole, DType::F64), naive = one_rank(whole, dtype);
      const SchemeRun run = run_scheme(scheme(name), cpu(), whole, 4, Phase::Both);
      for (const auto& result : kResults)
        EXPECT_LE(distance(run.result[result], oracle[result]).rms, std::max(1e-12, 3 * distance(naive[result], oracle[result]).rms)) << name << " " << result;
    }
}

TEST(Ring, RowsWithoutKeysGiveZeroMinusInfinityAndNoGradient) {  // A16
  for (const char* name : kRings)
    for (int ranks : {2, 3, 4}) {
      Problem whole = test::filled("attention", "b=2 t=29 h=2 d=4 docs=2");
      const std::set<int64_t> orphans{0, 7, 8, 28};
      for (int64_t row : orphans) whole["q_document"].as<int32_t>()[29 + row] = kPaddingDocument;
      const SchemeRun run = run_scheme(scheme(name), cpu(), whole, ranks, Phase::Both);
      run_variant(cpu(), whole, Phase::Both);
      expect_close(run.result, whole, 1e-12);
      for (int64_t row : orphans)
        for (int64_t h = 0; h < 2; ++h) {
          EXPECT_EQ(value_at(run.result["lse"], (2 + h) * 29 + row), -std::numeric_limits<double>::infinity());
          for (int64_t e = 0; e < 4; ++e) {
            EXPECT_EQ(value_at(run.result["o"], ((29 + row) * 2 + h) * 4 + e), 0);
            EXPECT_EQ(value_at(run.result["dq"], ((29 + row) * 2 + h) * 4 + e), 0);
          }
        }
    }
}

TEST(Ring, PackedDocumentsEqualDocumentsAlone) {  // A10
  const int64_t t = 31;
  for (const char* name : kRings) {
    const Problem packed = test::filled("attention", "b=1 t=31 h=2 d=4 docs=3");
    const SchemeRun run = run_scheme(scheme(name), cpu(), packed, 4, Phase::Both);
    const int32_t* document = packed["q_document"].as<int32_t>();
    for (int64_t begin = 0, end; begin < t; begin = end) {
      end = begin + 1;
      while (end < t && document[end] == document[begin]) ++end;
      const Problem alone = test::filled("attention", format("b=1 t={} h=2 d=4", end - begin));
      for (const char* field : {"q", "k", "v", "do"}) copy(packed[field].slice(1, begin, end), alone[field]);
      copy(packed["dlse"].slice(2, begin, end), alone["dlse"]);
      run_variant(cpu(), alone, Phase::Both);
      for (const char* field : {"o", "dq", "dk", "dv"}) EXPECT_LE(distance(run.result[field].slice(1, begin, end), alone[field]).rms, 1e-12) << field;
      EXPECT_LE(distance(run.result["lse"].slice(2, begin, end), alone["lse"]).rms, 1e-12);
    }
  }
}

TEST(Ring, ASecondLayerOnTheSameBuffersSeesItsOwnData) {  // A12
  for (const char* name : kRings) {
    const Problem first = test::filled("attention", "b=2 t=37 h=2 d=4 docs=2", DType::F64, "normal", 1), second = test::filled("attention", "b=2 t=37 h=2 d=4 docs=2", DType::F64, "normal", 2);
    const Scheme& truth = scheme(name);
    // Runs both layers forward, then both backward, in one workspace and on one communicator; the second layer's results are judged.
    const auto both_layers = [&](const std::function<void(const SchemeCall&)>& run, bool backward) {
      return [&first, run, backward](const SchemeCall& call) {
        const Problem other = shard(first, call.layout, call.communicator.rank(), backward);
        run({call.component, call.block, call.global, call.local, call.dtype, call.layout, other.views(), call.whole_index, call.communicator, call.context});
        run(call);
      };
    };
    run_variant(cpu(), first, Phase::Forward);
    Scheme two_layers = truth;
    two_layers.forward = both_layers(truth.forward, false);
    two_layers.backward = both_layers(truth.backward, true);
    expect_close(run_scheme(two_layers, cpu(), second, 4, Phase::Both).result, one_rank(second, DType::F64), 1e-12);
  }
}

TEST(Ring, GradientsHaveTheDtypeAndThePrecisionOfTheInputs) {  // A3
  const Problem whole = test::filled("attention", "t=40 h=2 d=8", DType::F16);
  for (const char* name : kRings) {
    const SchemeRun run = run_scheme(scheme(name), cpu(), whole, 4, Phase::Both);
    for (const auto& gradient : kBackward) {
      EXPECT_EQ(run.result[gradient].dtype, DType::F16);
      const Tensor narrow = convert(convert(run.result[gradient], DType::BF16), DType::F16);
      EXPECT_GT(distance(narrow, run.result[gradient]).wrong, run.result[gradient].size() / 2) << gradient << " looks like bf16";
    }
  }
}

TEST(Ring, GivesTheSameBitsWhateverTheTimingAndTheThreads) {
  const Problem whole = test::filled("attention", "b=2 t=45 h=4 hk=2 d=8 docs=2", DType::BF16);
  for (const char* name : kRings) {
    const SchemeRun calm = run_scheme(scheme(name), cpu(), whole, 5, Phase::Both);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const SchemeRun late = run_scheme(scheme(name), cpu(), whole, 5, Phase::Both, 3, {.timeout = 30, .delay = 1e-3, .reorder = true, .seed = seed});
      for (const auto& result : kResults) EXPECT_EQ(distance(late.result[result], calm.result[result]).wrong, 0) << name << " " << result;
    }
  }
}

TEST(Ring, BackwardAloneContinuesFromGivenOutputs) {
  const Problem whole = test::filled("attention", "b=1 t=33 h=2 d=4");
  const Problem oracle = one_rank(whole, DType::F64);
  run_variant(cpu(), whole, Phase::Forward);
  for (const char* name : kRings) {
    const SchemeRun run = run_scheme(scheme(name), cpu(), whole, 3, Phase::Backward);
    expect_close(run.result, oracle, 1e-12);
    EXPECT_EQ(run.ledgers[0].sent("fwd"), 0);
  }
}

TEST(Ring, AFailureAtAnyCallEndsTheRunWithTheRankNamed) {
  const Problem whole = test::filled("attention", "t=24 h=1 d=2");
  for (const char* name : kRings) {
    int64_t call = 0;
    for (bool failed = true; failed; ++call) {  // until there is no such call any more
      const std::string message = test::message_of([&] {
        run_scheme(scheme(name), cpu(), whole, 3, Phase::Both, 1, {.timeout = 30, .failure = Failure::Throws, .failing_rank = 1, .failing_call = call});
      });
      failed = !message.empty();
      EXPECT_TRUE(!failed || message.starts_with("rank 1: ")) << message;
      EXPECT_TRUE(!failed || message.find(format("(call {}): injected failure", call)) != message.npos) << message;
    }
    EXPECT_EQ(call - 1, 2 + 2 * (2 + 4));  // two barriers; start and wait of 2 exchanges forward and 4 backward
  }
}

TEST(Ring, ASilentRankIsReportedInTime) {
  const Problem whole = test::filled("attention", "t=24 h=1 d=2");
  for (const char* name : kRings)
    for (int64_t call : {1, 2, 6, 8}) {
      const std::string message = test::message_of([&] {
        run_scheme(scheme(name), cpu(), whole, 4, Phase::Both, 1, {.timeout = 0.1, .failure = Failure::Silent, .failing_rank = 2, .failing_call = call});
      });
      EXPECT_NE(message.find("last call of the missing one: rank 2: "), std::string::npos) << message;
    }
}

TEST(Ring, RefusesQueriesAndKeysOfDifferentSequences) {
  const Component& c = find_component("attention");
  for (const char* name : kRings)
    EXPECT_EQ(scheme(name).refuse(c, c.complete(Axes::parse("t=8 s=6 h=1 d=2")), 2), "t=8 and s=6 differ: queries and keys must be those of one sequence");
}

TEST(Ring, ABlockVariantThatCannotDoABlockIsNamed) {
  Variant picky = cpu();
  picky.refuse = [](const Axes& axes, DType) { return axes["t"] % 4 ? std::string("t must be a multiple of 4") : std::string(); };
  const Problem whole = test::filled("attention", "t=24 h=1 d=2");  // 6 rows a rank
  const std::string message = test::message_of([&] { run_scheme(scheme("zigzag"), picky, whole, 4, Phase::Forward); });
  EXPECT_NE(message.find("attention/cpu cannot compute a block of 6 queries and 6 keys: t must be a multiple of 4"), std::string::npos) << message;
}

}  // namespace
}  // namespace megatoken
