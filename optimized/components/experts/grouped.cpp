// experts/grouped: tokens sorted by expert, dense products for a tile of one expert's tokens at a time, all threads.
//
//   order: every (token, slot) that is not empty, by expert, then by token; the shared expert comes last and has all tokens
//   1. tiles in parallel:             (G, U) = X (Wg, Wu)ᵀ,  H = G' σ(G') U'
//      backward also                  E = dY Down,  dweight = Σ_f H E,  dG and dU from weight · E;  H becomes weight · H
//   2. strips of model columns in parallel, in each the experts in order:  y[tokens] += weight · H Downᵀ,  or  dx[tokens] += dG Wg + dU Wu
//   3. backward, strips of the gradients of one expert in parallel:        dWg = dGᵀ X,  dWu = dUᵀ X,  dDown = dYᵀ (weight · H)
// Every sum is made by one thread in the order of the list, so the bits do not depend on the number of threads. H (and dG, dU) of every
// use of an expert is kept between the steps; weights are widened to the accumulator in blocks, when they are needed.
#include <algorithm>
#include <cmath>

#include "optimized/components/experts/uses.hpp"
#include "optimized/cpu/products.hpp"
#include "optimized/cpu/rows.hpp"

namespace megatoken::experts {
namespace {

constexpr int64_t kInner = 64;     // inner features of a product in step 1
constexpr int64_t kColumns = 128;  // model columns of a strip

/// What all workers share.
template <class Acc>
struct Shared {
  Uses uses;
  Acc *hidden, *d_gate, *d_up;  // a row of f a use; the gradients only in backward
  Acc* sum;                     // rows c: y or dx
  Shared(const Shape& s, bool backward, cpu::Arena& arena) : uses(s, arena) {
    const int64_t size = s.rows() * s.slots() * s.f;
    hidden = arena.take<Acc>(size), sum = arena.take<Acc>(s.rows() * s.c);
    d_gate = arena.take<Acc>(backward ? size : 0), d_up = arena.take<Acc>(backward ? size : 0);
  }
};

template <class Acc>
struct Worker {
  Acc *x, *d_y;           // kTile × c
  Acc *w, *w2, *down;     // kInner × c or f × kColumns, widened
  Acc *a, *b, *e;         // kTile × kInner or kTile × kColumns
  Worker(const Shape& s, cpu::Arena& arena) {
    const int64_t weights = std::max(kInner * s.c, s.f * kColumns);
    x = arena.take<Acc>(kTile * s.c), d_y = arena.take<Acc>(kTile * s.c);
    w = arena.take<Acc>(weights), w2 = arena.take<Acc>(weights), down = arena.take<Acc>(kInner * s.c);
    a = arena.take<Acc>(kTile * kColumns), b = arena.take<Acc>(kTile * kColumns), e = arena.take<Acc>(kTile * kColumns);
  }
};

template <class Acc>
int64_t bytes(const Shape& s, bool backward) {
  cpu::Arena arena;
  Shared<Acc>(s, backward, arena);
  return arena.used() + hardware_threads() * cpu::scratch_bytes<Worker<Acc>>(s);
}

/// Rows of weights, of any expert or of the shared one.
template <class T>
struct Weights {
  int64_t experts;
  Elements<const T, 4> gate_up;
  Elements<const T, 3> down, shared_gate_up;
  Elements<const T, 2> shared_down;

  Weights(const Shape& s, const Tensors& v) : experts(s.e), gate_up(v.gate_up.elements<const T, 4>()), down(v.down.elements<const T, 3>()) {
    if (s.shared) shared_gate_up = v.shared_gate_up.elements<const T, 3>(), shared_down = v.shared_down.elements<const T, 2>();
  }
  template <class Acc>
  void widen_up(int64_t expert, int half, int64_t j, int64_t begin, int64_t count, Acc* to) const {
    if (expert == experts) cpu::widen(&shared_gate_up(half, j, begin), shared_gate_up.stride[2], count, to);
    else cpu::widen(&gate_up(expert, half, j, begin), gate_up.stride[3], count, to);
  }
  template <class Acc>
  void widen_down(int64_t expert, int64_t q, int64_t begin, int64_t count, Acc* to) const {
    if (expert == experts) cpu::widen(&shared_down(q, begin), shared_down.stride[1], count, to);
    else cpu::widen(&down(expert, q, begin), down.stride[2], count, to);
  }
};

template <class T>
class Grouped {
 public:
  using Acc = Accumulator<T>;

