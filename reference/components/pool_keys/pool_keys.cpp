#include "reference/components/pool_keys/pool_keys.hpp"

#include "reference/core/documents.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::pool_keys {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"k", Role::Input, "b t d"}, &T::k},
          {{"gate", Role::Input, "b t d"}, &T::gate},
          {{"ape", Role::Input, "pool d", Kind::Accum}, &T::ape},
          {{"weight", Role::Input, "d", Kind::Accum}, &T::weight},
          {{"bias", Role::Input, "d", Kind::Accum}, &T::bias},
          {{"document", Role::Input, "b t", Kind::Index}, &T::document},
          {{"y", Role::Output, "b t/pool d"}, &T::y},
          {{"dy", Role::OutputGrad, "b t/pool d", Kind::Data, "y"}, &T::d_y},
          {{"dk", Role::InputGrad, "b t d", Kind::Data, "k"}, &T::dk},
          {{"dgate", Role::InputGrad, "b t d", Kind::Data, "gate"}, &T::d_gate},
          {{"dape", Role::InputGrad, "pool d", Kind::Accum, "ape"}, &T::d_ape},
          {{"dweight", Role::InputGrad, "d", Kind::Accum, "weight"}, &T::d_weight},
          {{"dbias", Role::InputGrad, "d", Kind::Accum, "bias"}, &T::d_bias}};
}

int64_t workspace_bytes(const Shape& s, DType dtype, Phase) { return 2 * s.b * s.t * size_of(accumulator_of(dtype)); }

namespace {

/// aimed: some keys are small, so that eps is seen, and edge pools weigh more upstream. extreme: gates of ±40 saturate the softmax
/// and keys run from 1e-3 to 1e3.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  fill_documents(x.document, request.axes["docs"], request.seed);
  for (int64_t i = 0; i < x.weight.size(); ++i) set_value(x.weight, i, 1 + 0.25 * value_at(x.weight, i));
  if (request.distribution == "aimed") {
    aim_rows(x.d_y, s.b * s.rows(), s.d);
    dim_rows(x.k, s.b * s.t, s.d, 0.4);
  }
  if (request.distribution == "extreme") {
    spread_rows(x.k, s.b * s.t, s.d);
    for (int64_t row = 0; row < s.b * s.t; row += 2) scale_row(x.gate, row, s.d, 40);
  }
}

/// Element-wise, so bytes decide: forward reads keys and gates once and writes one pool for `pool` tokens.
Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto n = static_cast<double>(s.b * s.t * s.d), pools = static_cast<double>(s.b * s.rows() * s.d), size = static_cast<double>(size_of(dtype));
  return phase_cost(phase, {14 * n, size * (2 * n + pools)}, {30 * n, size * (4 * n + pools)});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "index keys: LayerNorm, then gated pooling of consecutive tokens";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 1024, .max = 2147483647},
            {.name = "d", .about = "index key width", .fallback = 128, .min = 1},
            {.name = "pool", .about = "tokens in a pool", .fallback = 4, .min = 1, .max = 64, .option = true},
            {.name = "docs", .about = "packed documents", .fallback = 1, .min = 1, .option = true},
            {.name = "eps", .about = "added to the variance", .fallback = 1e-6, .max = 1, .real = true, .option = true},
            {.name = "rounding", .about = "once: only the pooled key; probabilities: also the softmax", .fallback = 0, .max = 1, .option = true,
             .choices = {"once", "probabilities"}}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.causal = [](const Axes& axes) { return axes["docs"] == 1; };  // a cut inside a later document's grid would leave a pool incomplete that has a row before it
  c.token_axes = {"t"};
  c.examples = {"t=1 d=2", "t=0 d=3", "b=2 t=9 d=4", "t=4 d=1", "b=2 t=15 d=3 docs=3", "t=6 d=4 docs=9", "t=7 d=3 pool=1", "t=11 d=5 pool=3 docs=2 eps=0.01", "t=8 d=3 rounding=1"};
  c.judging = "b=2 t=163 d=24 docs=3";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::pool_keys
