// sparse_attention/online_atomics: backward in one pass over the queries, as GPU kernels do it: every query adds [dS; P]ᵀ [q; do] to the
// rows of its keys with one atomic add a number. Nothing of a query is kept, but two queries that share a key add in whichever order they
// arrive, so the last bits of dk and dv change from run to run.
// Memory: an accumulator copy of dk of one key head, and one query's dS and P a worker.
#include <atomic>

#include "optimized/components/sparse_attention/backward.hpp"

namespace megatoken::sparse_attention {
namespace {

template <class Acc>
struct Sums {
  Acc *dk, *dv;  // s d · s dv, padded; dv is absent when absorbed
  Sums(const Shape& s, cpu::Arena& arena) : dk(arena.take<Acc>(s.s * padded<Acc>(s.d))), dv(s.direct ? arena.take<Acc>(s.s * padded<Acc>(s.dv)) : nullptr) {}
};

template <class Acc>
struct Scratch : QueryScratch<Acc> {
  Kept<Acc> kept;
  Scratch(const Shape& s, cpu::Arena& arena) : QueryScratch<Acc>(s, arena), kept{arena.take<int32_t>(s.n), arena.take<Acc>(Kept<Acc>::left_size(s)), arena.take<Acc>(Kept<Acc>::weights_size(s))} {}
};

template <class T>
void backward_queries(const Shape& s, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  cpu::Arena arena(context.workspace.data());
  const Sums<Acc> sums(s, arena);
  const auto memory = context.workspace.subspan(static_cast<size_t>(arena.used()));
  const Backward<T> backward(s, x);
  const int64_t d = backward.gather.d, dv = backward.gather.dv;
  const auto write = [&](const TensorView& view, const Acc* from, int64_t row, int64_t width, int64_t b, int64_t key_head) {
    const auto to = view.elements<T, 4>();
    parallel_for(s.s, context.threads, [&](int64_t key) { cpu::narrow(from + key * row, width, &to(b, key, key_head, 0), to.stride[3]); });
  };
  for (int64_t head = 0; head < s.b * s.hk; ++head) {
    const int64_t b = head / s.hk, key_head = head % s.hk;
    std::fill(sums.dk, sums.dk + s.s * d, Acc{0});
    if (s.direct) std::fill(sums.dv, sums.dv + s.s * dv, Acc{0});
    cpu::for_each_item<Scratch<Acc>>(s.t, context.threads, s, memory, [&](int64_t i, Scratch<Acc>& scratch) {
      const int64_t count = backward.gather.keys_of(b, i, scratch.kept.keys);
      backward.query(b, i, key_head, count, scratch.kept, scratch);
      backward.add_slots(scratch.kept, 0, count, sums.dk, sums.dv, scratch, [](Acc* to, const Acc* sum, int64_t width) {
        for (int64_t c = 0; c < width; ++c) std::atomic_ref(to[c]).fetch_add(sum[c], std::memory_order_relaxed);
      });
    });
    write(x.dk, sums.dk, d, s.d, b, key_head);
    if (s.direct) write(x.dv, sums.dv, dv, s.dv, b, key_head);
  }
}

int64_t workspace(const Shape& shape, DType dtype, Phase phase) {
  const int64_t forward = online_forward_workspace(shape, dtype);
  if (phase == Phase::Forward) return forward;
  const auto backward = [&]<class Acc>() { return cpu::scratch_bytes<Sums<Acc>>(shape) + hardware_threads() * cpu::scratch_bytes<Scratch<Acc>>(shape); };
  return std::max(forward, dtype == DType::F64 ? backward.template operator()<double>() : backward.template operator()<float>());
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "online_atomics",
    .about = "as online; backward adds to dk and dv by atomics, so their last bits vary",
    .deterministic = false,
    .workspace = workspace,
    .forward = online_forward,
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { backward_queries<T>(s, x, c); }); },
})};

}  // namespace
}  // namespace megatoken::sparse_attention
