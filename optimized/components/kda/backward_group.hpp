// kda: the backward of one batch row and query/key head with its value heads. First the states: forward again, keeping only S at chunk
// borders. Then from the last chunk to the first
//   dR = Aqkᵀ dO + kg dS,   Y = (I + Akk)⁻ᵀ dR,   dS ← Diag(2^{G_last}) dS + qgᵀ dO − bkᵀ Y
// and, off the serial path, everything inside the chunk (chunk_gradients.hpp). dq and dk of the value heads add up in the tile. Sums over
// tokens for A_log and dt_bias are kept per place in a wave and added in a fixed order.
#pragma once
#include <span>

#include "optimized/components/kda/chunk_gradients.hpp"
#include "optimized/components/kda/forward_group.hpp"

namespace megatoken::kda {

template <class Real>
struct BackwardSlot {
  Tile<Real, kRows> tile;
  Real *steps, *d_steps, *d_o, *d_state;  // rows × v: R, dR then Y, dO · k × v: dS behind the chunk

  BackwardSlot(const Widths& width, cpu::Arena& arena) : tile(width, arena), d_state(arena.take<Real>(width.k * width.v)) {
    for (Real** array : {&steps, &d_steps, &d_o}) *array = arena.take<Real>(kRows * width.v);
  }
};

/// What finishing one chunk needs.
template <class Real>
struct FinishScratch {
  ChunkGradientScratch<Real> gradients;
  Real *dq, *dk;   // rows × k, over the value heads
  Real *raw, *row; // k or v

  FinishScratch(const Widths& width, cpu::Arena& arena)
      : gradients(width, arena), dq(arena.take<Real>(kRows * width.k)), dk(arena.take<Real>(kRows * width.k)), raw(arena.take<Real>(width.k + width.v)),
        row(arena.take<Real>(width.k + width.v)) {}
};

/// Gradients of A_log (one vector whose lanes add up) and dt_bias (k numbers) of one value head.
inline int64_t parameter_numbers(const Widths& width) { return kBlock + width.k; }

template <class T>
class BackwardGroup {
 public:
  using Real = Accumulator<T>;

  /// Keeps at most `borders` states; the default is enough for any documents, since a chunk of fewer than kRows tokens ends one.
  BackwardGroup(const Shape& shape, int threads, cpu::Arena& arena, int64_t borders = -1)
      : shape_(shape), width_(shape), threads_(threads), forward_(shape, threads, arena), zero_(arena.take<Real>(state_size())) {
    const int64_t kept = borders >= 0 ? borders : shape.t / kRows + 1;
    for (int64_t n = 0; n < shape.group; ++n) {
      biases_.push_back(arena.take<Real>(width_.k));
      states_.push_back(arena.take<Real>(state_size()));
      borders_.push_back(arena.take<Real>(kept * state_size()));
      sums_.push_back(arena.take<Real>(kWave * parameter_numbers(width_)));
    }
    for (int64_t i = 0, slots = pipeline_slots(threads, kWave) * shape.group; i < slots; ++i) slots_.emplace_back(width_, arena);
    for (int64_t i = 0; i < (threads == 1 ? 1 : kWave); ++i) finishes_.emplace_back(width_, arena);
  }
  void select(const Tensors& x, int64_t b, int64_t h, std::span<const ChunkPlace> places) {
    x_ = &x;
    b_ = b;
    h_ = h;
    places_ = places;
    border_of_.clear();
    int64_t borders = 0;
    for (const ChunkPlace& place : places_) border_of_.push_back(place.fresh ? -1 : borders++);
    forward_.select(x, b, h);
    heads_.clear();
    std::fill_n(zero_, state_size(), Real{0});
    for (int64_t n = 0; n < shape_.group; ++n) {
      heads_.emplace_back(shape_, x, b, h, n, biases_[index(n)]);
      std::fill_n(sums_[index(n)], kWave * parameter_numbers(width_), Real{0});
    }
  }
  const Widths& width() const { return width_; }
  /// k × v of value head n: S before keep_borders, dS before and after run.
  Real* state(int64_t n) const { return states_[index(n)]; }

  /// Forward from state(n), keeping the state in front of every chunk.
  void keep_borders() {
    for_each_head([&](int64_t n) { std::copy_n(state(n), state_size(), forward_.state(n)); });
    forward_.walk(places_, [&](int64_t n, int64_t c) {
      if (!places_[index(c)].fresh) std::copy_n(forward_.state(n), state_size(), border(n, c));
    });
  }
  /// From the last chunk to the first; gradients are stored when `store`, else only dS is carried on.
  void run(bool store) {
    const int64_t last = std::ssize(places_) - 1;
    run_pipeline(
        kWave, last + 1, shape_.group, threads_, [&](int64_t i) { for_each_head([&](int64_t n) { prepare(slot(i, n), n, last - i); }); },
        [&](int64_t n, int64_t i) { advance(slot(i, n), n, last - i); },
        [&](int64_t i) { if (store) finish(i, last - i); });
  }
  /// dA_log and ddt_bias of value head n, added to numbers of parameter_numbers().
  void add_sums(int64_t n, Real* to) const {
    for (int64_t place = 0; place < kWave; ++place)
      for (int64_t i = 0, count = parameter_numbers(width_); i < count; ++i) to[i] += sums_[index(n)][place * count + i];
  }

