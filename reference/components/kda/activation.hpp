// kda: what raw inputs become before the recurrence, and the chain rule back, one element at a time.
// Shared by the loops of cpu.cpp and cpu_chunk.cpp and by the threads of gpu.cu; all arithmetic is in Real.
#pragma once
#include <cmath>

#include "reference/components/kda/kda.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::kda {

template <class T, class Real = Accumulator<T>>
struct Activation {
  Gate gate;
  Beta form;
  bool l2norm;
  int64_t d;
  Real lower_bound, eps;
  Elements<const T, 4> q, k, raw_beta;
  Elements<const T, 5> v, raw_g;
  Elements<const Accumulator<T>, 2> a_log;
  Elements<const Accumulator<T>, 3> dt_bias;
  Elements<const int32_t, 2> document;

  Activation(const Shape& shape, const Tensors& x)
      : gate(shape.gate), form(shape.beta), l2norm(shape.l2norm), d(shape.d), lower_bound(static_cast<Real>(shape.lower_bound)),
        eps(static_cast<Real>(shape.eps)), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), raw_beta(x.beta.elements<const T, 4>()),
        v(x.v.elements<const T, 5>()), raw_g(x.g.elements<const T, 5>()), document(x.document.elements<const int32_t, 2>()) {
    if (gate == Gate::Given) return;
    a_log = x.a_log.elements<const Accumulator<T>, 2>();
    dt_bias = x.dt_bias.elements<const Accumulator<T>, 3>();
  }

  MEGATOKEN_HD bool padding(int64_t b, int64_t i) const { return document(b, i) < 0; }
  /// The state starts from zero at this row.
  MEGATOKEN_HD bool starts(int64_t b, int64_t i) const { return i > 0 && document(b, i) != document(b, i - 1); }

  /// Factor that normalises row (b, i, h) of q or k.
  MEGATOKEN_HD Real inverse_norm(const Elements<const T, 4>& x, int64_t b, int64_t i, int64_t h) const {
    if (!l2norm) return 1;
    Real sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += static_cast<Real>(x(b, i, h, c)) * static_cast<Real>(x(b, i, h, c));
    return 1 / std::sqrt(sum + eps);
  }

  MEGATOKEN_HD static Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
  MEGATOKEN_HD static Real softplus(Real x) { return (x > 0 ? x : Real{0}) + std::log1p(std::exp(x > 0 ? -x : x)); }

  MEGATOKEN_HD Real log_decay(int64_t b, int64_t i, int64_t h, int64_t n, int64_t c) const {
    const Real x = static_cast<Real>(raw_g(b, i, h, n, c));
    if (gate == Gate::Given) return x;
    const Real rate = std::exp(static_cast<Real>(a_log(h, n))), shifted = x + static_cast<Real>(dt_bias(h, n, c));
    return gate == Gate::Softplus ? -rate * softplus(shifted) : lower_bound * sigmoid(rate * shifted);
  }
  struct GateGradient {
    Real x, a_log;  // of the raw gate (and of dt_bias), of A_log
  };
  MEGATOKEN_HD GateGradient gate_gradient(int64_t b, int64_t i, int64_t h, int64_t n, int64_t c, Real dg) const {
    if (gate == Gate::Given) return {dg, 0};
    const Real rate = std::exp(static_cast<Real>(a_log(h, n))), shifted = static_cast<Real>(raw_g(b, i, h, n, c)) + static_cast<Real>(dt_bias(h, n, c));
    if (gate == Gate::Softplus) return {-dg * rate * sigmoid(shifted), -dg * rate * softplus(shifted)};
    const Real s = sigmoid(rate * shifted), dy = dg * lower_bound * s * (1 - s);
    return {dy * rate, dy * rate * shifted};
  }

  MEGATOKEN_HD Real beta(int64_t b, int64_t i, int64_t h, int64_t n) const {
    const Real x = static_cast<Real>(raw_beta(b, i, h, n));
    return form == Beta::Given ? x : form == Beta::Sigmoid ? sigmoid(x) : 2 * sigmoid(x);
  }
  MEGATOKEN_HD Real beta_gradient(int64_t b, int64_t i, int64_t h, int64_t n, Real d_beta) const {
    if (form == Beta::Given) return d_beta;
    const Real s = sigmoid(static_cast<Real>(raw_beta(b, i, h, n)));
    return (form == Beta::Sigmoid ? 1 : 2) * d_beta * s * (1 - s);
  }
};

}  // namespace megatoken::kda
