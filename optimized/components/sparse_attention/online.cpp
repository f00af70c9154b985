// sparse_attention/online, forward: the keys of a query are gathered 64 at a time and absorbed with a running maximum:
//   S = scale K qᵀ;  m' = max(m, max_j S);  P = e^{S − m'};  l ← l e^{m − m'} + Σ_j P;  o ← o e^{m − m'} + Pᵀ V
// A work item is one query and one key head with all its query heads, so every gathered row is read once for all of them.
#include "optimized/components/sparse_attention/gather.hpp"

namespace megatoken::sparse_attention {
namespace {

using cpu::kLanes, cpu::load, cpu::store;

template <class Acc> constexpr Acc kNone = -std::numeric_limits<Acc>::infinity();

template <class Acc>
struct Scratch {
  Acc *q, *k, *v, *scores, *o, *largest, *sum, *decay;  // d × heads · kTile × d · kTile × dv · kTile × heads · heads × dv · heads each
  int32_t* keys;

  Scratch(const Shape& s, cpu::Arena& arena) {
    const int64_t heads = padded<Acc>(s.group()), d = padded<Acc>(s.d), dv = padded<Acc>(s.dv);
    q = arena.take<Acc>(d * heads), k = arena.take<Acc>(kTile * d), v = s.direct ? arena.take<Acc>(kTile * dv) : k;
    scores = arena.take<Acc>(kTile * heads), o = arena.take<Acc>(heads * dv);
    largest = arena.take<Acc>(heads), sum = arena.take<Acc>(heads), decay = arena.take<Acc>(heads);
    keys = arena.take<int32_t>(s.n);
  }
};

/// Takes a tile of scores in: new maximum and sum, scores become e^{S − m'}, o is rescaled.
template <class Acc>
void absorb(const Scratch<Acc>& s, int64_t count, int64_t heads, int64_t group, int64_t dv) {
  for (int64_t g = 0; g < heads; g += kLanes<Acc>) {
    auto top = load(s.largest + g);
    for (int64_t j = 0; j < count; ++j) {
      const auto score = load(s.scores + j * heads + g);
      top = score > top ? score : top;
    }
    const auto base = top == kNone<Acc> ? cpu::all(Acc{0}) : top;  // −∞ − −∞ is no number
    const auto decay = cpu::exp(load(s.largest + g) - base);
    auto total = load(s.sum + g) * decay;
    for (int64_t j = 0; j < count; ++j) {
      const auto p = cpu::exp(load(s.scores + j * heads + g) - base);
      store<Acc>(s.scores + j * heads + g, p);
      total += p;
    }
    store<Acc>(s.largest + g, top), store<Acc>(s.sum + g, total), store<Acc>(s.decay + g, decay);
  }
  for (int64_t g = 0; g < group; ++g)
    if (s.decay[g] != 1)
      for (int64_t c = 0; c < dv; c += kLanes<Acc>) store<Acc>(s.o + g * dv + c, load(s.o + g * dv + c) * s.decay[g]);
}

template <class T>
void forward_rows(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Gather<T> gather(shape, x);
  const auto o = x.o.elements<T, 4>();
  const auto lse = x.lse.elements<Acc, 3>();
  const int64_t group = shape.group(), heads = gather.heads, dv = gather.dv;
  cpu::for_each_item<Scratch<Acc>>(shape.b * shape.t * shape.hk, context.threads, shape, context.workspace, [&](int64_t item, Scratch<Acc>& s) {
    const int64_t b = item / (shape.t * shape.hk), i = item / shape.hk % shape.t, key_head = item % shape.hk;
    const int64_t count = gather.keys_of(b, i, s.keys);
    gather.turn_heads(gather.q, b, i, key_head, shape.d, s.q);
    std::fill(s.largest, s.largest + heads, kNone<Acc>);
    std::fill(s.sum, s.sum + heads, Acc{0});
    std::fill(s.o, s.o + group * dv, Acc{0});
    for (int64_t first = 0; first < count; first += kTile) {
      const int64_t keys = std::min(kTile, count - first);
      gather.tile(b, key_head, s.keys + first, keys, s.q, s.k, s.v, s.scores);
      absorb(s, keys, heads, group, dv);
      cpu::multiply_add<Acc>(group, dv, keys, {s.scores, 1, heads}, {s.v, dv}, {s.o, dv});
    }
    for (int64_t g = 0; g < group; ++g) {
      const int64_t head = key_head * group + g;
      lse(b, head, i) = s.sum[g] == 0 ? kNone<Acc> : s.largest[g] + std::log(s.sum[g]);
      for (int64_t c = 0; c < shape.dv; ++c) o(b, i, head, c) = static_cast<T>(s.sum[g] == 0 ? Acc{0} : s.o[g * dv + c] / s.sum[g]);
    }
  });
}

void forward(const Shape& shape, const Tensors& x, Context& context) {
  check_ids(shape, x);
  dispatch_float(x.q.dtype, [&]<class T>() { forward_rows<T>(shape, x, context); });
}

int64_t workspace(const Shape& shape, DType dtype, Phase phase) {
  const int64_t forward = hardware_threads() * (dtype == DType::F64 ? cpu::scratch_bytes<Scratch<double>>(shape) : cpu::scratch_bytes<Scratch<float>>(shape));
  return phase == Phase::Forward ? forward : std::max(forward, online_backward_workspace(shape, dtype));
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "online",
    .about = "gathered tiles of keys, running maximum, vectors of heads; backward by an inverted index",
    .workspace = workspace,
    .forward = forward,
    .backward = online_backward,
})};

}  // namespace
}  // namespace megatoken::sparse_attention