  Grouped(const Shape& s, const Tensors& v, Context& context, bool backward)
      : s_(s), v_(v), threads_(context.threads), limit_(s.limit > 0 ? static_cast<Acc>(s.limit) : std::numeric_limits<Acc>::infinity()), x_(v.x), weights_(s, v),
        weight_(v.weight.elements<const Acc, 3>()), arena_(context.workspace.data()), all_(s, backward, arena_), uses_(all_.uses),
        workers_(context.workspace.subspan(static_cast<size_t>(arena_.used()))) {
    if (backward) d_y_ = cpu::Rows<const T>(v.d_y), d_weight_ = v.dweight.elements<Acc, 3>();
    uses_.sort(v.id.elements<const int32_t, 3>());
  }

  void forward() {
    for_each_tile([&](const Tile& tile, Worker<Acc>& scratch) { project(tile, scratch, false); });
    for_each_strip([&](int64_t expert, int64_t column, int64_t columns, Worker<Acc>& scratch) {
      for (int64_t q = 0; q < columns; ++q) weights_.widen_down(expert, column + q, 0, s_.f, scratch.w + q * s_.f);
      uses_.for_tiles_of(expert, [&](const Tile& tile) {
        cpu::grid(scratch.a, tile.rows, columns).noalias() = rows_of(all_.hidden, tile) * cpu::const_grid(scratch.w, columns, s_.f).transpose();
        for (int64_t i = 0; i < tile.rows; ++i) add(tile.begin + i, column, columns, factor(tile.begin + i), scratch.a + i * columns);
      });
    });
    write_sum(cpu::Rows<T>(v_.y));
  }

  void backward() {
    for_each_tile([&](const Tile& tile, Worker<Acc>& scratch) { project(tile, scratch, true); });
    uses_.for_each_empty([&](int64_t token, int64_t slot) { d_weight_(token / s_.t, token % s_.t, slot) = 0; });
    for_each_strip([&](int64_t expert, int64_t column, int64_t columns, Worker<Acc>& scratch) {
      for (int64_t j = 0; j < s_.f; ++j) {
        weights_.widen_up(expert, 0, j, column, columns, scratch.w + j * columns);
        weights_.widen_up(expert, 1, j, column, columns, scratch.w2 + j * columns);
      }
      uses_.for_tiles_of(expert, [&](const Tile& tile) {
        auto out = cpu::grid(scratch.a, tile.rows, columns);
        out.noalias() = rows_of(all_.d_gate, tile) * cpu::const_grid(scratch.w, s_.f, columns);
        out.noalias() += rows_of(all_.d_up, tile) * cpu::const_grid(scratch.w2, s_.f, columns);
        for (int64_t i = 0; i < tile.rows; ++i) add(tile.begin + i, column, columns, Acc{1}, scratch.a + i * columns);
      });
    });
    write_sum(cpu::Rows<T>(v_.dx));
    const int64_t strips = ceil_div(s_.c, kColumns);
    for_each_item(uses_.experts * strips, [&](int64_t item, Worker<Acc>& scratch) { parameter_gradients(item / strips, item % strips * kColumns, scratch); });
  }

 private:
  cpu::ConstGrid<Acc> rows_of(const Acc* all, const Tile& tile) const { return cpu::const_grid(all + tile.begin * s_.f, tile.rows, s_.f); }
  Acc factor(int64_t use) const {
    const int64_t token = uses_.token(use), slot = uses_.slot(use);
    return slot == s_.k ? Acc{1} : weight_(token / s_.t, token % s_.t, slot);
  }

