// kda: the forward of one batch row and query/key head with its value heads. A chunk is walked in its four blocks of 16 tokens, each with
//   Z = β v − (β k 2^G) S,   R = (I + Akk)⁻¹ Z,   O = (scale q 2^G) S + Aqk R,   S ← Diag(2^{G_last}) S + kgᵀ R
// Sixteen rows need a quarter of the pairs of sixty-four, their operands stay in the fastest cache, and the state lies there in between anyway;
// only backward, which must keep states, takes the chunk whole.
#pragma once
#include <span>

#include "optimized/components/kda/pipeline.hpp"
#include "optimized/components/kda/tile.hpp"

namespace megatoken::kda {

template <class Real>
struct ForwardSlot {
  Tile<Real, kBlock> tile;
  Real *steps, *out;  // rows × v

  ForwardSlot(const Widths& width, cpu::Arena& arena) : tile(width, arena), steps(arena.take<Real>(kBlock * width.v)), out(arena.take<Real>(kBlock * width.v)) {}
};

/// One batch row and query/key head at a time, with its value heads. `more_columns` of the state belong to values of 0.
template <class T>
class ForwardGroup {
 public:
  using Real = Accumulator<T>;

  ForwardGroup(const Shape& shape, int threads, cpu::Arena& arena, int64_t more_columns = 0) : shape_(shape), width_(shape, more_columns), threads_(threads) {
    for (int64_t n = 0; n < shape.group; ++n) {
      biases_.push_back(arena.take<Real>(width_.k));
      states_.push_back(arena.take<Real>(width_.k * width_.v));
    }
    for (int64_t i = 0, slots = pipeline_slots(threads, kWave) * shape.group; i < slots; ++i) slots_.emplace_back(width_, arena);
  }
  void select(const Tensors& x, int64_t b, int64_t h) {
    x_ = &x;
    b_ = b;
    h_ = h;
    heads_.clear();
    for (int64_t n = 0; n < shape_.group; ++n) heads_.emplace_back(shape_, x, b, h, n, biases_[static_cast<size_t>(n)]);
  }
  const Widths& width() const { return width_; }
  /// k × v of value head n.
  Real* state(int64_t n) const { return states_[static_cast<size_t>(n)]; }

  /// All chunks from state(n), which becomes the state behind them; outputs stored.
  void run(std::span<const ChunkPlace> chunks) {
    walk(chunks, [](int64_t, int64_t) {}, true);
  }
  /// Only the states. at_chunk(n, c) when state(n) is the one in front of chunk c.
  template <class AtChunk>
  void walk(std::span<const ChunkPlace> chunks, const AtChunk& at_chunk, bool store_outputs = false) {
    std::vector<std::pair<ChunkPlace, int64_t>> blocks;  // with the chunk that a block begins, else −1
    for (int64_t c = 0; c < std::ssize(chunks); ++c) {
      const ChunkPlace& chunk = chunks[static_cast<size_t>(c)];
      for (int64_t row = 0; row < chunk.count; row += kBlock)
        blocks.push_back({{chunk.begin + row, std::min<int64_t>(kBlock, chunk.count - row), chunk.fresh && row == 0}, row == 0 ? c : -1});
    }
    run_pipeline(
        kWave, std::ssize(blocks), shape_.group, threads_,
        [&](int64_t i) {
          for (int64_t n = 0; n < shape_.group; ++n) slot(i, n).tile.prepare(heads_[static_cast<size_t>(n)], blocks[static_cast<size_t>(i)].first, false);
        },
        [&](int64_t n, int64_t i) {
          const auto& [place, chunk] = blocks[static_cast<size_t>(i)];
          ForwardSlot<Real>& at = slot(i, n);
          if (place.fresh) std::fill_n(state(n), width_.k * width_.v, Real{0});
          if (chunk >= 0) at_chunk(n, chunk);
          find_steps(at.tile, state(n), at.steps);
          if (store_outputs) store_rows(at, place, n);
          advance_state(at.tile, at.steps, state(n));
        },
        [](int64_t) {});
  }

 private:
  static constexpr int64_t kWave = 64;
  ForwardSlot<Real>& slot(int64_t i, int64_t n) { return slots_[static_cast<size_t>(i % pipeline_slots(threads_, kWave) * shape_.group + n)]; }

  void store_rows(const ForwardSlot<Real>& at, const ChunkPlace& place, int64_t n) const {
    const auto o = x_->o.elements<T, 5>();
    cpu::multiply<Real>(kBlock, width_.v, width_.d, 1, {at.tile.qg, width_.k}, {state(n), width_.v}, {at.out, width_.v});
    cpu::multiply_add<Real>(kBlock, width_.v, kBlock, {at.tile.aqk, kBlock}, {at.steps, width_.v}, {at.out, width_.v});
    for (int64_t i = 0; i < place.count; ++i) cpu::narrow(at.out + i * width_.v, width_.dv, &o(b_, place.begin + i, h_, n, 0), o.stride[4]);
  }

  const Shape& shape_;
  const Widths width_;
  const int threads_;
  const Tensors* x_ = nullptr;
  int64_t b_ = 0, h_ = 0;
  std::vector<HeadInputs<T>> heads_;
  std::vector<Real*> biases_, states_;
  std::vector<ForwardSlot<Real>> slots_;
};

/// Outputs of padding rows.
template <class T>
void zero_outputs(const Shape& shape, const Tensors& x) {
  const auto document = x.document.elements<const int32_t, 2>();
  const auto o = x.o.elements<T, 5>();
  for (int64_t b = 0; b < shape.b; ++b)
    for (int64_t i = 0; i < shape.t; ++i)
      for (int64_t hv = 0; hv < shape.h * shape.group && document(b, i) < 0; ++hv)
        for (int64_t e = 0; e < shape.dv; ++e) o(b, i, hv / shape.group, hv % shape.group, e) = static_cast<T>(Accumulator<T>{0});
}

}  // namespace megatoken::kda
