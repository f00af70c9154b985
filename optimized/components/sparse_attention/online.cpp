// sparse_attention/online: backward in chunks of queries of one key head, keys cut into blocks of equal length:
//   1. queries in parallel: the keys are sorted by block, which is the chunk's inverted index: block → slots of every query; then dq (backward.hpp)
//   2. blocks of keys in parallel: queries ascending, their slots in the block add [dS; P]ᵀ [q; do] to the rows of dk (and dv)
// A block belongs to one worker and its rows stay in cache; q and do of a query are read once for all its slots there. There are no atomics,
// and a key's sum has one order, query by query, for any number of threads and any chunk.
// Memory: dS and P of a chunk, and one accumulator copy of dk of one key head; never anything of size t × n.
#include "optimized/components/sparse_attention/backward.hpp"

namespace megatoken::sparse_attention {
namespace {

using cpu::kLanes, cpu::load, cpu::store;

constexpr int64_t kKept = int64_t{1} << 24;  // numbers of dS and P in a chunk, about
constexpr int64_t kBlockSlots = 32;          // slots of a query in a block, about, where keys are spread evenly

int64_t chunk_rows(const Shape& s) { return std::clamp<int64_t>(kKept / Kept<float>::weights_size(s), 1, std::min<int64_t>(1024, std::max<int64_t>(s.t, 1))); }

/// A power of two, so that a key's block is a shift.
int block_shift(const Shape& s) {
  int shift = 6;
  while ((s.n << shift) < kBlockSlots * s.s) ++shift;
  return shift;
}
int64_t blocks_of(const Shape& s) { return (s.s + (int64_t{1} << block_shift(s)) - 1) >> block_shift(s); }

/// What all workers share.
template <class Acc>
struct Chunk {
  Acc *left, *weights;  // of every query
  Acc *dk, *dv;         // s d · s dv, padded: sums of one batch row and key head; dv is absent when absorbed
  int32_t *keys, *begin;  // rows n, sorted by block · rows (blocks + 1), where each block's slots begin

  Chunk(const Shape& s, cpu::Arena& arena) {
    const int64_t rows = chunk_rows(s);
    left = arena.take<Acc>(rows * Kept<Acc>::left_size(s)), weights = arena.take<Acc>(rows * Kept<Acc>::weights_size(s));
    dk = arena.take<Acc>(s.s * padded<Acc>(s.d)), dv = s.direct ? arena.take<Acc>(s.s * padded<Acc>(s.dv)) : nullptr;
    keys = arena.take<int32_t>(rows * s.n), begin = arena.take<int32_t>(rows * (blocks_of(s) + 1));
  }
  Kept<Acc> kept(const Shape& s, int64_t r) const { return {keys + r * s.n, left + r * Kept<Acc>::left_size(s), weights + r * Kept<Acc>::weights_size(s)}; }
};

template <class Acc>
struct Scratch : QueryScratch<Acc> {
  int32_t* keys;  // n
  Scratch(const Shape& s, cpu::Arena& arena) : QueryScratch<Acc>(s, arena), keys(arena.take<int32_t>(s.n)) {}
};

/// Counting sort of a query's keys by block, stable. begin: blocks + 1.
void sort_by_block(const int32_t* keys, int64_t count, int shift, int64_t blocks, int32_t* sorted, int32_t* begin) {
  std::fill(begin, begin + blocks + 1, 0);
  for (int64_t j = 0; j < count; ++j) ++begin[keys[j] >> shift];
  int32_t end = 0;
  for (int64_t block = 0; block <= blocks; ++block) begin[block] = end += begin[block];
  for (int64_t j = count; j-- > 0;) sorted[--begin[keys[j] >> shift]] = keys[j];
}

template <class T>
class Chunks {
 public:
  using Acc = Accumulator<T>;

  Chunks(const Shape& s, const Tensors& x, Context& context)
      : s_(s), x_(x), backward_(s, x), threads_(context.threads), shift_(block_shift(s)), blocks_(blocks_of(s)), arena_(context.workspace.data()), chunk_(s, arena_),
        memory_(context.workspace.subspan(static_cast<size_t>(arena_.used()))) {}