  template <class Body>
  void for_each_item(int64_t items, const Body& body) {
    cpu::for_each_item<Worker<Acc>>(items, threads_, s_, workers_, body);
  }
  template <class Body>
  void for_each_tile(const Body& body) {
    for_each_item(uses_.tiles(), [&](int64_t item, Worker<Acc>& scratch) { body(uses_.tile(item), scratch); });
  }
  /// Strips of all_.sum in parallel, in each every expert that has tokens, in order.
  template <class Body>
  void for_each_strip(const Body& body) {
    for_each_item(ceil_div(s_.c, kColumns), [&](int64_t strip, Worker<Acc>& scratch) {
      const int64_t column = strip * kColumns, columns = std::min(kColumns, s_.c - column);
      cpu::grid(all_.sum + column, s_.rows(), columns, s_.c).setZero();
      for (int64_t expert = 0; expert < uses_.experts; ++expert)
        if (uses_.has_tokens(expert)) body(expert, column, columns, scratch);
    });
  }
  void add(int64_t use, int64_t column, int64_t columns, Acc factor, const Acc* from) {
    Acc* to = all_.sum + uses_.token(use) * s_.c + column;
    for (int64_t q = 0; q < columns; ++q) to[q] += factor * from[q];
  }
  void write_sum(const cpu::Rows<T>& to) const {
    parallel_for(ceil_div(s_.rows(), kTile), threads_, [&](int64_t block) {
      for (int64_t row = block * kTile, end = std::min(row + kTile, s_.rows()); row < end; ++row) to.write(row, all_.sum + row * s_.c);
    });
  }

  /// Step 1 for one tile.
  void project(const Tile& tile, Worker<Acc>& scratch, bool backward) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t token = uses_.token(tile.begin + i), slot = uses_.slot(tile.begin + i);
      x_.read(token, scratch.x + i * s_.c);
      if (backward) d_y_.read(token, scratch.d_y + i * s_.c);
      if (backward && slot < s_.k) d_weight_(token / s_.t, token % s_.t, slot) = 0;
    }
    const auto x = cpu::const_grid(scratch.x, tile.rows, s_.c), d_y = cpu::const_grid(scratch.d_y, tile.rows, s_.c);
    for (int64_t begin = 0; begin < s_.f; begin += kInner) {
      const int64_t inner = std::min(kInner, s_.f - begin);
      for (int64_t j = 0; j < inner; ++j) {
        weights_.widen_up(tile.expert, 0, begin + j, 0, s_.c, scratch.w + j * s_.c);
        weights_.widen_up(tile.expert, 1, begin + j, 0, s_.c, scratch.w2 + j * s_.c);
      }
      cpu::grid(scratch.a, tile.rows, inner).noalias() = x * cpu::const_grid(scratch.w, inner, s_.c).transpose();
      cpu::grid(scratch.b, tile.rows, inner).noalias() = x * cpu::const_grid(scratch.w2, inner, s_.c).transpose();
      if (backward) {
        for (int64_t q = 0; q < s_.c; ++q) weights_.widen_down(tile.expert, q, begin, inner, scratch.down + q * inner);
        cpu::grid(scratch.e, tile.rows, inner).noalias() = d_y * cpu::const_grid(scratch.down, s_.c, inner);
      }
      for (int64_t i = 0; i < tile.rows; ++i) {
        const int64_t at = (tile.begin + i) * s_.f + begin;
        if (backward) unit_backward(tile.begin + i, inner, scratch.a + i * inner, scratch.b + i * inner, scratch.e + i * inner, at);
        else unit(inner, scratch.a + i * inner, scratch.b + i * inner, all_.hidden + at);
      }
    }
  }

  Acc clamped_gate(Acc g) const { return g > limit_ ? limit_ : g; }
  Acc clamped_up(Acc u) const { return u > limit_ ? limit_ : u < -limit_ ? -limit_ : u; }
  static Acc sigma(Acc g) { return 1 / (1 + std::exp(-g)); }

