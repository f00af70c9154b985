#include "reference/components/index_kl/index_kl.hpp"

#include <algorithm>
#include <cmath>

#include "reference/core/random.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::index_kl {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"logit", Role::Input, "b t h topk*pool"}, &T::logit},
          {{"lse", Role::Input, "b h t", Kind::Accum}, &T::lse},
          {{"score", Role::Input, "b t topk", Kind::Accum}, &T::score},
          {{"count", Role::Input, "b t", Kind::Index}, &T::count},
          {{"loss", Role::Output, "b t", Kind::Accum}, &T::loss},
          {{"dloss", Role::OutputGrad, "b t", Kind::Accum, "loss"}, &T::d_loss},
          {{"dscore", Role::InputGrad, "b t topk", Kind::Accum, "score"}, &T::d_score}};
}

void check_counts(const Shape& s, const Tensors& x) {
  const auto count = x.count.elements<const int32_t, 2>();
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t i = 0; i < s.t; ++i)
      MEGATOKEN_CHECK(count(b, i) >= 0 && count(b, i) <= s.topk, "index_kl: count of query {} in batch row {} is {}, expected 0 to topk={}", i, b, count(b, i), s.topk);
}

namespace {

/// Token i of a sequence has i/pool pools, so rows with 0, 1 and few pools are there. lse holds the selected logits and a rest of the
/// head's mass, the tail, that differs from head to head: a softmax of each head alone would give another target.
/// extreme: one pool in a row holds nearly all, or the selected pools hold e^-200 of the mass. aimed: scores that agree or disagree with the target.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const int64_t keys = s.topk * s.pool;
  const RandomStream tail(request.seed, "index_kl tail");
  const bool extreme = request.distribution == "extreme", aimed = request.distribution == "aimed";
  for (int64_t row = 0; row < s.b * s.t; ++row) {
    const int64_t i = row % s.t, count = std::min(i / s.pool, s.topk);
    x.count.as<int32_t>()[row] = static_cast<int32_t>(count);
    if (extreme && i % 3 == 0) scale_row(x.logit, row, s.h * keys, 20);
    if (extreme) scale_row(x.score, row, s.topk, i % 4 == 1 ? 50 : 1);
    for (int64_t h = 0; h < s.h; ++h) {
      const int64_t at = (row * s.h + h) * keys;
      double largest = 0, sum = 0;
      for (int64_t j = 0; j < count * s.pool; ++j) largest = std::max(largest, value_at(x.logit, at + j));
      for (int64_t j = 0; j < count * s.pool; ++j) sum += std::exp(value_at(x.logit, at + j) - largest);
      const double rest = 3 * tail.uniform(row * s.h + h) * (sum + 1) + (extreme && i % 5 == 2 ? std::exp(200.0) : 0);
      set_value(x.lse, (row / s.t * s.h + h) * s.t + i, largest + std::log(sum + rest));
    }
    if (aimed)
      for (int64_t p = 0; p < count; ++p) set_value(x.score, row * s.topk + p, value_at(x.score, row * s.topk + p) + (i % 2 ? 2 : -2) * value_at(x.logit, row * s.h * keys + p * s.pool));
  }
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto rows = static_cast<double>(s.b * s.t), keys = static_cast<double>(s.h * s.topk * s.pool), k = static_cast<double>(s.topk);
  const auto size = static_cast<double>(size_of(dtype)), wide = static_cast<double>(size_of(accumulator_of(dtype)));
  return phase_cost(phase, {rows * (3 * keys + 8 * k), rows * (size * keys + wide * (k + 1))}, {rows * (3 * keys + 8 * k), rows * (size * keys + wide * (2 * k + 1))});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "KL divergence of index scores from the main attention, over selected pools";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "queries", .fallback = 512, .max = 2147483647},
            {.name = "h", .about = "heads of the main attention", .fallback = 4, .min = 1},
            {.name = "topk", .about = "pools selected at most", .fallback = 64, .min = 1},
            {.name = "pool", .about = "tokens in a pool", .fallback = 4, .min = 1, .max = 64, .option = true},
            {.name = "coefficient", .about = "factor on the loss", .fallback = 1, .min = -1e6, .max = 1e6, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"loss", "dscore"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"t=1 h=1 topk=1", "b=2 t=9 h=2 topk=3 pool=2", "t=0 h=1 topk=2", "t=6 h=3 topk=5 pool=1", "t=10 h=1 topk=2 coefficient=0.25", "t=7 h=2 topk=1 pool=3"};
  c.judging = "b=2 t=96 h=3 topk=12 coefficient=0.5";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::index_kl
