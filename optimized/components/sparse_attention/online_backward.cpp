// sparse_attention/online, backward, in chunks of queries of one key head:
//   1. every query: S again from the gathered keys, P = e^{S − lse}, dP = V doᵀ, dS = scale P (dP − Δ), dq = dSᵀ K; P and dS are kept for the chunk
//   2. the chunk's slots are sorted by key, which is a counting sort: the inverted index
//   3. every key that occurs: dk += dSᵀ q + Pᵀ do (or dv), queries ascending
// Chunks follow one another and a key belongs to one worker, so there are no atomics and every sum has one order for any number of threads.
// Memory: the chunk's P and dS (at most about 64 MiB each at fp32) and one fp32 copy of dk; never anything of size t × n.
#include "optimized/components/sparse_attention/gather.hpp"

namespace megatoken::sparse_attention {
namespace {

using cpu::kLanes, cpu::load, cpu::store;

constexpr int64_t kKept = int64_t{1} << 24;  // numbers of P in a chunk, about
constexpr int64_t kKeyBlock = 256;

int64_t chunk_rows(const Shape& s) { return std::clamp<int64_t>(kKept / (s.n * s.group()), 1, std::min<int64_t>(1024, std::max<int64_t>(s.t, 1))); }

/// What all workers share.
template <class Acc>
struct Chunk {
  Acc *p, *ds;            // rows n group: of the slots that hold keys, in order
  Acc *q, *d_o;           // rows group d · rows group dv, padded
  Acc *dk, *dv;           // s d · s dv, padded: sums of one batch row and key head; dv is absent when absorbed
  int32_t *keys, *count;  // rows n · rows
  int64_t *begin, *slots; // s + 2 · rows n

  Chunk(const Shape& s, cpu::Arena& arena) {
    const int64_t rows = chunk_rows(s), d = padded<Acc>(s.d), width = padded<Acc>(s.dv);
    p = arena.take<Acc>(rows * s.n * s.group()), ds = arena.take<Acc>(rows * s.n * s.group());
    q = arena.take<Acc>(rows * s.group() * d), d_o = arena.take<Acc>(rows * s.group() * width);
    dk = arena.take<Acc>(s.s * d), dv = s.direct ? arena.take<Acc>(s.s * width) : nullptr;
    keys = arena.take<int32_t>(rows * s.n), count = arena.take<int32_t>(rows);
    begin = arena.take<int64_t>(s.s + 2), slots = arena.take<int64_t>(rows * s.n);
  }
};

template <class Acc>
struct Scratch {
  Acc *q, *d_o, *k, *v, *scores, *dp, *dq, *lse, *delta;  // turned q and do · gathered rows · kTile × heads twice · group × d · heads each

  Scratch(const Shape& s, cpu::Arena& arena) {
    const int64_t heads = padded<Acc>(s.group()), d = padded<Acc>(s.d), width = padded<Acc>(s.dv);
    q = arena.take<Acc>(d * heads), d_o = arena.take<Acc>(width * heads);
    k = arena.take<Acc>(kTile * d), v = s.direct ? arena.take<Acc>(kTile * width) : k;
    scores = arena.take<Acc>(kTile * heads), dp = arena.take<Acc>(kTile * heads), dq = arena.take<Acc>(s.group() * d);
    lse = arena.take<Acc>(heads), delta = arena.take<Acc>(heads);
  }
};

template <class T>
struct Backward {
  using Acc = Accumulator<T>;
  const Shape& shape;
  const Chunk<Acc>& chunk;
  Gather<T> gather;
  Elements<const T, 4> o, d_o;
  Elements<const Acc, 3> lse, d_lse;
  Elements<T, 4> dq;

  Backward(const Shape& s, const Tensors& x, const Chunk<Acc>& chunk)
      : shape(s), chunk(chunk), gather(s, x), o(x.o.elements<const T, 4>()), d_o(x.d_o.elements<const T, 4>()), lse(x.lse.elements<const Acc, 3>()), d_lse(x.d_lse.elements<const Acc, 3>()),
        dq(x.dq.elements<T, 4>()) {}

  /// Step 1 for query first + r.
  void query(int64_t b, int64_t key_head, int64_t first, int64_t r, Scratch<Acc>& s) const {
    const int64_t i = first + r, group = shape.group(), heads = gather.heads, d = gather.d, dv = gather.dv;
    int32_t* keys = chunk.keys + r * shape.n;
    const int64_t count = gather.keys_of(b, i, keys);
    chunk.count[r] = static_cast<int32_t>(count);
    gather.turn_heads(gather.q, b, i, key_head, shape.d, s.q);
    gather.turn_heads(d_o, b, i, key_head, shape.dv, s.d_o);
    for (int64_t g = 0; g < heads; ++g) {
      s.lse[g] = s.delta[g] = 0;
      if (g >= group) continue;
      const int64_t head = key_head * group + g;
      s.lse[g] = lse(b, head, i);
      for (int64_t c = 0; c < d; ++c) chunk.q[(r * group + g) * d + c] = c < shape.d ? s.q[c * heads + g] : Acc{0};
      for (int64_t c = 0; c < dv; ++c) chunk.d_o[(r * group + g) * dv + c] = c < shape.dv ? s.d_o[c * heads + g] : Acc{0};
      for (int64_t c = 0; c < shape.dv; ++c) s.delta[g] += s.d_o[c * heads + g] * static_cast<Acc>(o(b, i, head, c));
      s.delta[g] -= d_lse(b, head, i);
    }
    std::fill(s.dq, s.dq + group * d, Acc{0});
    for (int64_t at = 0; at < count; at += kTile) {
      const int64_t tile = std::min(kTile, count - at);
      gather.tile(b, key_head, keys + at, tile, s.q, s.k, s.v, s.scores);
      cpu::multiply<Acc>(tile, heads, shape.dv, Acc{1}, {s.v, dv}, {s.d_o, heads}, {s.dp, heads});
      for (int64_t j = 0; j < tile; ++j) {
        for (int64_t g = 0; g < heads; g += kLanes<Acc>) {
          const auto p = cpu::exp(load(s.scores + j * heads + g) - load(s.lse + g));
          store<Acc>(s.scores + j * heads + g, p);
          store<Acc>(s.dp + j * heads + g, static_cast<Acc>(shape.scale) * p * (load(s.dp + j * heads + g) - load(s.delta + g)));
        }
        std::copy_n(s.scores + j * heads, group, chunk.p + (r * shape.n + at + j) * group);
        std::copy_n(s.dp + j * heads, group, chunk.ds + (r * shape.n + at + j) * group);
      }
      cpu::multiply_add<Acc>(group, d, tile, {s.dp, 1, heads}, {s.k, d}, {s.dq, d});
    }
    for (int64_t g = 0; g < group; ++g)
      for (int64_t c = 0; c < shape.d; ++c) dq(b, i, key_head * group + g, c) = static_cast<T>(s.dq[g * d + c]);
  }

