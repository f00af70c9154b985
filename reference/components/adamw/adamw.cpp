#include "reference/components/adamw/adamw.hpp"

#include "reference/core/row_inputs.hpp"

namespace megatoken::adamw {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"grad", Role::Input, "n"}, &T::grad},
          {{"master", Role::Input, "n", Kind::Accum}, &T::master},
          {{"m", Role::Input, "n", Kind::Accum}, &T::m},
          {{"v", Role::Input, "n", Kind::Accum}, &T::v},
          {{"weight_out", Role::Output, "n"}, &T::weight_out},
          {{"master_out", Role::Output, "n", Kind::Accum}, &T::master_out},
          {{"m_out", Role::Output, "n", Kind::Accum}, &T::m_out},
          {{"v_out", Role::Output, "n", Kind::Accum}, &T::v_out},
          {{"norm", Role::Output, "1", Kind::Accum}, &T::norm}};
}

namespace {

/// v is a mean of squares, so never negative. aimed: the ends of 64-wide tiles rule the norm. extreme: gradients from 1e-3 to 1e3.
/// tokens: what an embedding table gets, mostly zeros, where the text has no such token.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  for (int64_t i = 0; i < s.n; ++i) set_value(x.v, i, std::pow(value_at(x.v, i), 2)), set_value(x.m, i, 0.3 * value_at(x.m, i));
  if (request.distribution == "aimed") aim_rows(x.grad, s.n, 1);
  if (request.distribution == "extreme") spread_rows(x.grad, s.n, 1);
  if (request.distribution == "tokens" && s.n > 0) {
    std::vector<bool> used(static_cast<size_t>(s.n));
    for (int32_t token : request.tokens(s.n)) used[static_cast<size_t>(token % s.n)] = true;
    for (int64_t i = 0; i < s.n; ++i)
      if (!used[static_cast<size_t>(i)]) set_value(x.grad, i, 0);
  }
}

Cost cost(const Axes& axes, DType dtype, Phase) {
  const auto n = static_cast<double>(axes["n"]);
  return {18 * n, n * static_cast<double>(2 * size_of(dtype) + 6 * size_of(accumulator_of(dtype)))};
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "optimizer step on master weights";
  c.axes = {{.name = "n", .about = "parameters", .fallback = 4096},
            {.name = "step", .about = "step number, from 1", .fallback = 3, .min = 1, .option = true},
            {.name = "lr", .about = "learning rate", .fallback = 1e-2, .max = 1e3, .real = true, .option = true},
            {.name = "beta1", .about = "decay of m", .fallback = 0.9, .max = 0.999999, .real = true, .option = true},
            {.name = "beta2", .about = "decay of v", .fallback = 0.95, .max = 0.999999, .real = true, .option = true},
            {.name = "eps", .about = "added to the root of v", .fallback = 1e-3, .max = 1, .real = true, .option = true},
            {.name = "decay", .about = "decoupled weight decay", .fallback = 0.1, .max = 10, .real = true, .option = true},
            {.name = "clip", .about = "largest global gradient norm; 0 for none", .fallback = 1, .max = 1e30, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.examples = {"n=1", "n=0", "n=17 step=1", "n=33 clip=0 decay=0"};
  c.judging = "n=500";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::adamw
