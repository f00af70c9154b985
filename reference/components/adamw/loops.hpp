// adamw: the formulas of adamw.hpp; the norm as one sum in order, then one element a step.
#pragma once
#include <cmath>

#include "reference/components/adamw/adamw.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::adamw {

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& x, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto grad = x.grad.elements<const T, 1>();
  const auto master = x.master.elements<const Acc, 1>(), m = x.m.elements<const Acc, 1>(), v = x.v.elements<const Acc, 1>();
  const auto weight_out = x.weight_out.elements<T, 1>();
  const auto master_out = x.master_out.elements<Acc, 1>(), m_out = x.m_out.elements<Acc, 1>(), v_out = x.v_out.elements<Acc, 1>(), norm = x.norm.elements<Acc, 1>();
  const int64_t n = s.n;
  loop(1, "adamw norm", [=] MEGATOKEN_HD(int64_t) {
    double sum = 0;  // squares of a whole model: fp64, which one number can afford
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(grad(i)) * static_cast<double>(grad(i));
    norm(0) = static_cast<Acc>(std::sqrt(sum));
  });
  const Acc lr = static_cast<Acc>(s.lr), beta1 = static_cast<Acc>(s.beta1), beta2 = static_cast<Acc>(s.beta2), eps = static_cast<Acc>(s.eps), clip = static_cast<Acc>(s.clip);
  const Acc keep = static_cast<Acc>(1 - s.lr * s.decay);
  const Acc correct1 = static_cast<Acc>(1 - std::pow(s.beta1, static_cast<double>(s.step))), correct2 = static_cast<Acc>(1 - std::pow(s.beta2, static_cast<double>(s.step)));
  loop(n, "adamw update", [=] MEGATOKEN_HD(int64_t i) {
    const Acc ratio = clip / (norm(0) + Acc(1e-6));
    const Acc g = static_cast<Acc>(grad(i)) * (clip > 0 && ratio < 1 ? ratio : Acc{1});
    const Acc m1 = beta1 * m(i) + (1 - beta1) * g, v1 = beta2 * v(i) + (1 - beta2) * g * g;
    const Acc p = master(i) * keep - lr * (m1 / correct1) / (std::sqrt(v1 / correct2) + eps);
    m_out(i) = m1;
    v_out(i) = v1;
    master_out(i) = p;
    weight_out(i) = T(p);
  });
}

}  // namespace megatoken::adamw
