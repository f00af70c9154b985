// kda/cpu: the recurrence of kda.hpp, token by token. At fp64 it is the oracle; at lower precision state, decay, norms and
// sums are fp32 and every result is rounded once.
// Backward needs the state before every token. It keeps the states at √t borders and, inside one stretch between borders,
// runs forward again and keeps them all.
#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/components/kda/activation.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::kda {
namespace {

template <class Acc>
using Row = std::vector<Acc>;

/// One value head of one batch row: its activated token and the two lines of the recurrence.
template <class T>
struct Head {
  using Acc = Accumulator<T>;
  const Activation<T>& in;
  int64_t b, h, n, d, dv;
  Row<Acc> q, k, decay, r;  // of the current token; r = v − S'ᵀk
  Acc beta = 0;

  Head(const Activation<T>& in, const Shape& shape, int64_t b, int64_t h, int64_t n)
      : in(in), b(b), h(h), n(n), d(shape.d), dv(shape.dv), q(static_cast<size_t>(d)), k(q.size()), decay(q.size()), r(static_cast<size_t>(dv)) {}

  void load(int64_t i) {
    const Acc q_factor = in.inverse_norm(in.q, b, i, h), k_factor = in.inverse_norm(in.k, b, i, h);
    for (int64_t c = 0; c < d; ++c) {
      q[c] = static_cast<Acc>(in.q(b, i, h, c)) * q_factor;
      k[c] = static_cast<Acc>(in.k(b, i, h, c)) * k_factor;
      decay[c] = std::exp(in.log_decay(b, i, h, n, c));
    }
    beta = in.beta(b, i, h, n);
  }
  /// S → S', and r.
  void decay_state(int64_t i, Row<Acc>& s) {
    for (int64_t e = 0; e < dv; ++e) r[e] = static_cast<Acc>(in.v(b, i, h, n, e));
    for (int64_t c = 0; c < d; ++c)
      for (int64_t e = 0; e < dv; ++e) {
        s[c * dv + e] *= decay[c];
        r[e] -= s[c * dv + e] * k[c];
      }
  }
  /// S' → S.
  void add_delta(Row<Acc>& s) const {
    for (int64_t c = 0; c < d; ++c)
      for (int64_t e = 0; e < dv; ++e) s[c * dv + e] += beta * k[c] * r[e];
  }
  /// The state goes over token i; false when the token is padding.
  bool step(int64_t i, Row<Acc>& s) {
    if (in.padding(b, i)) return false;
    if (in.starts(b, i)) std::fill(s.begin(), s.end(), Acc{0});
    load(i);
    decay_state(i, s);
    add_delta(s);
    return true;
  }
};

template <class Acc>
Row<Acc> load_state(const Shape& shape, const TensorView& view, int64_t b, int64_t h, int64_t n) {
  Row<Acc> s(static_cast<size_t>(shape.d * shape.dv), Acc{0});
  if (!shape.carry) return s;
  const auto state = view.elements<const Acc, 5>();
  for (int64_t c = 0; c < shape.d; ++c)
    for (int64_t e = 0; e < shape.dv; ++e) s[c * shape.dv + e] = state(b, h, n, c, e);
  return s;
}

template <class Acc>
void store_state(const Shape& shape, const Row<Acc>& s, const TensorView& view, int64_t b, int64_t h, int64_t n) {
  if (!shape.carry) return;
  const auto state = view.elements<Acc, 5>();
  for (int64_t c = 0; c < shape.d; ++c)
    for (int64_t e = 0; e < shape.dv; ++e) state(b, h, n, c, e) = s[c * shape.dv + e];
}

template <class T>
void forward_loops(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Activation<T> in(shape, x);
  const auto o = x.o.elements<T, 5>();
  const auto scale = static_cast<Acc>(shape.scale);
  parallel_for(shape.b * shape.h * shape.group, context.threads, [&](int64_t item) {
    const int64_t b = item / (shape.h * shape.group), h = item / shape.group % shape.h, n = item % shape.group;
    Head<T> head(in, shape, b, h, n);
    Row<Acc> s = load_state<Acc>(shape, x.initial_state, b, h, n), row(static_cast<size_t>(shape.dv));
    for (int64_t i = 0; i < shape.t; ++i) {
      std::fill(row.begin(), row.end(), Acc{0});
      if (head.step(i, s))
        for (int64_t c = 0; c < shape.d; ++c)
          for (int64_t e = 0; e < shape.dv; ++e) row[e] += scale * head.q[c] * s[c * shape.dv + e];
      for (int64_t e = 0; e < shape.dv; ++e) o(b, i, h, n, e) = static_cast<T>(row[e]);
    }
    store_state(shape, s, x.final_state, b, h, n);
  });
}

/// The backward of one value head: states before every token of a stretch, the running dS, and the head's share of gradients.
template <class T>
struct HeadBackward {
  using Acc = Accumulator<T>;
  Head<T> head;
  const Elements<const T, 5> d_o;
  const Elements<T, 5> dv, dg;
  const Elements<T, 4> d_beta;
  const Acc scale;
  const int64_t stretch;
  std::vector<Row<Acc>> borders, before;  // states before tokens 0, stretch, 2·stretch …; states before each token of a stretch
  Row<Acc> ds, d_dt_bias;
  Acc d_a_log = 0;

