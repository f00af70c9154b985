#include "optimized/schemes/ring/merge.hpp"

#include <cmath>
#include <limits>

#include "reference/core/threads.hpp"

namespace megatoken::ring {
namespace {

template <class F>
void dispatch_accumulator(DType dtype, F&& f) {
  MEGATOKEN_CHECK(dtype == DType::F32 || dtype == DType::F64, "partial results are added in fp32 or fp64, not in {}", to_string(dtype));
  if (dtype == DType::F32) f.template operator()<float>();
  else f.template operator()<double>();
}

}  // namespace

void merge(const TensorView& o, const TensorView& lse, const TensorView& more_o, const TensorView& more_lse, int threads) {
  MEGATOKEN_CHECK(o.shape == more_o.shape && lse.shape == more_lse.shape, "merge of {} with {}", more_o.shape.to_string(), o.shape.to_string());
  dispatch_accumulator(o.dtype, [&]<class Acc>() {
    const auto o_at = o.elements<Acc, 4>();
    const auto more_o_at = more_o.elements<const Acc, 4>();
    const auto lse_at = lse.elements<Acc, 3>();
    const auto more_lse_at = more_lse.elements<const Acc, 3>();
    const int64_t t = o.shape[1], h = o.shape[2], dv = o.shape[3];
    parallel_for(o.shape[0] * t, threads, [&](int64_t row) {
      const int64_t b = row / t, i = row % t;
      for (int64_t head = 0; head < h; ++head) {
        const Acc l = lse_at(b, head, i), more_l = more_lse_at(b, head, i), m = std::fmax(l, more_l);
        if (m == -std::numeric_limits<Acc>::infinity()) continue;
        const Acc w = std::exp(l - m), more_w = std::exp(more_l - m), sum = w + more_w;
        for (int64_t d = 0; d < dv; ++d) o_at(b, i, head, d) = (w * o_at(b, i, head, d) + more_w * more_o_at(b, i, head, d)) / sum;
        lse_at(b, head, i) = m + std::log(sum);
      }
    });
  });
}

void add(const TensorView& sum, const TensorView& term, int threads) {
  MEGATOKEN_CHECK(sum.shape == term.shape, "sum of {} and {}", sum.shape.to_string(), term.shape.to_string());
  dispatch_accumulator(sum.dtype, [&]<class Acc>() {
    const auto sum_at = sum.elements<Acc, 4>();
    const auto term_at = term.elements<const Acc, 4>();
    const int64_t rows = sum.shape[1], h = sum.shape[2], d = sum.shape[3];
    parallel_for(sum.shape[0] * rows, threads, [&](int64_t row) {
      const int64_t b = row / rows, i = row % rows;
      for (int64_t head = 0; head < h; ++head)
        for (int64_t e = 0; e < d; ++e) sum_at(b, i, head, e) += term_at(b, i, head, e);
    });
  });
}

}  // namespace megatoken::ring
