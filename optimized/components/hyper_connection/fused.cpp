// hyper_connection/fused: every stream is read from memory once a phase. A tile has as many tokens as a vector has lanes: their streams
// are widened into scratch that stays in cache, and the mapping runs with one token a lane.
//
//   P = Z fnᵀ for the tile (Eigen);  the mapping (lanes.hpp);  then token by token  y = Σ pre X,  X' = post u + combᵀ X
//   backward:  d pre, d post, d comb as dot products of the rows at hand;  the mapping in reverse;
//   dz = pre dy + comb dX' + fnᵀ (r dm) − r³/(n c) (dm · p) z,   dfn += (r dm)ᵀ Z
// Parameter gradients add up in a fixed number of groups of tiles and then over the groups in order: the bits do not depend on the number
// of threads, and memory does not depend on the number of tokens.
#include <array>

#include "optimized/components/hyper_connection/lanes.hpp"
#include "optimized/cpu/pieces.hpp"
#include "optimized/cpu/products.hpp"
#include "optimized/cpu/rows.hpp"
#include "optimized/cpu/scratch.hpp"

namespace megatoken::hyper_connection {
namespace {

using cpu::dot, cpu::kLanes, cpu::Vector;

constexpr int64_t kGroups = 16;

/// to = first · factor + Σ_i weight_i rows_i over kStreams rows of c numbers.
template <int kStreams, class Acc>
void mix(const Acc* __restrict rows, const Acc* weight, const Acc* __restrict first, Acc factor, int64_t c, Acc* __restrict to) {
  for (int64_t j = 0; j < c; ++j) {
    Acc sum = factor * first[j];
    for (int i = 0; i < kStreams; ++i) sum += weight[i] * rows[i * c + j];
    to[j] = sum;
  }
}
template <class Acc>
void mix(int64_t streams, const Acc* rows, const Acc* weight, const Acc* first, Acc factor, int64_t c, Acc* to) {
  switch (streams) {
    case 1: return mix<1>(rows, weight, first, factor, c, to);
    case 2: return mix<2>(rows, weight, first, factor, c, to);
    case 3: return mix<3>(rows, weight, first, factor, c, to);
    default: return mix<4>(rows, weight, first, factor, c, to);
  }
}

/// Parameter gradients of one group of tiles.
template <class Acc>
struct Sums {
  Acc *fn, *base, *scale;  // k n c · k · 3
  Sums(const Shape& s, cpu::Arena& arena) : fn(arena.take<Acc>(s.k * s.n * s.c)), base(arena.take<Acc>(s.k)), scale(arena.take<Acc>(3)) {}
};

template <class Acc>
struct Worker {
  Acc *z, *dz;            // a row of n c each token
  Acc *p, *r_dm;          // a row of k each token
  Acc *u, *d_y, *row, *sum;  // c
  Acc* upstream;          // n c
  Vector<Acc>* steps;
  Worker(const Shape& s, cpu::Arena& arena) {
    z = arena.take<Acc>(kLanes<Acc> * s.n * s.c), dz = arena.take<Acc>(kLanes<Acc> * s.n * s.c);
    p = arena.take<Acc>(kLanes<Acc> * s.k), r_dm = arena.take<Acc>(kLanes<Acc> * s.k);
    u = arena.take<Acc>(s.c), d_y = arena.take<Acc>(s.c), row = arena.take<Acc>(s.c), sum = arena.take<Acc>(s.c), upstream = arena.take<Acc>(s.n * s.c);
    steps = arena.take<Vector<Acc>>(LaneMapping<Acc>::steps_size(s));
  }
};

template <class T>
class Fused {
 public:
  using Acc = Accumulator<T>;
  using V = Vector<Acc>;

  Fused(const Shape& s, const Tensors& v, Context& context)
      : s_(s), v_(v), threads_(context.threads), n_(s.n), c_(s.c), k_(s.k), tiles_((s.tokens() + kLanes<Acc> - 1) / kLanes<Acc>), u_(v.u), memory_(context.workspace) {
    MEGATOKEN_CHECK(v.fn.contiguous() && v.base.contiguous() && v.scale.contiguous(), "hyper_connection: fn, base and scale must be contiguous");
    fn_ = v.fn.as<const Acc>(), base_ = v.base.as<const Acc>(), scale_ = v.scale.as<const Acc>();
    if (s.entry) e_ = cpu::Rows<const T>(v.e);
    else x_ = v.x.elements<const T, 4>();
  }

