// kda: the recurrence of kda.hpp as loops over independent columns, with the formulas and rounding points of cpu.cpp; what the GPU
// twin runs, and a test runs on the CPU.
// A column e of the state S[:, e] never meets another one, so forward is one index per (batch row, value head, column), its column
// in the workspace. Backward keeps states at √t borders like cpu.cpp; in each stretch, last to first, columns run forward and
// back and leave S', dS, r and du of every token, from which one index per element sums each gradient.
#pragma once
#include <algorithm>
#include <cmath>
#include <span>

#include "reference/components/kda/activation.hpp"
#include "reference/core/component.hpp"

namespace megatoken::kda {

inline int64_t stretch_of(const Shape& shape) { return std::max<int64_t>(1, static_cast<int64_t>(std::sqrt(static_cast<double>(shape.t)))); }

/// Everything between inputs and results, in the accumulator type. `hv` numbers value heads, `head` is b · hv, `row` counts in a stretch.
template <class Acc>
struct ColumnScratch {
  Elements<Acc, 4> q, k, decay;              // b t h d · b t h d · b t hv d: activated
  Elements<Acc, 3> beta;                     // b t hv
  Elements<Acc, 3> state, ds;                // head d dv, running
  Elements<Acc, 4> borders;                  // head stretches d dv
  Elements<Acc, 4> decayed, ds_row;          // head row d dv: S' and dS (its token added) of every token
  Elements<Acc, 3> residual, du;             // head row dv
  Elements<Acc, 4> dq, dk, d_gate, d_a_log;  // b row hv d
  Elements<Acc, 3> a_log_sum, dt_bias_sum;   // b hv d

  int64_t used = 0;                          // numbers taken

  /// Carves `memory`, or only counts when it is null.
  ColumnScratch(const Shape& s, Phase phase, Acc* memory) {
    const int64_t hv = s.h * s.group, heads = s.b * hv, stretch = stretch_of(s), stretches = (s.t + stretch - 1) / stretch;
    take(q, memory, {s.b, s.t, s.h, s.d}), take(k, memory, {s.b, s.t, s.h, s.d}), take(decay, memory, {s.b, s.t, hv, s.d});
    take(beta, memory, {s.b, s.t, hv}), take(state, memory, {heads, s.d, s.dv});
    if (phase == Phase::Forward) return;
    take(ds, memory, {heads, s.d, s.dv}), take(borders, memory, {heads, stretches, s.d, s.dv});
    take(decayed, memory, {heads, stretch, s.d, s.dv}), take(ds_row, memory, {heads, stretch, s.d, s.dv});
    take(residual, memory, {heads, stretch, s.dv}), take(du, memory, {heads, stretch, s.dv});
    take(dq, memory, {s.b, stretch, hv, s.d}), take(dk, memory, {s.b, stretch, hv, s.d});
    take(d_gate, memory, {s.b, stretch, hv, s.d}), take(d_a_log, memory, {s.b, stretch, hv, s.d});
    take(a_log_sum, memory, {s.b, hv, s.d}), take(dt_bias_sum, memory, {s.b, hv, s.d});
  }
  template <int kRank>
  void take(Elements<Acc, kRank>& to, Acc* memory, const Dims& shape) {
    to.data = memory ? memory + used : nullptr;
    for (int i = 0; i < kRank; ++i) to.stride[i] = contiguous_strides(shape)[i];
    used += shape.product();
  }
};

/// The phases, as loops that `Loop` runs: CpuLoop or GpuLoop.
template <class T, class Loop>
struct Columns {
  using Acc = Accumulator<T>;
  const Shape& shape;
  const Tensors& x;
  Loop loop;
  Activation<T> in;
  ColumnScratch<Acc> scratch;

  Columns(const Shape& shape, const Tensors& x, Phase phase, std::span<std::byte> workspace, Loop loop)
      : shape(shape), x(x), loop(loop), in(shape, x), scratch(shape, phase, reinterpret_cast<Acc*>(workspace.data())) {}

  /// States of absent optional tensors are never read.
  template <class A>
  static Elements<A, 5> optional_state(const TensorView& view) { return view ? view.elements<A, 5>() : Elements<A, 5>{}; }

