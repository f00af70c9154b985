// hyper_connection/fused: every stream is read from memory once a phase. A tile has as many tokens as a vector has lanes, so that
// it stays in cache and the mapping runs with one token a lane.
//
//   P = Z fnᵀ for the tile;  the mapping (lanes.hpp);  then token by token  y = Σ pre X,  X' = post u + combᵀ X  (streams.hpp)
//   backward:  d pre, d post, d comb as dot products of the rows at hand;  the mapping in reverse;
//   dz = pre dy + comb dX' + fnᵀ (r dm) − r³/(n c) (dm · p) z,   dfn += (r dm)ᵀ Z
// Parameter gradients add up in a fixed number of groups of tiles and then over the groups in order: the bits do not depend on the number
// of threads, and memory does not depend on the number of tokens.
#include <array>

#include "optimized/components/hyper_connection/lanes.hpp"
#include "optimized/components/hyper_connection/streams.hpp"
#include "optimized/cpu/matmul.hpp"
#include "optimized/cpu/pieces.hpp"
#include "optimized/cpu/rows.hpp"
#include "optimized/cpu/scratch.hpp"

namespace megatoken::hyper_connection {
namespace {

using cpu::dot, cpu::kLanes, cpu::Vector;

constexpr int64_t kGroups = 16;
constexpr int64_t kDepth = 64;  // channels of Z and fn that are multiplied while they are in cache

template <class Acc> int64_t padded(int64_t width) { return (width + kLanes<Acc> - 1) / kLanes<Acc> * kLanes<Acc>; }

/// fn for all workers, as it is multiplied: in rows of n padded streams, and turned.
template <class Acc>
struct Matrix {
  Acc *rows, *turned;  // k × n c · n c × k, both padded
  Matrix(const Shape& s, cpu::Arena& arena) {
    const int64_t width = s.n * padded<Acc>(s.c);
    rows = arena.take<Acc>(s.k * width), turned = arena.take<Acc>(width * padded<Acc>(s.k));
  }
  void set(const Shape& s, const Acc* fn) const {
    const int64_t c = padded<Acc>(s.c), width = s.n * c, k = padded<Acc>(s.k);
    std::fill(rows, rows + s.k * width, Acc{0}), std::fill(turned, turned + width * k, Acc{0});
    for (int64_t q = 0; q < s.k; ++q)
      for (int64_t i = 0; i < s.n; ++i)
        for (int64_t j = 0; j < s.c; ++j) rows[q * width + i * c + j] = turned[(i * c + j) * k + q] = fn[(q * s.n + i) * s.c + j];
  }
};

/// Parameter gradients of one group of tiles.
template <class Acc>
struct Sums {
  Acc *fn, *base, *scale;  // k × n c, padded · k · 3
  Sums(const Shape& s, cpu::Arena& arena) : fn(arena.take<Acc>(s.k * s.n * padded<Acc>(s.c))), base(arena.take<Acc>(s.k)), scale(arena.take<Acc>(3)) {}
};

template <class Acc>
struct Worker {
  Acc *z, *dz;                // n c each token, padded
  Acc *p, *r_dm;              // k each token, padded
  Acc *u, *d_y, *y, *mean;    // c, padded
  Acc* rows;                  // n c, padded
  Vector<Acc>* steps;
  Worker(const Shape& s, cpu::Arena& arena) {
    const int64_t c = padded<Acc>(s.c), k = padded<Acc>(s.k);
    z = arena.take<Acc>(kLanes<Acc> * s.n * c), dz = arena.take<Acc>(kLanes<Acc> * s.n * c);
    p = arena.take<Acc>(kLanes<Acc> * k), r_dm = arena.take<Acc>(kLanes<Acc> * k);
    u = arena.take<Acc>(c), d_y = arena.take<Acc>(c), y = arena.take<Acc>(c), mean = arena.take<Acc>(c), rows = arena.take<Acc>(s.n * c);
    steps = arena.take<Vector<Acc>>(LaneMapping<Acc>::steps_size(s));
  }
};

/// The mapping of one lane.
template <class Acc>
TokenMapping<Acc> of_lane(const LaneMapping<Acc>& map, const Shape& s, int64_t lane) {
  TokenMapping<Acc> one{};
  for (int64_t i = 0; i < s.n; ++i) {
    one.pre[i] = map.pre[i][lane], one.post[i] = map.post[i][lane];
    for (int64_t j = 0; j < s.n; ++j) one.comb[i][j] = map.comb(s)[i * s.n + j][lane];
  }
  return one;
}

template <class T>
class Fused {
 public:
  using Acc = Accumulator<T>;
  using V = Vector<Acc>;