 private:
  static constexpr int64_t kWave = 16;
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  int64_t state_size() const { return width_.k * width_.v; }
  BackwardSlot<Real>& slot(int64_t i, int64_t n) { return slots_[index(i % pipeline_slots(threads_, kWave) * shape_.group + n)]; }
  Real* border(int64_t n, int64_t c) const { return border_of_[index(c)] < 0 ? zero_ : borders_[index(n)] + border_of_[index(c)] * state_size(); }
  template <class Body>
  void for_each_head(const Body& body) const {
    for (int64_t n = 0; n < shape_.group; ++n) body(n);
  }

  void prepare(BackwardSlot<Real>& at, int64_t n, int64_t c) {
    const ChunkPlace& place = places_[index(c)];
    const auto d_o = x_->d_o.elements<const T, 5>();
    const Tile<Real, kRows>& tile = at.tile;
    const int64_t v = width_.v;
    at.tile.prepare(heads_[index(n)], place, true);
    for (int64_t i = 0; i < tile.count; ++i) cpu::widen_padded(&d_o(b_, place.begin + i, h_, n, 0), d_o.stride[4], width_.dv, v, at.d_o + i * v);
    std::fill(at.d_o + tile.count * v, at.d_o + tile.rows * v, Real{0});
    find_steps(tile, border(n, c), at.steps);
    for (int64_t row = 0; row < tile.rows; row += kBlock)
      cpu::multiply<Real>(kBlock, v, tile.rows - row, 1, {tile.aqk + row * (kRows + 1), 1, kRows}, {at.d_o + row * v, v}, {at.d_steps + row * v, v});
  }

  void advance(BackwardSlot<Real>& at, int64_t n, int64_t c) {
    const Tile<Real, kRows>& tile = at.tile;
    const int64_t k = width_.k, v = width_.v;
    Real* d_state = state(n);
    std::copy_n(d_state, state_size(), at.d_state);
    cpu::multiply_add<Real>(tile.rows, v, width_.d, {tile.keys, 1, kRows}, {d_state, v}, {at.d_steps, v});
    solve_transposed(tile, v, at.d_steps);
    cpu::multiply_scale_add<Real>(k, v, tile.rows, tile.total, {tile.qg, 1, k}, {at.d_o, v}, {d_state, v});
    cpu::multiply_add<Real>(k, v, tile.rows, {tile.minus_bk, 1, k}, {at.d_steps, v}, {d_state, v});
    if (places_[index(c)].fresh) std::fill_n(d_state, state_size(), Real{0});
  }

  void finish(int64_t i, int64_t c) {
    FinishScratch<Real>& to = finishes_[index(i) % finishes_.size()];
    const int64_t begin = places_[index(c)].begin, count = places_[index(c)].count;
    std::fill_n(to.dq, kRows * width_.k, Real{0});
    std::fill_n(to.dk, kRows * width_.k, Real{0});
    for_each_head([&](int64_t n) {
      BackwardSlot<Real>& at = slot(i, n);
      to.gradients.compute(at.tile, {border(n, c), at.d_state, at.steps, at.d_steps, at.d_o});
      Real* sums = sums_[index(n)] + i % kWave * parameter_numbers(width_);
      for (int64_t row = 0; row < count; ++row) store_row(at, to, n, begin + row, row, sums);
    });
    const auto dq = x_->dq.template elements<T, 4>(), dk = x_->dk.template elements<T, 4>();
    const BackwardSlot<Real>& at = slot(i, 0);
    const auto scale = static_cast<Real>(shape_.scale);
    for (int64_t row = 0; row < count; ++row) {
      const int64_t offset = row * width_.k;
      through_norm(at.tile.q + offset, 1 / scale, at.tile.q_factor[row], to.dq + offset, scale, to.row);
      cpu::narrow(to.row, width_.d, &dq(b_, begin + row, h_, 0), dq.stride[3]);
      through_norm(at.tile.k + offset, Real{1}, at.tile.k_factor[row], to.dk + offset, Real{1}, to.row);
      cpu::narrow(to.row, width_.d, &dk(b_, begin + row, h_, 0), dk.stride[3]);
    }
  }