  void forward() {
    const cpu::Rows<T> y(v_.y), pooled = s_.exit ? cpu::Rows<T>(v_.pooled) : cpu::Rows<T>();
    const auto x_out = v_.x_out.template elements<T, 4>();
    const auto post = v_.post.template elements<Acc, 3>();
    const auto comb = v_.comb.template elements<Acc, 4>();
    cpu::for_each_item<Worker<Acc>>(tiles_, threads_, s_, memory_, [&](int64_t tile, Worker<Acc>& w) {
      const LaneMapping<Acc> map = map_tile(tile, w);
      for (int64_t lane = 0; lane < tokens_of(tile); ++lane) {
        const int64_t token = tile * kLanes<Acc> + lane, b = token / s_.t, t = token % s_.t;
        const Acc* z = w.z + lane * n_ * c_;
        Acc weight[kMaxStreams];
        for (int64_t i = 0; i < n_; ++i) weight[i] = map.pre[i][lane], post(b, t, i) = map.post[i][lane];
        u_.read(token, w.u);
        mix(n_, z, weight, z, Acc{0}, c_, w.row);
        y.write(token, w.row);
        std::fill(w.sum, w.sum + c_, Acc{0});
        for (int64_t to = 0; to < n_; ++to) {
          for (int64_t from = 0; from < n_; ++from) comb(b, t, from, to) = weight[from] = map.comb(s_)[from * n_ + to][lane];
          mix(n_, z, weight, w.u, map.post[to][lane], c_, w.row);
          cpu::narrow(w.row, c_, &x_out(b, t, to, 0), x_out.stride[3]);
          for (int64_t j = 0; j < c_; ++j) w.sum[j] += w.row[j];
        }
        if (!s_.exit) continue;
        for (int64_t j = 0; j < c_; ++j) w.sum[j] /= static_cast<Acc>(n_);
        pooled.write(token, w.sum);
      }
    });
  }

  void backward() {
    cpu::Arena arena(memory_.data());
    std::array<Acc*, kGroups> fn{}, base{}, scale{};
    for (int64_t group = 0; group < kGroups; ++group) {
      const Sums<Acc> sums(s_, arena);
      fn[group] = sums.fn, base[group] = sums.base, scale[group] = sums.scale;
    }
    cpu::for_each_item<Worker<Acc>>(kGroups, threads_, s_, memory_.subspan(static_cast<size_t>(arena.used())), [&](int64_t group, Worker<Acc>& w) {
      std::fill(fn[group], fn[group] + k_ * n_ * c_, Acc{0}), std::fill(base[group], base[group] + k_, Acc{0}), std::fill(scale[group], scale[group] + 3, Acc{0});
      const auto [begin, end] = cpu::piece(tiles_, kGroups, group);
      for (int64_t tile = begin; tile < end; ++tile) reverse_tile(tile, w, fn[group], base[group], scale[group]);
    });
    add_up(fn, v_.dfn, "dfn"), add_up(base, v_.dbase, "dbase"), add_up(scale, v_.dscale, "dscale");
  }

 private:
  int64_t tokens_of(int64_t tile) const { return std::min<int64_t>(kLanes<Acc>, s_.tokens() - tile * kLanes<Acc>); }

  /// Reads the streams of a tile into w.z; lanes without a token get zeros.
  LaneMapping<Acc> map_tile(int64_t tile, Worker<Acc>& w) const {
    LaneMapping<Acc> map;
    map.steps = w.steps;
    const int64_t count = tokens_of(tile), width = n_ * c_;
    std::fill(w.z + count * width, w.z + kLanes<Acc> * width, Acc{0});
    for (int64_t lane = 0; lane < kLanes<Acc>; ++lane) {
      Acc* z = w.z + lane * width;
      const int64_t token = tile * kLanes<Acc> + lane;
      for (int64_t i = 0; lane < count && i < n_; ++i) {
        if (s_.entry) e_.read(token, z + i * c_);
        else cpu::widen(&x_(token / s_.t, token % s_.t, i, 0), x_.stride[3], c_, z + i * c_);
      }
      map.r[lane] = 1 / std::sqrt(dot(z, z, width) / static_cast<Acc>(width) + static_cast<Acc>(s_.eps));
    }
    cpu::grid(w.p, kLanes<Acc>, k_).noalias() = cpu::const_grid(w.z, kLanes<Acc>, width) * cpu::const_grid(fn_, k_, width).transpose();
    for (int64_t q = 0; q < k_; ++q)
      for (int64_t lane = 0; lane < kLanes<Acc>; ++lane) map.p[q][lane] = w.p[lane * k_ + q];
    map.run(s_, base_, scale_);
    return map;
  }

  void reverse_tile(int64_t tile, Worker<Acc>& w, Acc* dfn, Acc* dbase, Acc* dscale) const {
    const LaneMapping<Acc> map = map_tile(tile, w);
    const int64_t count = tokens_of(tile), width = n_ * c_;
    V d[kMaxMaps] = {};
    for (int64_t lane = 0; lane < count; ++lane) reverse_mix(tile * kLanes<Acc> + lane, lane, map, w, d);
    map.reverse(s_, d);
    V product{};
    for (int64_t q = 0; q < k_; ++q) {
      const int group = q < n_ ? 0 : q < 2 * n_ ? 1 : 2;
      const V dm = d[q] * scale_[group];
      product += dm * map.p[q];
      for (int64_t lane = 0; lane < count; ++lane) {
        w.r_dm[lane * k_ + q] = map.r[lane] * dm[lane];
        dbase[q] += d[q][lane];
        dscale[group] += d[q][lane] * map.m[q][lane];
      }
    }
    const auto z = cpu::const_grid(w.z, count, width), r_dm = cpu::const_grid(w.r_dm, count, k_);
    cpu::grid(w.dz, count, width).noalias() += r_dm * cpu::const_grid(fn_, k_, width);
    cpu::grid(dfn, k_, width).noalias() += r_dm.transpose() * z;
    for (int64_t lane = 0; lane < count; ++lane) {
      const Acc factor = map.r[lane] * map.r[lane] * map.r[lane] / static_cast<Acc>(width) * product[lane];
      Acc* dz = w.dz + lane * width;
      for (int64_t j = 0; j < width; ++j) dz[j] -= factor * w.z[lane * width + j];
      write_streams(tile * kLanes<Acc> + lane, dz);
    }
  }