  Fused(const Shape& s, const Tensors& v, Context& context)
      : s_(s), v_(v), threads_(context.threads), n_(s.n), c_(padded<Acc>(s.c)), width_(n_ * c_), k_(padded<Acc>(s.k)), tiles_((s.tokens() + kLanes<Acc> - 1) / kLanes<Acc>), u_(v.u),
        arena_(context.workspace.data()), fn_(s, arena_), memory_(context.workspace) {
    MEGATOKEN_CHECK(v.fn.contiguous() && v.base.contiguous() && v.scale.contiguous(), "hyper_connection: fn, base and scale must be contiguous");
    fn_.set(s, v.fn.as<const Acc>()), base_ = v.base.as<const Acc>(), scale_ = v.scale.as<const Acc>();
    if (s.entry) e_ = cpu::Rows<const T>(v.e);
    else x_ = v.x.elements<const T, 4>();
  }

  void forward() {
    const cpu::Rows<T> y(v_.y), pooled = s_.exit ? cpu::Rows<T>(v_.pooled) : cpu::Rows<T>();
    const auto x_out = v_.x_out.template elements<T, 4>();
    const auto post = v_.post.template elements<Acc, 3>();
    const auto comb = v_.comb.template elements<Acc, 4>();
    for_each(tiles_, [&](int64_t tile, Worker<Acc>& w) {
      const Acc* z = streams(tile, w);
      const LaneMapping<Acc> map = map_tile(z, tokens_of(tile), w);
      for (int64_t lane = 0; lane < tokens_of(tile); ++lane) {
        const int64_t token = tile * kLanes<Acc> + lane, b = token / s_.t, t = token % s_.t;
        const TokenMapping<Acc> one = of_lane(map, s_, lane);
        Acc* out[kMaxStreams];
        for (int64_t i = 0; i < n_; ++i) {
          post(b, t, i) = one.post[i];
          for (int64_t j = 0; j < n_; ++j) comb(b, t, i, j) = one.comb[i][j];
          out[i] = cpu::writable(&x_out(b, t, i, 0), x_out.stride[3], s_.c, w.rows + i * c_);
        }
        const Acc* u = cpu::readable(u_.at(token), u_.stride(), s_.c, w.u);
        Acc *to_y = cpu::writable(y.at(token), y.stride(), s_.c, w.y), *mean = s_.exit ? w.mean : nullptr;
        with_streams(n_, [&]<int kStreams>(std::integral_constant<int, kStreams>) { mix<kStreams>(one, z + lane * width_, c_, u, to_y, out, mean); });
        cpu::landed(to_y, s_.c, y.at(token), y.stride());
        for (int64_t i = 0; i < n_; ++i) cpu::landed(out[i], s_.c, &x_out(b, t, i, 0), x_out.stride[3]);
        if (mean) pooled.write(token, mean);
      }
    });
  }

  void backward() {
    std::array<Acc*, kGroups> fn{}, base{}, scale{};
    for (int64_t group = 0; group < kGroups; ++group) {
      const Sums<Acc> sums(s_, arena_);
      fn[group] = sums.fn, base[group] = sums.base, scale[group] = sums.scale;
    }
    for_each(kGroups, [&](int64_t group, Worker<Acc>& w) {
      std::fill(fn[group], fn[group] + s_.k * width_, Acc{0}), std::fill(base[group], base[group] + s_.k, Acc{0}), std::fill(scale[group], scale[group] + 3, Acc{0});
      const auto [begin, end] = cpu::piece(tiles_, kGroups, group);
      for (int64_t tile = begin; tile < end; ++tile) reverse_tile(tile, w, fn[group], base[group], scale[group]);
    });
    add_up(fn, v_.dfn, s_.c, c_, "dfn"), add_up(base, v_.dbase, s_.k, s_.k, "dbase"), add_up(scale, v_.dscale, 3, 3, "dscale");
  }

 private:
  template <class Body>
  void for_each(int64_t items, const Body& body) { cpu::for_each_item<Worker<Acc>>(items, threads_, s_, memory_.subspan(static_cast<size_t>(arena_.used())), body); }

