// kda: raw gates and steps to decays and β, in vectors, and the chain rule back.
#pragma once
#include <cmath>

#include "optimized/cpu/vector.hpp"
#include "reference/components/kda/kda.hpp"

namespace megatoken::kda {

using cpu::dot, cpu::kLanes, cpu::load, cpu::store, cpu::sum_of_lanes, cpu::Vector;

template <class Real>
Vector<Real> sigmoid(Vector<Real> x) { return 1 / (1 + cpu::exp(-x)); }

/// ln(1 + z) for z in [0, 1]: 2 artanh(s) with s = z/(2 + z) ≤ 1/3, whose series loses 5e-9 after s¹³.
inline Vector<float> log1p_of_fraction(Vector<float> z) {
  const Vector<float> s = z / (2 + z), s2 = s * s;
  Vector<float> series = s2 * (1 / 13.0f) + 1 / 11.0f;
  for (float odd : {9.0f, 7.0f, 5.0f, 3.0f, 1.0f}) series = series * s2 + 1 / odd;
  return 2 * s * series;
}
inline Vector<double> log1p_of_fraction(Vector<double> z) {
  for (int i = 0; i < kLanes<double>; ++i) z[i] = std::log1p(z[i]);
  return z;
}
template <class Real>
Vector<Real> softplus(Vector<Real> x) {
  const auto positive = x > 0;
  return (positive ? x : Vector<Real>{}) + log1p_of_fraction(cpu::exp(positive ? -x : x));
}

/// The gate of one value head.
template <class Real>
struct GateOfHead {
  Gate form = Gate::Given;
  Real lower_bound = 0, rate = 1;  // rate = e^{A_log}
  const Real* bias = nullptr;      // padded; zeros when there is none

  /// e^g
  Vector<Real> decay(Vector<Real> raw, int64_t c) const {
    if (form == Gate::Given) return cpu::exp(raw);
    const Vector<Real> x = raw + load(bias + c);
    return form == Gate::Softplus ? cpu::exp(-rate * softplus<Real>(x)) : cpu::exp(lower_bound * sigmoid<Real>(rate * x));
  }
  /// From dg: the gradient of the raw gate, which is that of dt_bias too; that of A_log is added to a_log.
  Vector<Real> gradient(Vector<Real> raw, int64_t c, Vector<Real> dg, Vector<Real>& a_log) const {
    if (form == Gate::Given) return dg;
    const Vector<Real> x = raw + load(bias + c);
    if (form == Gate::Softplus) {
      a_log -= dg * rate * softplus<Real>(x);
      return -dg * rate * sigmoid<Real>(x);
    }
    const Vector<Real> s = sigmoid<Real>(rate * x), dy = dg * lower_bound * s * (1 - s);
    a_log += dy * rate * x;
    return dy * rate;
  }
};

template <class Real>
Real step_size(Beta form, Real raw) {
  if (form == Beta::Given) return raw;
  return (form == Beta::Sigmoid ? 1 : 2) / (1 + std::exp(-raw));
}
template <class Real>
Real step_gradient(Beta form, Real raw, Real d_beta) {
  if (form == Beta::Given) return d_beta;
  const Real s = 1 / (1 + std::exp(-raw));
  return (form == Beta::Sigmoid ? 1 : 2) * d_beta * s * (1 - s);
}

}  // namespace megatoken::kda