  HeadBackward(const Activation<T>& in, const Shape& shape, const Tensors& x, int64_t b, int64_t h, int64_t n)
      : head(in, shape, b, h, n), d_o(x.d_o.elements<const T, 5>()), dv(x.dv.elements<T, 5>()), dg(x.dg.elements<T, 5>()), d_beta(x.d_beta.elements<T, 4>()),
        scale(static_cast<Acc>(shape.scale)), stretch(stretch_of(shape)), ds(load_state<Acc>(shape, x.d_final_state, b, h, n)),
        d_dt_bias(static_cast<size_t>(shape.d), Acc{0}) {
    Row<Acc> s = load_state<Acc>(shape, x.initial_state, b, h, n);
    for (int64_t i = 0; i < shape.t; ++i) {
      if (i % stretch == 0) borders.push_back(s);
      head.step(i, s);
    }
  }
  static int64_t stretch_of(const Shape& shape) { return std::max<int64_t>(1, static_cast<int64_t>(std::sqrt(static_cast<double>(shape.t)))); }

  void keep_states(int64_t begin, int64_t end) {
    Row<Acc> s = borders[begin / stretch];
    before.clear();
    for (int64_t i = begin; i < end; ++i) {
      before.push_back(s);
      head.step(i, s);
    }
  }