  int64_t tokens_of(int64_t tile) const { return std::min<int64_t>(kLanes<Acc>, s_.tokens() - tile * kLanes<Acc>); }

  /// The streams of a tile: where they lie when that is in whole vectors of Acc, or widened into w.z.
  const Acc* streams(int64_t tile, Worker<Acc>& w) const {
    const int64_t first = tile * kLanes<Acc>;
    if constexpr (std::is_same_v<T, Acc>)
      if (!s_.entry && s_.c == c_ && v_.x.contiguous()) return v_.x.template as<const Acc>() + first * width_;
    for (int64_t token = first; token < first + tokens_of(tile); ++token)
      for (int64_t i = 0; i < n_; ++i) {
        Acc* z = w.z + (token - first) * width_ + i * c_;
        if (s_.entry) e_.read(token, z);
        else cpu::widen(&x_(token / s_.t, token % s_.t, i, 0), x_.stride[3], s_.c, z);
        std::fill(z + s_.c, z + c_, Acc{0});
      }
    return w.z;
  }

  LaneMapping<Acc> map_tile(const Acc* z, int64_t count, Worker<Acc>& w) const {
    LaneMapping<Acc> map;
    map.steps = w.steps;
    map.r = V{};
    for (int64_t lane = 0; lane < count; ++lane)
      map.r[lane] = 1 / std::sqrt(dot(z + lane * width_, z + lane * width_, width_) / static_cast<Acc>(n_ * s_.c) + static_cast<Acc>(s_.eps));
    std::fill(w.p, w.p + kLanes<Acc> * k_, Acc{0});
    for (int64_t at = 0; at < width_; at += kDepth)
      cpu::multiply_add<Acc>(count, k_, std::min(kDepth, width_ - at), {z + at, width_}, {fn_.turned + at * k_, k_}, {w.p, k_});
    for (int64_t q = 0; q < s_.k; ++q)
      for (int64_t lane = 0; lane < kLanes<Acc>; ++lane) map.p[q][lane] = w.p[lane * k_ + q];
    map.run(s_, base_, scale_);
    return map;
  }

  void reverse_tile(int64_t tile, Worker<Acc>& w, Acc* dfn, Acc* dbase, Acc* dscale) const {
    const int64_t count = tokens_of(tile);
    const Acc* z = streams(tile, w);
    const LaneMapping<Acc> map = map_tile(z, count, w);
    V d[kMaxMaps] = {};
    for (int64_t lane = 0; lane < count; ++lane) reverse_token(tile * kLanes<Acc> + lane, lane, z + lane * width_, map, w, d);
    map.reverse(s_, d);
    V product{};
    for (int64_t q = 0; q < s_.k; ++q) {
      const int group = q < n_ ? 0 : q < 2 * n_ ? 1 : 2;
      const V dm = d[q] * scale_[group];
      product += dm * map.p[q];
      for (int64_t lane = 0; lane < count; ++lane) {
        w.r_dm[lane * k_ + q] = map.r[lane] * dm[lane];
        dbase[q] += d[q][lane];
        dscale[group] += d[q][lane] * map.m[q][lane];
      }
    }
    cpu::multiply_add<Acc>(count, width_, s_.k, {w.r_dm, k_}, {fn_.rows, width_}, {w.dz, width_});
    cpu::multiply_add<Acc>(s_.k, width_, count, {w.r_dm, 1, k_}, {z, width_}, {dfn, width_});
    const V factor = map.r * map.r * map.r / static_cast<Acc>(n_ * s_.c) * product;
    for (int64_t lane = 0; lane < count; ++lane) write_streams(tile * kLanes<Acc> + lane, w.dz + lane * width_, z + lane * width_, factor[lane], w);
  }

