// kda/chunk_wy in segments: runs of chunks that start without knowing the state in front of them, joined by affine maps.
//   S_out = M S + B:  the ordinary walk with the state widened to [S | M], started at [0 | I], with values 0 in the new columns, ends at [B | M]
//   dS = Mᵀ dS_out + C:  C is where the reverse walk ends when it starts at dS_out = 0
#include <vector>

#include "optimized/components/kda/backward_group.hpp"
#include "optimized/components/kda/chunk_wy.hpp"
#include "optimized/components/kda/forward_group.hpp"

namespace megatoken::kda {
namespace {

/// A group with memory of its own.
template <class Group>
struct Owned {
  std::vector<std::byte> memory;
  cpu::Arena arena;
  Group group;

  Owned(const Shape& shape, int64_t more) : memory(bytes(shape, more) + 64), arena(aligned(memory.data())), group(shape, 1, arena, more) {}
  static size_t bytes(const Shape& shape, int64_t more) {
    cpu::Arena counter;
    Group(shape, 1, counter, more);
    return static_cast<size_t>(counter.used());
  }
  static std::byte* aligned(std::byte* memory) { return memory + (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64; }
};

/// One query/key head of one batch row, cut.
template <class T>
class Segments {
 public:
  using Real = Accumulator<T>;
  using State = std::vector<Real>;  // k × v

  Segments(const Shape& shape, const Tensors& x, int64_t b, int64_t h, int64_t segments, int threads)
      : shape_(shape), x_(x), b_(b), h_(h), segments_(segments), threads_(threads), width_(shape), places_(chunk_places(x.document.elements<const int32_t, 2>(), b, shape.t)),
        maps_(static_cast<size_t>(segments * shape.group)) {
    parallel_for(segments, threads, [&](int64_t s) { find_map(s); });
  }

  void forward() const {
    const auto entries = entry_states();
    parallel_for(segments_, threads_, [&](int64_t s) {
      Owned<ForwardGroup<T>> owned(shape_, 0);
      owned.group.select(x_, b_, h_);
      for_each_head([&](int64_t n) { put(entries[at(s, n)], owned.group.state(n)); });
      owned.group.run(chunks(s));
      for_each_head([&](int64_t n) { if (s + 1 == segments_) store_state(shape_, width_, owned.group.state(n), x_.final_state, b_, h_, n); });
    });
  }

  /// Sums for A_log and dt_bias are returned, segment after segment.
  std::vector<State> backward() const {
    const auto entries = entry_states();
    std::vector<State> locals(maps_.size()), sums(maps_.size());  // C of every segment and value head
    std::vector<std::unique_ptr<Owned<BackwardGroup<T>>>> groups(static_cast<size_t>(segments_));
    parallel_for(segments_, threads_, [&](int64_t s) {
      auto& owned = groups[static_cast<size_t>(s)] = std::make_unique<Owned<BackwardGroup<T>>>(shape_, std::ssize(chunks(s)));
      owned->group.select(x_, b_, h_, chunks(s));
      for_each_head([&](int64_t n) { put(entries[at(s, n)], owned->group.state(n)); });
      owned->group.keep_borders();
      for_each_head([&](int64_t n) { put(State(state_size()), owned->group.state(n)); });
      owned->group.run(false);
      for_each_head([&](int64_t n) { locals[at(s, n)] = take(owned->group.state(n)); });
    });

    std::vector<State> upstream(maps_.size());
    for_each_head([&](int64_t n) {
      State ds(state_size());
      load_state(shape_, width_, x_.d_final_state, b_, h_, n, ds.data());
      for (int64_t s = segments_ - 1; s >= 0; --s) {
        upstream[at(s, n)] = ds;
        State before = locals[at(s, n)];
        cpu::multiply_add<Real>(width_.k, width_.v, width_.k, {maps_[at(s, n)].data() + width_.v, 1, width_.v + width_.k}, {ds.data(), width_.v}, {before.data(), width_.v});
        ds = std::move(before);
      }
    });
    parallel_for(segments_, threads_, [&](int64_t s) {
      BackwardGroup<T>& group = groups[static_cast<size_t>(s)]->group;
      for_each_head([&](int64_t n) { put(upstream[at(s, n)], group.state(n)); });
      group.run(true);
      for_each_head([&](int64_t n) {
        sums[at(s, n)].resize(static_cast<size_t>(parameter_numbers(width_)));
        group.add_sums(n, sums[at(s, n)].data());
        if (s == 0) store_state(shape_, width_, group.state(n), x_.d_initial_state, b_, h_, n);
      });
    });
    return sums;
  }