  /// Token i of the stretch that begins at `begin`; adds to dq and dk, which the value heads of a group share.
  void step(int64_t i, int64_t begin, Row<Acc>& dq, Row<Acc>& dk) {
    const int64_t b = head.b, h = head.h, n = head.n, width = head.dv;
    if (head.in.padding(b, i)) return write_zeros(i);
    Row<Acc>& s = before[i - begin];
    if (head.in.starts(b, i)) std::fill(s.begin(), s.end(), Acc{0});
    head.load(i);
    head.decay_state(i, s);  // s is S'
    Row<Acc> du(static_cast<size_t>(width), Acc{0});
    for (int64_t c = 0; c < head.d; ++c)
      for (int64_t e = 0; e < width; ++e) {
        const Acc upstream = static_cast<Acc>(d_o(b, i, h, n, e)), after = s[c * width + e] + head.beta * head.k[c] * head.r[e];
        dq[c] += scale * after * upstream;
        ds[c * width + e] += scale * head.q[c] * upstream;
        du[e] += ds[c * width + e] * head.k[c];
      }
    Acc beta_sum = 0;
    for (int64_t e = 0; e < width; ++e) {
      beta_sum += du[e] * head.r[e];
      dv(b, i, h, n, e) = static_cast<T>(head.beta * du[e]);
    }
    d_beta(b, i, h, n) = static_cast<T>(head.in.beta_gradient(b, i, h, n, beta_sum));
    for (int64_t c = 0; c < head.d; ++c) {
      Acc g_sum = 0;
      for (int64_t e = 0; e < width; ++e) {
        const Acc dr = head.beta * du[e];
        dk[c] += ds[c * width + e] * head.beta * head.r[e] - s[c * width + e] * dr;
        ds[c * width + e] -= head.k[c] * dr;  // dS'
        g_sum += ds[c * width + e] * s[c * width + e];
        ds[c * width + e] *= head.decay[c];
      }
      const auto gradient = head.in.gate_gradient(b, i, h, n, c, g_sum);
      dg(b, i, h, n, c) = static_cast<T>(gradient.x);
      d_dt_bias[c] += gradient.x;
      d_a_log += gradient.a_log;
    }
    if (head.in.starts(b, i)) std::fill(ds.begin(), ds.end(), Acc{0});
  }
  void write_zeros(int64_t i) const {
    for (int64_t e = 0; e < head.dv; ++e) dv(head.b, i, head.h, head.n, e) = static_cast<T>(Acc{0});
    for (int64_t c = 0; c < head.d; ++c) dg(head.b, i, head.h, head.n, c) = static_cast<T>(Acc{0});
    d_beta(head.b, i, head.h, head.n) = static_cast<T>(Acc{0});
  }
};

/// Through the norm: dx = (dy − y ⟨dy, y⟩) / √(Σx² + eps), y the normalised row. 0 for padding, which may hold anything.
template <class T>
void store_normalised(const Activation<T>& in, const Elements<const T, 4>& x, const Elements<T, 4>& dx, int64_t b, int64_t i, int64_t h,
                      const Row<Accumulator<T>>& dy) {
  using Acc = Accumulator<T>;
  if (in.padding(b, i)) {
    for (int64_t c = 0; c < in.d; ++c) dx(b, i, h, c) = static_cast<T>(Acc{0});
    return;
  }
  const Acc factor = in.inverse_norm(x, b, i, h);
  Acc along = 0;
  for (int64_t c = 0; c < in.d && in.l2norm; ++c) along += dy[c] * static_cast<Acc>(x(b, i, h, c)) * factor;
  for (int64_t c = 0; c < in.d; ++c) dx(b, i, h, c) = static_cast<T>(factor * (dy[c] - static_cast<Acc>(x(b, i, h, c)) * factor * along));
}

template <class T>
void backward_loops(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Activation<T> in(shape, x);
  const auto dq = x.dq.elements<T, 4>(), dk = x.dk.elements<T, 4>();
  const int64_t heads = shape.h * shape.group;
  std::vector<Acc> d_a_log(static_cast<size_t>(shape.b * heads));               // b h group
  std::vector<Row<Acc>> d_dt_bias(static_cast<size_t>(shape.b * heads));        // b h group, d
  parallel_for(shape.b * shape.h, context.threads, [&](int64_t item) {
    const int64_t b = item / shape.h, h = item % shape.h;
    std::vector<HeadBackward<T>> group;
    for (int64_t n = 0; n < shape.group; ++n) group.emplace_back(in, shape, x, b, h, n);
    Row<Acc> q_row(static_cast<size_t>(shape.d)), k_row(q_row.size());
    const int64_t stretch = HeadBackward<T>::stretch_of(shape);
    for (int64_t begin = (shape.t - 1) / stretch * stretch; begin >= 0 && shape.t > 0; begin -= stretch) {
      const int64_t end = std::min(shape.t, begin + stretch);
      for (auto& head : group) head.keep_states(begin, end);
      for (int64_t i = end - 1; i >= begin; --i) {
        std::fill(q_row.begin(), q_row.end(), Acc{0});
        std::fill(k_row.begin(), k_row.end(), Acc{0});
        for (auto& head : group) head.step(i, begin, q_row, k_row);
        store_normalised(in, in.q, dq, b, i, h, q_row);
        store_normalised(in, in.k, dk, b, i, h, k_row);
      }
    }
    for (int64_t n = 0; n < shape.group; ++n) {
      store_state(shape, group[n].ds, x.d_initial_state, b, h, n);
      d_a_log[item * shape.group + n] = group[n].d_a_log;
      d_dt_bias[item * shape.group + n] = group[n].d_dt_bias;
    }
  });
  if (shape.gate == Gate::Given) return;
  const auto to_a_log = x.d_a_log.elements<Acc, 2>();
  const auto to_dt_bias = x.d_dt_bias.elements<Acc, 3>();
  for (int64_t hv = 0; hv < heads; ++hv) {  // batch rows in a fixed order
    Acc sum = 0;
    for (int64_t b = 0; b < shape.b; ++b) sum += d_a_log[b * heads + hv];
    to_a_log(hv / shape.group, hv % shape.group) = sum;
    for (int64_t c = 0; c < shape.d; ++c) {
      Acc channel = 0;
      for (int64_t b = 0; b < shape.b; ++b) channel += d_dt_bias[b * heads + hv][c];
      to_dt_bias(hv / shape.group, hv % shape.group, c) = channel;
    }
  }
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the recurrence token by token; the oracle at fp64",
    .dtypes = {DType::F64, DType::F32, DType::BF16, DType::F16},
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { forward_loops<T>(s, x, c); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { backward_loops<T>(s, x, c); }); },
})};

}  // namespace
}  // namespace megatoken::kda
