#include "reference/components/router/router.hpp"

#include <algorithm>

#include "reference/core/row_inputs.hpp"

namespace megatoken::router {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t c"}, &T::x},
          {{"w", Role::Input, "e c"}, &T::w},
          {{"bias", Role::Input, "e", Kind::Accum}, &T::bias},
          {{"id", Role::Output, "b t k", Kind::Index}, &T::id},
          {{"weight", Role::Output, "b t k", Kind::Accum}, &T::weight},
          {{"dweight", Role::OutputGrad, "b t k", Kind::Accum, "weight"}, &T::d_weight},
          {{"dx", Role::InputGrad, "b t c", Kind::Data, "x"}, &T::dx},
          {{"dw", Role::InputGrad, "e c", Kind::Accum, "w"}, &T::dw}};
}

int64_t workspace_bytes(const Shape& s, DType dtype, Phase phase) { return (phase == Phase::Forward ? 1 : 2) * s.rows() * s.e * size_of(accumulator_of(dtype)); }

namespace {

/// Logits are exact in fp32, so that the choice of experts is the same for every variant.
/// aimed: one expert in four has a bias that changes the choice, and every seventh is the twin of its neighbour: ties, where
/// the lower id must win. extreme: every second token is zero, so that all its scores are equal.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  for (int64_t i = 0; i < x.bias.size(); ++i) set_value(x.bias, i, 0);
  for (int64_t i = 0; i < x.w.size(); ++i) set_value(x.w, i, 2 * value_at(x.w, i) / std::sqrt(static_cast<double>(s.c)));
  quantise(x.x, 1.0 / 64, 1.984375), quantise(x.w, 1.0 / 64, 1.984375);
  if (request.distribution == "aimed") {
    for (int64_t e = 0; e < s.e; ++e) {
      if (e % 4 == 1) set_value(x.bias, e, 0.25);
      if (e % 7 == 6)
        for (int64_t j = 0; j < s.c; ++j) set_value(x.w, e * s.c + j, value_at(x.w, (e - 1) * s.c + j));
    }
    for (int64_t e = 6; e < s.e; e += 7) set_value(x.bias, e, value_at(x.bias, e - 1));
  }
  if (request.distribution == "extreme")
    for (int64_t row = 0; row < s.rows(); row += 2) scale_row(x.x, row, s.c, 0);
}

void validate(const Axes& axes) {
  const int64_t e = axes["e"], k = axes["k"];
  MEGATOKEN_CHECK(k <= e, "router: k={} experts are chosen of e={}; k is at most e", k, e);
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto rows = static_cast<double>(s.rows()), c = static_cast<double>(s.c), e = static_cast<double>(s.e), k = static_cast<double>(s.k), size = static_cast<double>(size_of(dtype));
  return phase_cost(phase, {2 * rows * c * e, size * (rows * c + c * e) + 8 * rows * k}, {6 * rows * c * e, size * (2 * rows * c + c * e) + 4 * c * e + 12 * rows * k});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "sigmoid scores, biased choice, unbiased weights";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 512, .max = 2147483647},
            {.name = "c", .about = "model width", .fallback = 64, .min = 1},
            {.name = "e", .about = "experts", .fallback = 16, .min = 1},
            {.name = "k", .about = "experts a token is sent to", .fallback = 4, .min = 1},
            {.name = "factor", .about = "sum of a token's weights", .fallback = 2.5, .max = 1e6, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"id", "weight", "dx"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"t=1 c=3 e=1 k=1", "b=2 t=3 c=4 e=5 k=2", "t=0 c=2 e=4 k=2", "t=4 c=3 e=3 k=3", "t=3 c=5 e=6 k=4 factor=1"};
  c.judging = "b=2 t=48 c=24 e=21 k=4";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::router