 private:
  size_t at(int64_t s, int64_t n) const { return static_cast<size_t>(s * shape_.group + n); }
  size_t state_size() const { return static_cast<size_t>(width_.k * width_.v); }
  void put(const State& from, Real* to) const { std::copy(from.begin(), from.end(), to); }
  State take(const Real* from) const { return State(from, from + state_size()); }
  template <class Body>
  void for_each_head(const Body& body) const {
    for (int64_t n = 0; n < shape_.group; ++n) body(n);
  }
  std::span<const ChunkPlace> chunks(int64_t s) const {
    const int64_t count = std::ssize(places_), first = count * s / segments_, last = count * (s + 1) / segments_;
    return std::span(places_).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
  }

  /// [B | M], k × (v + k).
  void find_map(int64_t s) {
    Owned<ForwardGroup<T>> owned(shape_, width_.k);
    const int64_t row = width_.v + width_.k;
    owned.group.select(x_, b_, h_);
    for_each_head([&](int64_t n) {
      Real* state = owned.group.state(n);
      std::fill_n(state, width_.k * row, Real{0});
      for (int64_t c = 0; c < shape_.d; ++c) state[c * row + width_.v + c] = 1;
    });
    owned.group.walk(chunks(s), [](int64_t, int64_t) {});
    for_each_head([&](int64_t n) { maps_[at(s, n)] = State(owned.group.state(n), owned.group.state(n) + width_.k * row); });
  }
  /// The state in front of every segment.
  std::vector<State> entry_states() const {
    std::vector<State> entries(maps_.size());
    for_each_head([&](int64_t n) {
      State state(state_size());
      load_state(shape_, width_, x_.initial_state, b_, h_, n, state.data());
      for (int64_t s = 0; s < segments_; ++s) {
        entries[at(s, n)] = state;
        const Real* map = maps_[at(s, n)].data();
        const int64_t row = width_.v + width_.k;
        cpu::multiply<Real>(width_.k, width_.v, width_.k, 1, {map + width_.v, row}, {entries[at(s, n)].data(), width_.v}, {state.data(), width_.v});
        for (int64_t c = 0; c < width_.k; ++c)
          for (int64_t e = 0; e < width_.v; ++e) state[static_cast<size_t>(c * width_.v + e)] += map[c * row + e];
      }
    });
    return entries;
  }

  const Shape& shape_;
  const Tensors& x_;
  const int64_t b_, h_, segments_;
  const int threads_;
  const Widths width_;
  const std::vector<ChunkPlace> places_;
  std::vector<State> maps_;
};

}  // namespace

void chunk_wy_forward_in_segments(const Shape& shape, const Tensors& x, Context& context, int64_t segments) {
  dispatch_float(x.q.dtype, [&]<class T>() {
    zero_outputs<T>(shape, x);
    for (int64_t item = 0; item < shape.b * shape.h; ++item) Segments<T>(shape, x, item / shape.h, item % shape.h, segments, context.threads).forward();
  });
}

void chunk_wy_backward_in_segments(const Shape& shape, const Tensors& x, Context& context, int64_t segments) {
  dispatch_float(x.q.dtype, [&]<class T>() {
    zero_gradients<T>(shape, x);
    for (int64_t item = 0; item < shape.b * shape.h; ++item) {
      const auto sums = Segments<T>(shape, x, item / shape.h, item % shape.h, segments, context.threads).backward();
      for (size_t i = 0; i < sums.size() && shape.gate != Gate::Given; ++i) add_parameters(shape, x, item % shape.h, static_cast<int64_t>(i) % shape.group, sums[i].data());
    }
  });
}

}  // namespace megatoken::kda