  /// du; what reaches pre, post and comb of one token; the part of dz that does not go through the mapping.
  void reverse_token(int64_t token, int64_t lane, const Acc* z, const LaneMapping<Acc>& map, Worker<Acc>& w, V* d) const {
    const int64_t b = token / s_.t, t = token % s_.t;
    const auto d_x_out = v_.d_x_out.template elements<const T, 4>();
    const cpu::Rows<const T> d_y(v_.d_y);
    const cpu::Rows<T> du(v_.du);
    const Acc* upstream[kMaxStreams];
    for (int64_t j = 0; j < n_; ++j) upstream[j] = cpu::readable(&d_x_out(b, t, j, 0), d_x_out.stride[3], s_.c, w.rows + j * c_);
    if (s_.exit) {
      cpu::Rows<const T>(v_.d_pooled).read(token, w.mean);
      for (int64_t j = 0; j < n_; ++j) {
        for (int64_t c = 0; c < s_.c; ++c) w.rows[j * c_ + c] = upstream[j][c] + w.mean[c] / static_cast<Acc>(n_);
        std::fill(w.rows + j * c_ + s_.c, w.rows + (j + 1) * c_, Acc{0});
        upstream[j] = w.rows + j * c_;
      }
    }
    const Acc *u = cpu::readable(u_.at(token), u_.stride(), s_.c, w.u), *dy = cpu::readable(d_y.at(token), d_y.stride(), s_.c, w.d_y);
    Acc* to_u = cpu::writable(du.at(token), du.stride(), s_.c, w.y);
    TokenMapping<Acc> sums;
    with_streams(n_, [&]<int kStreams>(std::integral_constant<int, kStreams>) {
      sums = reverse_map<kStreams>(z, c_, u, dy, upstream);
      reverse_mix<kStreams>(of_lane(map, s_, lane), c_, dy, upstream, to_u, w.dz + lane * width_);
    });
    cpu::landed(to_u, s_.c, du.at(token), du.stride());
    for (int64_t i = 0; i < n_; ++i) {
      d[i][lane] = sums.pre[i], d[n_ + i][lane] = sums.post[i];
      for (int64_t j = 0; j < n_; ++j) d[2 * n_ + i * n_ + j][lane] = sums.comb[i][j];
    }
  }

  /// dX_i = dz_i − factor z_i, or de, their sum.
  void write_streams(int64_t token, Acc* dz, const Acc* z, Acc factor, Worker<Acc>& w) const {
    const auto finish = [&](const Acc* gradient, const Acc* value, Acc* to) {
      for (int64_t c = 0; c < c_; c += kLanes<Acc>) cpu::store<Acc>(to + c, cpu::load(gradient + c) - factor * cpu::load(value + c));
    };
    if (s_.entry) {
      for (int64_t i = 1; i < n_; ++i)
        for (int64_t c = 0; c < c_; ++c) dz[c] += dz[i * c_ + c];
      factor *= static_cast<Acc>(n_);  // all streams are e
      finish(dz, z, w.y);
      cpu::Rows<T>(v_.de).write(token, w.y);
      return;
    }
    const auto dx = v_.dx.template elements<T, 4>();
    for (int64_t i = 0; i < n_; ++i) {
      T* home = &dx(token / s_.t, token % s_.t, i, 0);
      Acc* to = cpu::writable(home, dx.stride[3], s_.c, w.y);
      finish(dz + i * c_, z + i * c_, to);
      cpu::landed(to, s_.c, home, dx.stride[3]);
    }
  }

  /// Rows of `width` numbers that lie `stride` apart in every part.
  void add_up(const std::array<Acc*, kGroups>& parts, const TensorView& view, int64_t width, int64_t stride, const char* name) const {
    MEGATOKEN_CHECK(view.contiguous(), "hyper_connection: {} must be contiguous", name);
    Acc* all = view.as<Acc>();
    parallel_for(view.size() / width, threads_, [&](int64_t row) {
      Acc* to = all + row * width;
      std::copy_n(parts[0] + row * stride, width, to);
      for (int64_t group = 1; group < kGroups; ++group)
        for (int64_t c = 0; c < width; ++c) to[c] += parts[static_cast<size_t>(group)][row * stride + c];
    });
  }

  const Shape& s_;
  const Tensors& v_;
  int threads_;
  int64_t n_, c_, width_, k_, tiles_;  // c_, width_ = n c and k_ are padded
  cpu::Rows<const T> u_, e_;
  Elements<const T, 4> x_;
  cpu::Arena arena_;
  Matrix<Acc> fn_;
  const Acc *base_, *scale_;
  std::span<std::byte> memory_;
};

template <class Acc>
int64_t bytes(const Shape& s, Phase phase) {
  const int64_t groups = phase == Phase::Forward ? 0 : kGroups * cpu::scratch_bytes<Sums<Acc>>(s);
  return cpu::scratch_bytes<Matrix<Acc>>(s) + groups + hardware_threads() * cpu::scratch_bytes<Worker<Acc>>(s);
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