  /// dv, dβ, dg of one token and value head; its share of dq and dk.
  void store_row(const BackwardSlot<Real>& at, FinishScratch<Real>& to, int64_t n, int64_t t, int64_t row, Real* sums) {
    const HeadInputs<T>& in = heads_[index(n)];
    const Tile<Real, kRows>& tile = at.tile;
    const int64_t k = width_.k, offset = row * k;
    const Real beta = tile.beta[row];
    for (int64_t c = 0; c < k; c += kLanes<Real>) {
      store<Real>(to.dq + offset + c, load(to.dq + offset + c) + load(to.gradients.dq + offset + c));
      store<Real>(to.dk + offset + c, load(to.dk + offset + c) + load(to.gradients.to_key + offset + c) + beta * load(to.gradients.to_step + offset + c));
    }

    const Real* step_gradients = at.d_steps + row * width_.v;
    const auto dv = x_->dv.template elements<T, 5>();
    cpu::widen_padded(&in.v(b_, t, h_, n, 0), in.v.stride[4], width_.dv, width_.v, to.raw);
    const Real d_beta = dot(tile.k + offset, to.gradients.to_step + offset, k) + dot(step_gradients, to.raw, width_.v);
    for (int64_t e = 0; e < width_.v; e += kLanes<Real>) store<Real>(to.row + e, beta * load(step_gradients + e));
    cpu::narrow(to.row, width_.dv, &dv(b_, t, h_, n, 0), dv.stride[4]);
    x_->d_beta.template elements<T, 4>()(b_, t, h_, n) = static_cast<T>(step_gradient<Real>(shape_.beta, static_cast<Real>(in.beta(b_, t, h_, n)), d_beta));

    const auto dg = x_->dg.template elements<T, 5>();
    cpu::widen_padded(&in.g(b_, t, h_, n, 0), in.g.stride[4], width_.d, k, to.raw);
    Vector<Real> a_log = load(sums);
    for (int64_t c = 0; c < k; c += kLanes<Real>) {
      const Vector<Real> gradient = in.gate.gradient(load(to.raw + c), c, load(to.gradients.dg + offset + c), a_log);
      store<Real>(to.row + c, gradient);
      store<Real>(sums + kBlock + c, load(sums + kBlock + c) + gradient);
    }
    store<Real>(sums, a_log);
    cpu::narrow(to.row, width_.d, &dg(b_, t, h_, n, 0), dg.stride[4]);
  }

  /// dx = factor (dy − y ⟨dy, y⟩), y = y_scale · row, dy = dy_scale · gradient.
  void through_norm(const Real* row, Real y_scale, Real factor, const Real* gradient, Real dy_scale, Real* dx) const {
    const Real along = shape_.l2norm ? y_scale * y_scale * dot(row, gradient, width_.k) : Real{0};
    for (int64_t c = 0; c < width_.k; c += kLanes<Real>) store<Real>(dx + c, factor * dy_scale * (load(gradient + c) - along * load(row + c)));
  }

  const Shape& shape_;
  const Widths width_;
  const int threads_;
  const Tensors* x_ = nullptr;
  int64_t b_ = 0, h_ = 0;
  ForwardGroup<T> forward_;
  std::span<const ChunkPlace> places_;
  std::vector<int64_t> border_of_;                     // of every chunk; −1: its state is zero
  std::vector<HeadInputs<T>> heads_;
  Real* zero_;
  std::vector<Real*> biases_, states_, borders_, sums_;  // per value head
  std::vector<BackwardSlot<Real>> slots_;
  std::vector<FinishScratch<Real>> finishes_;
};

/// Adds sums of one value head to dA_log and ddt_bias, which start at zero.
template <class Real>
void add_parameters(const Shape& shape, const Tensors& x, int64_t h, int64_t n, const Real* sums) {
  x.d_a_log.elements<Real, 2>()(h, n) += sum_of_lanes<Real>(load(sums));
  const auto dt_bias = x.d_dt_bias.elements<Real, 3>();
  for (int64_t c = 0; c < shape.d; ++c) dt_bias(h, n, c) += sums[kBlock + c];
}

/// Results before the first chunk: zeros in padding rows and in sums.
template <class T>
void zero_gradients(const Shape& shape, const Tensors& x) {
  const auto document = x.document.elements<const int32_t, 2>();
  for (int64_t b = 0; b < shape.b; ++b)
    for (int64_t i = 0; i < shape.t; ++i)
      if (document(b, i) < 0)
        for (const TensorView* view : {&x.dq, &x.dk, &x.dv, &x.dg, &x.d_beta}) fill(view->slice(0, b, b + 1).slice(1, i, i + 1), 0);
  if (shape.gate == Gate::Given) return;
  fill(x.d_a_log, 0);
  fill(x.d_dt_bias, 0);
}

}  // namespace megatoken::kda
