// sparse_attention/online and online_atomics, forward: the keys of a query are gathered 64 at a time and absorbed with a running maximum:
//   S = scale K qᵀ;  m' = max(m, max_j S);  P = e^{S − m'};  l ← l e^{m − m'} + Σ_j P;  o ← o e^{m − m'} + Pᵀ V
// A work item is one query and one key head with all its query heads, so every gathered row is read once for all of them.
#include "optimized/components/sparse_attention/gather.hpp"

namespace megatoken::sparse_attention {
namespace {

using cpu::kLanes, cpu::load, cpu::store;

template <class Acc> constexpr Acc kNone = -std::numeric_limits<Acc>::infinity();

template <class Acc>
struct Scratch {
  Acc *q, *scores, *o, *largest, *sum;  // group × d · group × kTile · group × dv · group each
  Tile<Acc> k;
  Acc* v;  // kTile × dv
  int32_t* keys;

  Scratch(const Shape& s, cpu::Arena& arena) : k(s.d, arena), v(s.direct ? arena.take<Acc>(kTile * padded<Acc>(s.dv)) : k.rows) {
    q = arena.take<Acc>(s.group() * padded<Acc>(s.d)), scores = arena.take<Acc>(s.group() * kTile), o = arena.take<Acc>(s.group() * padded<Acc>(s.dv));
    largest = arena.take<Acc>(s.group()), sum = arena.take<Acc>(s.group());
    keys = arena.take<int32_t>(s.n);
  }
};

/// Takes the scores of one head against a tile in: new maximum and sum, scores become e^{S − m'}, the row o is rescaled.
template <class Acc>
void absorb(Acc* scores, int64_t count, Acc& largest, Acc& sum, Acc* o, int64_t dv) {
  const int64_t columns = padded<Acc>(count);
  std::fill(scores + count, scores + columns, kNone<Acc>);
  auto tops = cpu::all(largest);
  for (int64_t j = 0; j < columns; j += kLanes<Acc>) tops = load(scores + j) > tops ? load(scores + j) : tops;
  const Acc top = cpu::largest_of_lanes<Acc>(tops), base = top == kNone<Acc> ? Acc{0} : top;  // −∞ − −∞ is no number
  auto sums = cpu::all(Acc{0});
  for (int64_t j = 0; j < columns; j += kLanes<Acc>) {
    const auto p = cpu::exp(load(scores + j) - base);
    store<Acc>(scores + j, p);
    sums += p;
  }
  if (top != largest) {
    const Acc decay = std::exp(largest - base);
    sum *= decay;
    for (int64_t c = 0; c < dv; c += kLanes<Acc>) store<Acc>(o + c, load(o + c) * decay);
  }
  largest = top;
  sum += cpu::sum_of_lanes<Acc>(sums);
}

template <class T>
void forward_rows(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Gather<T> gather(shape, x);
  const auto o = x.o.elements<T, 4>();
  const auto lse = x.lse.elements<Acc, 3>();
  const int64_t group = shape.group(), d = gather.d, dv = gather.dv;
  cpu::for_each_item<Scratch<Acc>>(shape.b * shape.t * shape.hk, context.threads, shape, context.workspace, [&](int64_t item, Scratch<Acc>& s) {
    const int64_t b = item / (shape.t * shape.hk), i = item / shape.hk % shape.t, key_head = item % shape.hk;
    const int64_t count = gather.keys_of(b, i, s.keys);
    gather.heads(gather.q, b, i, key_head, shape.d, s.q);
    std::fill(s.largest, s.largest + group, kNone<Acc>);
    std::fill(s.sum, s.sum + group, Acc{0});
    std::fill(s.o, s.o + group * dv, Acc{0});
    for (int64_t first = 0; first < count; first += kTile) {
      const int64_t keys = std::min(kTile, count - first);
      gather.tile(gather.k, b, key_head, s.keys + first, keys, shape.d, s.k);
      if (shape.direct) gather.rows(gather.v, b, key_head, s.keys + first, keys, shape.dv, s.v);
      cpu::multiply<Acc>(group, padded<Acc>(keys), shape.d, static_cast<Acc>(shape.scale), {s.q, d}, {s.k.turned, kTile}, {s.scores, kTile});
      for (int64_t g = 0; g < group; ++g) absorb(s.scores + g * kTile, keys, s.largest[g], s.sum[g], s.o + g * dv, dv);
      cpu::multiply_add<Acc>(group, dv, keys, {s.scores, kTile}, {s.v, dv}, {s.o, dv});
    }
    for (int64_t g = 0; g < group; ++g) {
      const int64_t head = key_head * group + g;
      lse(b, head, i) = s.sum[g] == 0 ? kNone<Acc> : s.largest[g] + std::log(s.sum[g]);
      for (int64_t c = 0; c < dv; c += kLanes<Acc>) store<Acc>(s.o + g * dv + c, s.sum[g] == 0 ? cpu::all(Acc{0}) : load(s.o + g * dv + c) / s.sum[g]);
      cpu::narrow(s.o + g * dv, shape.dv, &o(b, i, head, 0), o.stride[3]);
    }
  });
}

}  // namespace

void online_forward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch_float(x.q.dtype, [&]<class T>() { forward_rows<T>(shape, x, context); });
}

int64_t online_forward_workspace(const Shape& shape, DType dtype) {
  return hardware_threads() * (dtype == DType::F64 ? cpu::scratch_bytes<Scratch<double>>(shape) : cpu::scratch_bytes<Scratch<float>>(shape));
}

}  // namespace megatoken::sparse_attention