  void unit(int64_t count, const Acc* gate, const Acc* up, Acc* hidden) const {
    for (int64_t j = 0; j < count; ++j) hidden[j] = clamped_gate(gate[j]) * sigma(clamped_gate(gate[j])) * clamped_up(up[j]);
  }
  /// e is dY Down, before the token's weight.
  void unit_backward(int64_t use, int64_t count, const Acc* gate, const Acc* up, const Acc* e, int64_t at) {
    const Acc weight = factor(use);
    Acc dot = 0;
    for (int64_t j = 0; j < count; ++j) {
      const Acc g = clamped_gate(gate[j]), u = clamped_up(up[j]), s = sigma(g), dh = weight * e[j];
      dot += g * s * u * e[j];
      all_.hidden[at + j] = weight * (g * s * u);
      all_.d_gate[at + j] = gate[j] <= limit_ ? dh * u * s * (1 + g * (1 - s)) : Acc{0};
      all_.d_up[at + j] = up[j] <= limit_ && up[j] >= -limit_ ? dh * g * s : Acc{0};
    }
    const int64_t token = uses_.token(use), slot = uses_.slot(use);
    if (slot < s_.k) d_weight_(token / s_.t, token % s_.t, slot) += dot;
  }

  /// Step 3: columns [column, column + kColumns) of all gradients of one expert.
  void parameter_gradients(int64_t expert, int64_t column, Worker<Acc>& scratch) {
    const bool shared = expert == s_.e;
    const int64_t columns = std::min(kColumns, s_.c - column);
    const auto block = [&](const TensorView& view, const char* name) { return cpu::result_grid<Acc>(view, name); };
    const TensorView& ups = v_.dgate_up;
    auto d_gate = shared ? block(v_.dshared_gate_up.slice(0, 0, 1), "dshared_gate_up") : block(ups.slice(0, expert, expert + 1).slice(1, 0, 1), "dgate_up");
    auto d_up = shared ? block(v_.dshared_gate_up.slice(0, 1, 2), "dshared_gate_up") : block(ups.slice(0, expert, expert + 1).slice(1, 1, 2), "dgate_up");
    auto d_down = shared ? block(v_.dshared_down, "dshared_down") : block(v_.ddown.slice(0, expert, expert + 1), "ddown");
    auto gate = d_gate.middleCols(column, columns), up = d_up.middleCols(column, columns);
    auto down = d_down.middleRows(column, columns);
    gate.setZero(), up.setZero(), down.setZero();
    uses_.for_tiles_of(expert, [&](const Tile& tile) {
      for (int64_t i = 0; i < tile.rows; ++i) {
        const int64_t token = uses_.token(tile.begin + i);
        cpu::widen(x_.at(token) + column * x_.stride(), x_.stride(), columns, scratch.a + i * columns);
        cpu::widen(d_y_.at(token) + column * d_y_.stride(), d_y_.stride(), columns, scratch.b + i * columns);
      }
      const auto x = cpu::const_grid(scratch.a, tile.rows, columns), d_y = cpu::const_grid(scratch.b, tile.rows, columns);
      gate.noalias() += rows_of(all_.d_gate, tile).transpose() * x;
      up.noalias() += rows_of(all_.d_up, tile).transpose() * x;
      down.noalias() += d_y.transpose() * rows_of(all_.hidden, tile);
    });
  }

  const Shape& s_;
  const Tensors& v_;
  int threads_;
  Acc limit_;
  cpu::Rows<const T> x_, d_y_;
  Weights<T> weights_;
  Elements<const Acc, 3> weight_;
  Elements<Acc, 3> d_weight_;
  cpu::Arena arena_;
  Shared<Acc> all_;
  Uses& uses_;
  std::span<std::byte> workers_;
};

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "grouped",
    .about = "tokens sorted by expert, products by Eigen, all threads",
    .workspace = [](const Shape& s, DType dtype, Phase phase) {
      return dtype == DType::F64 ? bytes<double>(s, phase != Phase::Forward) : bytes<float>(s, phase != Phase::Forward);
    },
    .forward = [](const Shape& s, const Tensors& x, Context& c) { check_ids(s, x); dispatch_float(x.x.dtype, [&]<class T>() { Grouped<T>(s, x, c, false).forward(); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { Grouped<T>(s, x, c, true).backward(); }); },
})};

}  // namespace
}  // namespace megatoken::experts