  /// du; what reaches pre, post and comb of one token; the part of dz that does not go through the mapping.
  void reverse_mix(int64_t token, int64_t lane, const LaneMapping<Acc>& map, Worker<Acc>& w, V* d) const {
    const int64_t b = token / s_.t, t = token % s_.t;
    const auto d_x_out = v_.d_x_out.template elements<const T, 4>();
    for (int64_t to = 0; to < n_; ++to) cpu::widen(&d_x_out(b, t, to, 0), d_x_out.stride[3], c_, w.upstream + to * c_);
    if (s_.exit) {
      cpu::Rows<const T>(v_.d_pooled).read(token, w.row);
      for (int64_t to = 0; to < n_; ++to)
        for (int64_t j = 0; j < c_; ++j) w.upstream[to * c_ + j] += w.row[j] / static_cast<Acc>(n_);
    }
    u_.read(token, w.u);
    cpu::Rows<const T>(v_.d_y).read(token, w.d_y);
    const Acc* z = w.z + lane * n_ * c_;
    Acc weight[kMaxStreams];
    for (int64_t to = 0; to < n_; ++to) weight[to] = map.post[to][lane];
    mix(n_, w.upstream, weight, w.upstream, Acc{0}, c_, w.row);
    cpu::Rows<T>(v_.du).write(token, w.row);
    for (int64_t from = 0; from < n_; ++from) {
      d[from][lane] = dot(w.d_y, z + from * c_, c_);
      d[n_ + from][lane] = dot(w.upstream + from * c_, w.u, c_);
      for (int64_t to = 0; to < n_; ++to) {
        d[2 * n_ + from * n_ + to][lane] = dot(z + from * c_, w.upstream + to * c_, c_);
        weight[to] = map.comb(s_)[from * n_ + to][lane];
      }
      mix(n_, w.upstream, weight, w.d_y, map.pre[from][lane], c_, w.dz + (lane * n_ + from) * c_);
    }
  }

  void write_streams(int64_t token, Acc* dz) const {
    if (s_.entry) {
      for (int64_t i = 1; i < n_; ++i)
        for (int64_t j = 0; j < c_; ++j) dz[j] += dz[i * c_ + j];
      cpu::Rows<T>(v_.de).write(token, dz);
    } else {
      const auto dx = v_.dx.template elements<T, 4>();
      for (int64_t i = 0; i < n_; ++i) cpu::narrow(dz + i * c_, c_, &dx(token / s_.t, token % s_.t, i, 0), dx.stride[3]);
    }
  }

  void add_up(const std::array<Acc*, kGroups>& parts, const TensorView& view, const char* name) const {
    MEGATOKEN_CHECK(view.contiguous(), "hyper_connection: {} must be contiguous", name);
    Acc* to = view.as<Acc>();
    parallel_for(kGroups, threads_, [&](int64_t i) {
      const auto [begin, end] = cpu::piece(view.size(), kGroups, i);
      std::copy(parts[0] + begin, parts[0] + end, to + begin);
      for (int64_t group = 1; group < kGroups; ++group)
        for (int64_t j = begin; j < end; ++j) to[j] += parts[static_cast<size_t>(group)][j];
    });
  }

  const Shape& s_;
  const Tensors& v_;
  int threads_;
  int64_t n_, c_, k_, tiles_;
  cpu::Rows<const T> u_, e_;
  Elements<const T, 4> x_;
  const Acc *fn_, *base_, *scale_;
  std::span<std::byte> memory_;
};

template <class Acc>
int64_t bytes(const Shape& s, Phase phase) {
  const int64_t groups = phase == Phase::Forward ? 0 : kGroups * cpu::scratch_bytes<Sums<Acc>>(s);
  return groups + hardware_threads() * cpu::scratch_bytes<Worker<Acc>>(s);
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "fused",
    .about = "streams read once, one token a lane, all threads; memory independent of t",
    .workspace = [](const Shape& s, DType dtype, Phase phase) { return dtype == DType::F64 ? bytes<double>(s, phase) : bytes<float>(s, phase); },
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.y.dtype, [&]<class T>() { Fused<T>(s, x, c).forward(); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.y.dtype, [&]<class T>() { Fused<T>(s, x, c).backward(); }); },
})};

}  // namespace
}  // namespace megatoken::hyper_connection
