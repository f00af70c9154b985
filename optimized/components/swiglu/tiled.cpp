// swiglu/tiled: the tokens in exactly k pieces, one after the other on every thread, each element read once and written once
// (parallel.md §3.2). Bound by memory: arithmetic runs in vectors over 256 numbers that stay in the first-level cache. An element's
// arithmetic does not depend on where the pieces are cut, so any k gives the bits of k = 1.
#include "optimized/components/swiglu/tiled.hpp"

#include "optimized/cpu/pieces.hpp"
#include "optimized/cpu/rows.hpp"
#include "optimized/cpu/vector.hpp"

namespace megatoken::swiglu {
namespace {

using cpu::kLanes, cpu::load, cpu::store, cpu::Vector;

constexpr int64_t kBlock = 256;
constexpr int64_t kPieceNumbers = 64 << 10;  // numbers of y in one piece

int64_t pieces_of(const Shape& s) { return s.b * s.t * s.c / kPieceNumbers + 1; }

template <class Acc>
struct Gate {
  Vector<Acc> gate, sigma, unit;  // clamped · σ(gate) · gate σ(gate)
  Gate(Vector<Acc> raw, Acc limit) : gate(raw > limit ? cpu::all(limit) : raw), sigma(1 / (1 + cpu::exp(-gate))), unit(gate * sigma) {}
};
template <class Acc>
Vector<Acc> clip(Vector<Acc> up, Acc limit) {
  up = up > limit ? cpu::all(limit) : up;
  return up < -limit ? cpu::all(-limit) : up;
}

/// Calls body(row, begin, count) for blocks of at most kBlock numbers of every row.
template <class Body>
void for_each_block(const Shape& s, int64_t pieces, int threads, const Body& body) {
  parallel_for(pieces, threads, [&](int64_t i) {
    const auto [begin, end] = cpu::piece(s.b * s.t, pieces, i);
    for (int64_t row = begin; row < end; ++row)
      for (int64_t c = 0; c < s.c; c += kBlock) body(row, c, std::min(kBlock, s.c - c));
  });
}

/// Part of a row, in vectors.
template <class T>
struct Part {
  const cpu::Rows<T>& rows;
  int64_t row, begin, count;
  T* at() const { return rows.at(row) + begin * rows.stride(); }
  template <class Acc> const Acc* read(Acc* scratch) const { return cpu::readable(at(), rows.stride(), count, scratch); }
  template <class Acc> Acc* write(Acc* scratch) const { return cpu::writable(at(), rows.stride(), count, scratch); }
  template <class Acc> void landed(const Acc* formed) const { cpu::landed(formed, count, at(), rows.stride()); }
};

template <class T>
void forward(const Shape& s, const Tensors& x, int64_t pieces, int threads) {
  using Acc = Accumulator<T>;
  const cpu::Rows<const T> gate(x.gate), up(x.up);
  const cpu::Rows<T> y(x.y);
  const Acc limit = s.limit > 0 ? static_cast<Acc>(s.limit) : std::numeric_limits<Acc>::infinity();
  for_each_block(s, pieces, threads, [&](int64_t row, int64_t begin, int64_t count) {
    alignas(64) Acc gates[kBlock], ups[kBlock];
    const auto part = [&](auto& rows) { return Part{rows, row, begin, count}; };
    const Acc *g = part(gate).read(gates), *u = part(up).read(ups);
    Acc* to = part(y).write(gates);
    for (int64_t i = 0; i < count; i += kLanes<Acc>) store<Acc>(to + i, Gate<Acc>(load(g + i), limit).unit * clip(load(u + i), limit));
    part(y).landed(to);
  });
}

template <class T>
void backward(const Shape& s, const Tensors& x, int64_t pieces, int threads) {
  using Acc = Accumulator<T>;
  const cpu::Rows<const T> gate(x.gate), up(x.up), d_y(x.d_y);
  const cpu::Rows<T> dgate(x.dgate), dup(x.dup);
  const Acc limit = s.limit > 0 ? static_cast<Acc>(s.limit) : std::numeric_limits<Acc>::infinity();
  for_each_block(s, pieces, threads, [&](int64_t row, int64_t begin, int64_t count) {
    alignas(64) Acc gates[kBlock], ups[kBlock], upstream[kBlock];
    const auto part = [&](auto& rows) { return Part{rows, row, begin, count}; };
    const Acc *g = part(gate).read(gates), *u = part(up).read(ups), *d = part(d_y).read(upstream);
    Acc *to_gate = part(dgate).write(gates), *to_up = part(dup).write(ups);
    for (int64_t i = 0; i < count; i += kLanes<Acc>) {
      const auto raw_gate = load(g + i), raw_up = load(u + i), dy = load(d + i), none = cpu::all(Acc{0});
      const Gate<Acc> unit(raw_gate, limit);
      const auto d_gate = dy * clip(raw_up, limit) * unit.sigma * (1 + unit.gate * (1 - unit.sigma)), d_up = dy * unit.unit;
      store<Acc>(to_gate + i, raw_gate <= limit ? d_gate : none);
      store<Acc>(to_up + i, (raw_up >= -limit) & (raw_up <= limit) ? d_up : none);
    }
    part(dgate).landed(to_gate), part(dup).landed(to_up);
  });
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "tiled",
    .about = "tokens in exactly k pieces, vectors, every number read once",
    .forward = [](const Shape& s, const Tensors& x, Context& c) { tiled_forward(s, x, pieces_of(s), c); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { tiled_backward(s, x, pieces_of(s), c); },
})};

}  // namespace

void tiled_forward(const Shape& s, const Tensors& x, int64_t pieces, Context& context) {
  dispatch_float(x.gate.dtype, [&]<class T>() { forward<T>(s, x, pieces, context.threads); });
}

void tiled_backward(const Shape& s, const Tensors& x, int64_t pieces, Context& context) {
  dispatch_float(x.gate.dtype, [&]<class T>() { backward<T>(s, x, pieces, context.threads); });
}

}  // namespace megatoken::swiglu
