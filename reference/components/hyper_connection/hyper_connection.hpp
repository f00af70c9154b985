// hyper_connection: one site of manifold-constrained hyper-connections (glm53_flash.md §2.2): n residual streams are mixed
// into the input of a sublayer, and its result is mixed back.
//
//   z = all streams of a token, r = (mean z² + eps)^(−1/2), m = r · fn z                      (2n + n² numbers)
//   a = scale_g m + base, with one scale for each of the groups pre, post, comb
//   pre_i = σ(a_i) + hc_eps      post_j = 2 σ(a_{n+j})      comb = Sinkhorn(a_{2n…}), index (source i, destination j):
//     row softmax + hc_eps, columns; then 19 times rows, columns; every division by (sum + hc_eps)
//   y = Σ_i pre_i X_i      X'_j = post_j u + Σ_i comb_ij X_i      pooled = mean_j X'_j (with axis exit)
// With axis entry all streams are copies of e (the embedding) and there is no x.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::hyper_connection {

inline constexpr int kMaxStreams = 4;
inline constexpr int kMaxMaps = 2 * kMaxStreams + kMaxStreams * kMaxStreams;

struct Shape {
  int64_t b, t, n, c, k;   // k = 2n + n²: rows of fn
  int64_t rounds;          // Sinkhorn rounds
  bool entry, exit;
  double eps, hc_eps;
  explicit Shape(const Axes& a)
      : b(a["b"]), t(a["t"]), n(a["n"]), c(a["c"]), k(a["k"]), rounds(a["rounds"]), entry(a["entry"] != 0), exit{a["exit"] != 0}, eps(a.real("eps")), hc_eps(a.real("hc_eps")) {}
  int64_t tokens() const { return b * t; }
};

struct Tensors {
  using Shape = hyper_connection::Shape;
  static constexpr const char* kComponent = "hyper_connection";

  TensorView x, e;                        // b t n c (without entry) · b t c (with entry)
  TensorView fn, base, scale;             // k n c · k · 3; accumulator
  TensorView u;                           // b t c: what the sublayer made of y
  TensorView y, x_out, pooled;            // b t c · b t n c · b t c (with exit)
  TensorView post, comb;                  // b t n · b t n n; accumulator
  TensorView d_y, d_x_out, d_pooled;
  TensorView dx, de, dfn, dbase, dscale, du;

  static std::vector<FieldOf<Tensors>> fields();
};

/// Bytes of scratch for backward: per token r dm, da, m (k each) and the factor of z.
int64_t backward_workspace(const Shape& shape, DType dtype);

}  // namespace megatoken::hyper_connection