  void run() {
    const int64_t rows = chunk_rows(s_);
    for (int64_t head = 0; head < s_.b * s_.hk; ++head) {
      b_ = head / s_.hk, key_head_ = head % s_.hk;
      for (int64_t first = 0; first == 0 || first < s_.t; first += rows) {
        const int64_t count = std::min(rows, s_.t - first);
        for_each(count, [&](int64_t r, Scratch<Acc>& scratch) { query(first + r, r, scratch); });
        for_each(blocks_, [&](int64_t block, Scratch<Acc>& scratch) {
          if (first == 0) clear(block);
          for (int64_t r = 0; r < count; ++r) add_query(block, r, scratch);
          if (first + rows >= s_.t) write(block);
        });
      }
    }
  }

 private:
  template <class Body>
  void for_each(int64_t items, const Body& body) { cpu::for_each_item<Scratch<Acc>>(items, threads_, s_, memory_, body); }

  void query(int64_t i, int64_t r, Scratch<Acc>& scratch) {
    const Kept<Acc> kept = chunk_.kept(s_, r);
    const int64_t count = backward_.gather.keys_of(b_, i, scratch.keys);
    sort_by_block(scratch.keys, count, shift_, blocks_, kept.keys, chunk_.begin + r * (blocks_ + 1));
    backward_.query(b_, i, key_head_, count, kept, scratch);
  }

  void add_query(int64_t block, int64_t r, Scratch<Acc>& scratch) {
    const int32_t* begin = chunk_.begin + r * (blocks_ + 1) + block;
    backward_.add_slots(chunk_.kept(s_, r), begin[0], begin[1], chunk_.dk, chunk_.dv, scratch, [](Acc* to, const Acc* sum, int64_t width) {
      for (int64_t c = 0; c < width; c += kLanes<Acc>) store<Acc>(to + c, load(to + c) + load(sum + c));
    });
  }

  int64_t first_key(int64_t block) const { return std::min(block << shift_, s_.s); }
  void clear(int64_t block) {
    const int64_t begin = first_key(block), end = first_key(block + 1), d = backward_.gather.d, dv = backward_.gather.dv;
    std::fill(chunk_.dk + begin * d, chunk_.dk + end * d, Acc{0});
    if (s_.direct) std::fill(chunk_.dv + begin * dv, chunk_.dv + end * dv, Acc{0});
  }
  void write(int64_t block) {
    write_rows(x_.dk, chunk_.dk, backward_.gather.d, s_.d, block);
    if (s_.direct) write_rows(x_.dv, chunk_.dv, backward_.gather.dv, s_.dv, block);
  }
  void write_rows(const TensorView& view, const Acc* sums, int64_t row, int64_t width, int64_t block) {
    const auto to = view.elements<T, 4>();
    for (int64_t key = first_key(block); key < first_key(block + 1); ++key) cpu::narrow(sums + key * row, width, &to(b_, key, key_head_, 0), to.stride[3]);
  }

  const Shape& s_;
  const Tensors& x_;
  Backward<T> backward_;
  int threads_;
  int shift_;
  int64_t blocks_, b_ = 0, key_head_ = 0;
  cpu::Arena arena_;
  Chunk<Acc> chunk_;
  std::span<std::byte> memory_;
};

int64_t workspace(const Shape& shape, DType dtype, Phase phase) {
  const int64_t forward = online_forward_workspace(shape, dtype);
  if (phase == Phase::Forward) return forward;
  const auto backward = [&]<class Acc>() { return cpu::scratch_bytes<Chunk<Acc>>(shape) + hardware_threads() * cpu::scratch_bytes<Scratch<Acc>>(shape); };
  return std::max(forward, dtype == DType::F64 ? backward.template operator()<double>() : backward.template operator()<float>());
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "online",
    .about = "gathered tiles of keys, running maximum; backward by an inverted index of blocks of keys",
    .workspace = workspace,
    .forward = online_forward,
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { Chunks<T>(s, x, c).run(); }); },
})};

}  // namespace
}  // namespace megatoken::sparse_attention