  /// Step 2: the slots of key x are slots[begin[x]] … slots[begin[x + 1] − 1], queries ascending.
  void invert(int64_t rows) const {
    std::fill(chunk.begin, chunk.begin + shape.s + 2, 0);
    const auto each = [&](auto&& f) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < chunk.count[r]; ++j) f(chunk.keys[r * shape.n + j], r * shape.n + j);
    };
    each([&](int32_t key, int64_t) { ++chunk.begin[key + 2]; });
    for (int64_t key = 0; key < shape.s; ++key) chunk.begin[key + 2] += chunk.begin[key + 1];
    each([&](int32_t key, int64_t slot) { chunk.slots[chunk.begin[key + 1]++] = slot; });
  }

  /// Step 3.
  void key(int64_t x) const {
    const int64_t group = shape.group(), d = gather.d, dv = gather.dv;
    Acc* const key_sum = chunk.dk + x * d;
    Acc* const value_sum = shape.direct ? chunk.dv + x * dv : key_sum;
    for (int64_t entry = chunk.begin[x]; entry < chunk.begin[x + 1]; ++entry) {
      const int64_t slot = chunk.slots[entry], r = slot / shape.n;
      cpu::multiply_add<Acc>(1, d, group, {chunk.ds + slot * group, group}, {chunk.q + r * group * d, d}, {key_sum, d});
      cpu::multiply_add<Acc>(1, dv, group, {chunk.p + slot * group, group}, {chunk.d_o + r * group * dv, dv}, {value_sum, dv});
    }
  }
};

template <class T>
void backward_chunks(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  cpu::Arena arena(context.workspace.data());
  const Chunk<Acc> chunk(shape, arena);
  const auto memory = context.workspace.subspan(static_cast<size_t>(arena.used()));
  const Backward<T> backward(shape, x, chunk);
  const int64_t d = padded<Acc>(shape.d), dv = padded<Acc>(shape.dv), rows = chunk_rows(shape), blocks = (shape.s + kKeyBlock - 1) / kKeyBlock;
  const auto for_keys = [&](auto&& f) {
    parallel_for(blocks, context.threads, [&](int64_t block) {
      for (int64_t key = block * kKeyBlock; key < std::min(shape.s, (block + 1) * kKeyBlock); ++key) f(key);
    });
  };
  const auto write = [&](const TensorView& view, const Acc* sums, int64_t row, int64_t width, int64_t b, int64_t key_head) {
    const auto to = view.elements<T, 4>();
    for_keys([&](int64_t key) {
      for (int64_t c = 0; c < width; ++c) to(b, key, key_head, c) = static_cast<T>(sums[key * row + c]);
    });
  };
  for (int64_t head = 0; head < shape.b * shape.hk; ++head) {
    const int64_t b = head / shape.hk, key_head = head % shape.hk;
    std::fill(chunk.dk, chunk.dk + shape.s * d, Acc{0});
    if (shape.direct) std::fill(chunk.dv, chunk.dv + shape.s * dv, Acc{0});
    for (int64_t first = 0; first < shape.t; first += rows) {
      const int64_t count = std::min(rows, shape.t - first);
      cpu::for_each_item<Scratch<Acc>>(count, context.threads, shape, memory, [&](int64_t r, Scratch<Acc>& scratch) { backward.query(b, key_head, first, r, scratch); });
      backward.invert(count);
      for_keys([&](int64_t key) { backward.key(key); });
    }
    write(x.dk, chunk.dk, d, shape.d, b, key_head);
    if (shape.direct) write(x.dv, chunk.dv, dv, shape.dv, b, key_head);
  }
}

}  // namespace

void online_backward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch_float(x.q.dtype, [&]<class T>() { backward_chunks<T>(shape, x, context); });
}

int64_t online_backward_workspace(const Shape& shape, DType dtype) {
  const auto bytes = [&]<class Acc>() { return cpu::scratch_bytes<Chunk<Acc>>(shape) + hardware_threads() * cpu::scratch_bytes<Scratch<Acc>>(shape); };
  return dtype == DType::F64 ? bytes.template operator()<double>() : bytes.template operator()<float>();
}

}  // namespace megatoken::sparse_attention