  void activate() const {
    const auto in = this->in;
    const auto to = scratch;
    const int64_t t = shape.t, h = shape.h, group = shape.group, d = shape.d, hv = h * group;
    loop(shape.b * t * h, "kda norms", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t b = item / (t * h), i = item / h % t, head = item % h;
      const Acc q_factor = in.inverse_norm(in.q, b, i, head), k_factor = in.inverse_norm(in.k, b, i, head);
      for (int64_t c = 0; c < d; ++c) {
        to.q(b, i, head, c) = static_cast<Acc>(in.q(b, i, head, c)) * q_factor;
        to.k(b, i, head, c) = static_cast<Acc>(in.k(b, i, head, c)) * k_factor;
      }
    });
    loop(shape.b * t * hv * d, "kda decays", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t b = item / (t * hv * d), i = item / (hv * d) % t, head = item / d % hv, c = item % d;
      to.decay(b, i, head, c) = std::exp(in.log_decay(b, i, head / group, head % group, c));
      if (c == 0) to.beta(b, i, head) = in.beta(b, i, head / group, head % group);
    });
  }

  void forward() const {
    activate();
    const auto in = this->in;
    const auto s = scratch;
    const auto o = x.o.elements<T, 5>();
    const auto initial = optional_state<const Acc>(x.initial_state);
    const auto final = optional_state<Acc>(x.final_state);
    const bool carry = shape.carry;
    const auto scale = static_cast<Acc>(shape.scale);
    const int64_t t = shape.t, group = shape.group, d = shape.d, dv = shape.dv, hv = shape.h * group;
    loop(shape.b * hv * dv, "kda forward", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t head = item / dv, b = head / hv, v_head = head % hv, h = v_head / group, n = v_head % group, e = item % dv;
      for (int64_t c = 0; c < d; ++c) s.state(head, c, e) = carry ? initial(b, h, n, c, e) : Acc{0};
      for (int64_t i = 0; i < t; ++i) {
        Acc value = 0;
        if (!in.padding(b, i)) {
          step(s, in, b, i, head, v_head, h, n, e, d);
          for (int64_t c = 0; c < d; ++c) value += scale * s.q(b, i, h, c) * s.state(head, c, e);
        }
        o(b, i, h, n, e) = static_cast<T>(value);
      }
      for (int64_t c = 0; carry && c < d; ++c) final(b, h, n, c, e) = s.state(head, c, e);
    });
  }

  /// Column e of the state goes over a token that is not padding; returns the residual v − S'ᵀk.
  MEGATOKEN_HD static Acc step(const ColumnScratch<Acc>& s, const Activation<T>& in, int64_t b, int64_t i, int64_t head, int64_t v_head, int64_t h, int64_t n, int64_t e,
                             int64_t d) {
    const bool starts = in.starts(b, i);
    Acc residual = static_cast<Acc>(in.v(b, i, h, n, e));
    for (int64_t c = 0; c < d; ++c) {
      const Acc decayed = starts ? Acc{0} : s.state(head, c, e) * s.decay(b, i, v_head, c);
      s.state(head, c, e) = decayed;
      residual -= decayed * s.k(b, i, h, c);
    }
    for (int64_t c = 0; c < d; ++c) s.state(head, c, e) += s.beta(b, i, v_head) * s.k(b, i, h, c) * residual;
    return residual;
  }

  void backward() const {
    activate();
    start_backward();
    const int64_t stretch = stretch_of(shape);
    for (int64_t begin = (shape.t - 1) / stretch * stretch; begin >= 0 && shape.t > 0; begin -= stretch) {
      const int64_t rows = std::min(stretch, shape.t - begin);
      run_columns(begin, rows);
      sum_gradients(begin, rows);
      store_norms(begin, rows);
      sum_parameters(begin, rows);
    }
    finish_backward();
  }

  /// States at the borders of stretches; dS of the final state.
  void start_backward() const {
    const auto in = this->in;
    const auto s = scratch;
    const auto initial = optional_state<const Acc>(x.initial_state), d_final = optional_state<const Acc>(x.d_final_state);
    const bool carry = shape.carry;
    const int64_t t = shape.t, group = shape.group, d = shape.d, dv = shape.dv, hv = shape.h * group, stretch = stretch_of(shape);
    loop(shape.b * hv * dv, "kda borders", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t head = item / dv, b = head / hv, v_head = head % hv, h = v_head / group, n = v_head % group, e = item % dv;
      for (int64_t c = 0; c < d; ++c) {
        s.state(head, c, e) = carry ? initial(b, h, n, c, e) : Acc{0};
        s.ds(head, c, e) = carry ? d_final(b, h, n, c, e) : Acc{0};
      }
      for (int64_t i = 0; i < t; ++i) {
        if (i % stretch == 0)
          for (int64_t c = 0; c < d; ++c) s.borders(head, i / stretch, c, e) = s.state(head, c, e);
        if (!in.padding(b, i)) step(s, in, b, i, head, v_head, h, n, e, d);
      }
    });
    loop(shape.b * hv * d, "kda sums", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t b = item / (hv * d), v_head = item / d % hv, c = item % d;
      s.a_log_sum(b, v_head, c) = s.dt_bias_sum(b, v_head, c) = 0;
    });
  }

  /// Every column over a stretch, forward for S' and r, back for dS and du; dv on the way.
  void run_columns(int64_t begin, int64_t rows) const {
    const auto in = this->in;
    const auto s = scratch;
    const auto d_o = x.d_o.elements<const T, 5>();
    const auto to_dv = x.dv.elements<T, 5>();
    const auto scale = static_cast<Acc>(shape.scale);
    const int64_t group = shape.group, d = shape.d, dv = shape.dv, hv = shape.h * group, stretch = stretch_of(shape);
    loop(shape.b * hv * dv, "kda columns", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t head = item / dv, b = head / hv, v_head = head % hv, h = v_head / group, n = v_head % group, e = item % dv;
      for (int64_t c = 0; c < d; ++c) s.state(head, c, e) = s.borders(head, begin / stretch, c, e);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t i = begin + row;
        if (in.padding(b, i)) continue;
        const bool starts = in.starts(b, i);
        for (int64_t c = 0; c < d; ++c) s.decayed(head, row, c, e) = starts ? Acc{0} : s.state(head, c, e) * s.decay(b, i, v_head, c);
        s.residual(head, row, e) = step(s, in, b, i, head, v_head, h, n, e, d);
      }
      for (int64_t row = rows - 1; row >= 0; --row) {
        const int64_t i = begin + row;
        Acc du = 0;
        if (!in.padding(b, i)) {
          for (int64_t c = 0; c < d; ++c) {
            s.ds(head, c, e) += scale * s.q(b, i, h, c) * static_cast<Acc>(d_o(b, i, h, n, e));
            s.ds_row(head, row, c, e) = s.ds(head, c, e);
            du += s.ds(head, c, e) * s.k(b, i, h, c);
          }
          const Acc dr = s.beta(b, i, v_head) * du;
          const bool starts = in.starts(b, i);
          for (int64_t c = 0; c < d; ++c)
            s.ds(head, c, e) = starts ? Acc{0} : (s.ds(head, c, e) - s.k(b, i, h, c) * dr) * s.decay(b, i, v_head, c);
        }
        s.du(head, row, e) = du;
        to_dv(b, i, h, n, e) = static_cast<T>(in.padding(b, i) ? Acc{0} : s.beta(b, i, v_head) * du);
      }
    });
  }

  /// dq, dk per value head, dg, dβ of a stretch: sums over columns.
  void sum_gradients(int64_t begin, int64_t rows) const {
    const auto in = this->in;
    const auto s = scratch;
    const auto d_o = x.d_o.elements<const T, 5>();
    const auto to_dg = x.dg.elements<T, 5>();
    const auto to_d_beta = x.d_beta.elements<T, 4>();
    const auto scale = static_cast<Acc>(shape.scale);
    const int64_t group = shape.group, d = shape.d, dv = shape.dv, hv = shape.h * group;
    loop(shape.b * rows * hv * d, "kda dq dk dg", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t b = item / (rows * hv * d), row = item / (hv * d) % rows, v_head = item / d % hv, c = item % d;
      const int64_t i = begin + row, head = b * hv + v_head, h = v_head / group, n = v_head % group;
      Acc dq = 0, dk = 0, dg = 0;
      if (!in.padding(b, i)) {
        const Acc beta = s.beta(b, i, v_head), k = s.k(b, i, h, c);
        for (int64_t e = 0; e < dv; ++e) {
          const Acc before = s.decayed(head, row, c, e), residual = s.residual(head, row, e), dr = beta * s.du(head, row, e), ds = s.ds_row(head, row, c, e);
          dq += scale * (before + beta * k * residual) * static_cast<Acc>(d_o(b, i, h, n, e));
          dk += ds * beta * residual - before * dr;
          dg += (ds - k * dr) * before;
        }
      }
      using GateGradient = typename Activation<T>::GateGradient;
      const GateGradient gradient = in.padding(b, i) ? GateGradient{0, 0} : in.gate_gradient(b, i, h, n, c, dg);  // padding may hold anything
      s.dq(b, row, v_head, c) = dq;
      s.dk(b, row, v_head, c) = dk;
      s.d_gate(b, row, v_head, c) = gradient.x;
      s.d_a_log(b, row, v_head, c) = gradient.a_log;
      to_dg(b, i, h, n, c) = static_cast<T>(gradient.x);
    });
    loop(shape.b * rows * hv, "kda dbeta", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t b = item / (rows * hv), row = item / hv % rows, v_head = item % hv, head = b * hv + v_head;
      Acc sum = 0;
      for (int64_t e = 0; e < dv; ++e) sum += s.du(head, row, e) * s.residual(head, row, e);
      to_d_beta(b, begin + row, v_head / group, v_head % group) =
          static_cast<T>(in.padding(b, begin + row) ? Acc{0} : in.beta_gradient(b, begin + row, v_head / group, v_head % group, sum));
    });
  }

  /// dq and dk of a stretch: value heads of a group added, then through the norm.
  void store_norms(int64_t begin, int64_t rows) const {
    const auto in = this->in;
    const auto s = scratch;
    const auto to_dq = x.dq.elements<T, 4>(), to_dk = x.dk.elements<T, 4>();
    const int64_t h = shape.h, group = shape.group, d = shape.d;
    const bool l2norm = shape.l2norm;
    loop(2 * shape.b * rows * h, "kda norm gradient", [=] MEGATOKEN_HD(int64_t item) {
      const bool query = item % 2 == 0;
      const int64_t head = item / 2 % h, row = item / (2 * h) % rows, b = item / (2 * h * rows), i = begin + row;
      if (in.padding(b, i)) {
        for (int64_t c = 0; c < d; ++c) (query ? to_dq : to_dk)(b, i, head, c) = static_cast<T>(Acc{0});
        return;
      }
      const auto& dy = query ? s.dq : s.dk;
      const auto& y = query ? s.q : s.k;
      const Acc factor = in.inverse_norm(query ? in.q : in.k, b, i, head);
      const auto sum_of = [&](int64_t c) {
        Acc sum = 0;
        for (int64_t n = 0; n < group; ++n) sum += dy(b, row, head * group + n, c);
        return sum;
      };
      Acc along = 0;
      for (int64_t c = 0; c < d && l2norm; ++c) along += sum_of(c) * y(b, i, head, c);
      for (int64_t c = 0; c < d; ++c) (query ? to_dq : to_dk)(b, i, head, c) = static_cast<T>(factor * (sum_of(c) - y(b, i, head, c) * along));
    });
  }

  void sum_parameters(int64_t begin, int64_t rows) const {
    const auto in = this->in;
    const auto s = scratch;
    const int64_t d = shape.d, hv = shape.h * shape.group;
    loop(shape.b * hv * d, "kda parameter sums", [=] MEGATOKEN_HD(int64_t item) {
      const int64_t b = item / (hv * d), v_head = item / d % hv, c = item % d;
      for (int64_t row = rows - 1; row >= 0; --row) {
        if (in.padding(b, begin + row)) continue;
        s.dt_bias_sum(b, v_head, c) += s.d_gate(b, row, v_head, c);
        s.a_log_sum(b, v_head, c) += s.d_a_log(b, row, v_head, c);
      }
    });
  }

  void finish_backward() const {
    const auto s = scratch;
    const int64_t batch = shape.b, group = shape.group, d = shape.d, dv = shape.dv, hv = shape.h * group;
    if (shape.carry) {
      const auto d_initial = x.d_initial_state.elements<Acc, 5>();
      loop(batch * hv * d * dv, "kda dinitial_state", [=] MEGATOKEN_HD(int64_t item) {
        const int64_t head = item / (d * dv), c = item / dv % d, e = item % dv;
        d_initial(head / hv, head % hv / group, head % group, c, e) = s.ds(head, c, e);
      });
    }
    if (shape.gate == Gate::Given) return;
    const auto to_a_log = x.d_a_log.elements<Acc, 2>();
    const auto to_dt_bias = x.d_dt_bias.elements<Acc, 3>();
    loop(hv, "kda parameters", [=] MEGATOKEN_HD(int64_t v_head) {
      Acc a_log = 0;
      for (int64_t c = 0; c < d; ++c) {
        Acc dt_bias = 0;
        for (int64_t b = 0; b < batch; ++b) {
          a_log += s.a_log_sum(b, v_head, c);
          dt_bias += s.dt_bias_sum(b, v_head, c);
        }
        to_dt_bias(v_head / group, v_head % group, c) = dt_bias;
      }
      to_a_log(v_head / group, v_head % group) = a_log;
    });
  }
};

/// Bytes of workspace.
inline int64_t column_workspace(const Shape& shape, DType dtype, Phase phase) {
  return dtype == DType::F64 ? 8 * ColumnScratch<double>(shape, phase, nullptr).used : 4 * ColumnScratch<float>(shape, phase, nullptr).used;
}

}  // namespace megatoken::kda
