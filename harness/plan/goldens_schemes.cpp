// Goldens of balance and traffic: causal pairs per card, and the bytes of every scheme.
#include <cmath>

#include "harness/plan/goldens.hpp"
#include "harness/plan/study.hpp"
#include "reference/core/format.hpp"
#include "reference/schemes/balance.hpp"
#include "reference/schemes/traffic.hpp"

namespace megatoken::plan {
namespace {

constexpr AttentionTraffic kAnchor{1, 131072 / 8, 24, 4, 256, 2, 4}, kLlama{1, 131072 / 8, 32, 8, 128, 2, 4};

AttentionTraffic bf16_gradients(AttentionTraffic a) {
  a.gradient_bytes = a.element_bytes;
  return a;
}

AttentionTraffic on(AttentionTraffic a, int64_t tokens, int64_t ranks) {
  a.n = tokens / ranks;
  return a;
}

void add_ring(GoldenTable& g) {
  g.bytes("R1", "ring backward, same direction, fp32 gradients, anchor on 8", ring_backward_bytes(kAnchor, 8, RingBackward::SameDirection),
          1543503872);
  g.bytes("R2", "ring backward, reverse direction, bf16 gradients", ring_backward_bytes(bf16_gradients(kAnchor), 8), 939524096);
  g.bytes("R3", "ring backward, reverse direction, fp32 gradients", ring_backward_bytes(kAnchor, 8), 1409286144);
  g.list("R4", "the three in units of one bf16 block",
         {ring_backward_bytes(kAnchor, 8, RingBackward::SameDirection) / kv_block_bytes(kAnchor),
          ring_backward_bytes(bf16_gradients(kAnchor), 8) / kv_block_bytes(kAnchor),
          ring_backward_bytes(kAnchor, 8) / kv_block_bytes(kAnchor)},
         {23, 14, 21});
  const struct {
    const char *id, *what;
    AttentionTraffic a;
    int64_t tokens, ranks;
    std::vector<int64_t> expected;
  } tiny[] = {{"R5", "b2 s64 h4 hk2 d8 bf16, 4 ranks", {2, 0, 4, 2, 8, 2, 4}, 64, 4, {6144, 22528, 12288}},
              {"R6", "the same, 2 ranks", {2, 0, 4, 2, 8, 2, 4}, 64, 2, {4096, 20480, 8192}},
              {"R7", "b1 s96 h6 hk2 d16 fp32, 2 ranks", {1, 0, 6, 2, 16, 4, 4}, 96, 2, {12288, 36864, 24576}},
              {"R8", "the same, 6 ranks", {1, 0, 6, 2, 16, 4, 4}, 96, 6, {20480, 45056, 40960}},
              {"R9", "b1 s96 h12 hk3 d16 fp32, 3 ranks", {1, 0, 12, 3, 16, 4, 4}, 96, 3, {24576, 61440, 49152}}};
  for (const auto& row : tiny) {
    const AttentionTraffic a = on(row.a, row.tokens, row.ranks);
    g.list(row.id, format("ring {}: forward, backward same fp32, backward reverse narrow", row.what),
           {ring_forward_bytes(a, row.ranks), ring_backward_bytes(a, row.ranks, RingBackward::SameDirection),
            ring_backward_bytes(bf16_gradients(a), row.ranks)},
           row.expected);
  }
  g.list("R10", "all-gathered keys: forward, backward bf16, backward fp32",
         {all_gather_kv_bytes(kAnchor, 8).forward, all_gather_kv_bytes(bf16_gradients(kAnchor), 8).backward,
          all_gather_kv_bytes(kAnchor, 8).backward},
         {469762048, 939524096, 1409286144});
}

void add_ulysses(GoldenTable& g) {
  g.bytes("U1", "Ulysses, 32 and 8 heads of 128, 131,072 tokens on 8", ulysses_bytes(kLlama, 8).forward, 293601280);
  g.list("U2", "Ulysses, tiny: 2 ranks, 4 ranks, 12 heads on 3, 6 heads on 6",
         {ulysses_bytes(on({2, 0, 4, 2, 8, 2, 4}, 64, 2), 2).forward, ulysses_bytes(on({2, 0, 4, 2, 8, 2, 4}, 64, 4), 4).forward,
          ulysses_bytes(on({1, 0, 12, 3, 16, 4, 4}, 96, 3), 3).forward, ulysses_bytes(on({1, 0, 6, 2, 16, 4, 4}, 96, 6), 6).forward},
         {6144, 6144, 40960, 20480});
  g.text("U3", "ranks where ring and Ulysses meet, without and with replicated heads",
         format("{:g}, {:g}", ulysses_ring_crossover(24, 4), ulysses_ring_crossover_replicated(24, 4)), "7, 8");
  const struct {
    const char* id;
    const char* what;
    AttentionTraffic a;
    int64_t ranks;
    std::vector<int64_t> expected;  // ulysses = 1, 2, 4, …
  } grids[] = {{"U4", "anchor on 8", kAnchor, 8, {469762048, 436207616, 419430400, 469762048}},
               {"U5", "anchor on 16 (16×1 impossible)", kAnchor, 16, {503316480, 352321536, 276824064, 301989888}},
               {"U6", "32 and 8 heads on 8", kLlama, 8, {469762048, 369098752, 318767104, 293601280}},
               {"U7", "32 and 8 heads on 32", kLlama, 32, {520093696, 293601280, 180355072, 123731968, 127926272, 130023424}}};
  for (const auto& row : grids) {
    std::vector<int64_t> values;
    for (int64_t u = 1; static_cast<size_t>(values.size()) < row.expected.size(); u *= 2)
      values.push_back(usp_bytes(on(row.a, 131072, row.ranks), u, row.ranks / u).total().forward);
    g.list(row.id, format("USP forward, {}: all-to-all groups of 1, 2, 4, …", row.what), values, row.expected);
  }
}

void add_other(GoldenTable& g) {
  const int64_t unit = tensor_parallel_unit_bytes(1, 4096, 5120, 2, 8);
  g.bytes("T1", "one unit of tensor parallelism, 4,096 tokens, 8 ranks", unit, 36700160);
  g.bytes("T2", "64 layers, nominal 8 units", 64 * tensor_parallel_layer_bytes(unit, TensorParallel::Nominal).total(), 18790481920,
          "18.8 GB");
  g.bytes("T3", "64 layers, saved rows gathered again: 10 units", 64 * tensor_parallel_layer_bytes(unit, TensorParallel::Regather).total(),
          23488102400, "23.5 GB");
  g.bytes("E1", "expert dispatch, one direction: 4,096 tokens, 8 of 7,168, 64 ranks", expert_dispatch_bytes(4096, 8, 64, 7168, 2),
          462422016);
  g.text("E2", "distinct ranks and nodes a token reaches, 256 experts on 64 ranks in 8 nodes",
         format("{:.3f}, {:.2f}", expected_distinct_groups(256, 8, 64), expected_distinct_groups(256, 8, 8)), "7.676, 5.29");
  const int64_t state = state_block_bytes(48, 128, 128, 1, true);
  g.list("S1", "state and transition of a delta rule: numbers, fp32 bytes, sent per layer on 8",
         {state, 4 * state, state_gather_bytes(4 * state, 8)}, {1572864, 6291456, 44040192});
  const double f = 4.0 / 24, rate = 400e12;
  const auto tokens = [&](double wire, bool backward) {
    return std::llround(std::ceil(ring_overlap_tokens(f, rate, wire, true, backward) - 1e-6));
  };
  g.list("O1", "local tokens from which zig-zag hides: 50 GB/s forward, backward, 450 GB/s forward, backward",
         {tokens(50e9, false), tokens(50e9, true), tokens(450e9, false), tokens(450e9, true)}, {2667, 3200, 297, 356});
  const double n = 16384, flops = 2 * n * n * 256 * 24, moved = static_cast<double>(kv_block_bytes(kAnchor));
  g.text("O2", "one zig-zag step of 16,384 tokens: FLOPs, ms of arithmetic, ms of transfer at 50 GB/s",
         format("{:.2e}, {:.2f}, {:.2f}", flops, flops / rate * 1e3, moved / 50e9 * 1e3), "3.30e+12, 8.25, 1.34");
}

}  // namespace

void add_balance_goldens(GoldenTable& g) {
  const auto contiguous = causal_pairs(TokenSplit::Contiguous, 16, 4), zigzag = causal_pairs(TokenSplit::Zigzag, 16, 4);
  const auto wide = causal_pairs(TokenSplit::Contiguous, 32, 8), wide_zigzag = causal_pairs(TokenSplit::Zigzag, 32, 8);
  g.list("G39", "causal pairs per card, 16 tokens on 4, contiguous", contiguous.per_rank(), {10, 26, 42, 58});
  g.text("G40", "slowest card over mean", format("{:.5f}", contiguous.max_over_mean()), "1.70588",
         format("{:.2f}", contiguous.max_over_mean()), "1.71");
  g.list("G41", "the same, zig-zag", zigzag.per_rank(), {34, 34, 34, 34});
  g.list("G42", "contiguous ring: slowest card of each step, and their sum",
         {contiguous.per_step()[0], contiguous.per_step()[1], contiguous.per_step()[2], contiguous.per_step()[3], contiguous.step_sum()},
         {10, 16, 16, 16, 58});
  g.list("G43", "zig-zag ring", {zigzag.per_step()[0], zigzag.per_step()[1], zigzag.per_step()[2], zigzag.per_step()[3], zigzag.step_sum()},
         {10, 8, 8, 8, 34});
  g.list("G44", "32 tokens on 8, contiguous", wide.per_rank(), {10, 26, 42, 58, 74, 90, 106, 122});
  g.list("G45", "32 tokens on 8, zig-zag: pairs per card, then the sum of steps",
         {wide_zigzag.per_rank()[0], wide_zigzag.per_rank()[7], wide_zigzag.step_sum()}, {66, 66, 66});
  const auto limit = causal_pairs(TokenSplit::Contiguous, int64_t{1} << 22, 4).per_rank();
  std::vector<int64_t> rounded;
  for (int64_t pairs : limit) rounded.push_back((pairs + limit[0] / 2) / limit[0]);
  g.list("G46", "contiguous on 4, long sequences: ratio of the cards", rounded, {1, 3, 5, 7});
  const struct {
    const char* id;
    int64_t t, ranks, slowest, zigzag;
    const char* ratio;
  } more[] = {{"Z1", 32, 4, 228, 132, "1.7273"},
              {"Z2", 64, 8, 484, 260, "1.8615"},
              {"Z3", 24, 2, 222, 150, "1.4800"},
              {"Z4", 48, 3, 648, 392, "1.6531"},
              {"Z5", 60, 5, 654, 366, "1.7869"}};
  for (const auto& row : more) {
    const auto c = causal_pairs(TokenSplit::Contiguous, row.t, row.ranks), z = causal_pairs(TokenSplit::Zigzag, row.t, row.ranks);
    g.text(row.id, format("{} tokens on {}: contiguous step sum, zig-zag per card and step sum, slowest over mean", row.t, row.ranks),
           format("{}, {}, {}, {:.4f}", c.step_sum(), z.per_rank()[0], z.step_sum(), c.max_over_mean()),
           format("{}, {}, {}, {}", row.slowest, row.zigzag, row.zigzag, row.ratio));
  }
  g.list("Z6", "striped step sums, 16 on 4 and 32 on 8",
         {causal_pairs(TokenSplit::Striped, 16, 4).step_sum(), causal_pairs(TokenSplit::Striped, 32, 8).step_sum()}, {40, 80});
  g.text("Z7", "part of the received keys that is needed, contiguous and zig-zag",
         format("{:g}, {:g}", needed_key_fraction(TokenSplit::Contiguous, 64, 4), needed_key_fraction(TokenSplit::Zigzag, 64, 4)),
         "0.5, 0.75");
}

void add_traffic_goldens(GoldenTable& table) {
  add_ring(table);
  add_ulysses(table);
  add_other(table);
}

}  // namespace megatoken::plan
