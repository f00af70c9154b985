#include "reference/components/rms_norm/rms_norm.hpp"

#include "reference/core/row_inputs.hpp"

namespace megatoken::rms_norm {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t c"}, &T::x},
          {{"w", Role::Input, "c"}, &T::w},
          {{"y", Role::Output, "b t c"}, &T::y},
          {{"dy", Role::OutputGrad, "b t c", Kind::Data, "y"}, &T::d_y},
          {{"dx", Role::InputGrad, "b t c", Kind::Data, "x"}, &T::dx},
          {{"dw", Role::InputGrad, "c", Kind::Accum, "w"}, &T::dw}};
}

namespace {

void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  if (request.distribution == "aimed") {
    aim_rows(x.x, s.b * s.t, s.c), aim_rows(x.d_y, s.b * s.t, s.c);
    dim_rows(x.x, s.b * s.t, s.c, 0.2);  // small rows: eps is then a few 1e-4 of the mean, far above fp32 rounding
  }
  if (request.distribution == "extreme") spread_rows(x.x, s.b * s.t, s.c);
}

/// Forward reads x twice at most and writes y; 4 operations an element. Backward: 10.
Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto n = static_cast<double>(s.b * s.t * s.c);
  return phase_cost(phase, {4 * n, 2 * n * static_cast<double>(size_of(dtype))}, {10 * n, 3 * n * static_cast<double>(size_of(dtype))});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "root-mean-square normalisation of rows";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 1024, .max = 2147483647},
            {.name = "c", .about = "model width", .fallback = 256, .min = 1},
            {.name = "eps", .about = "added to the mean of squares", .fallback = 1e-5, .max = 1, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"y", "dx"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"b=1 t=1 c=1", "b=2 t=5 c=7", "b=1 t=0 c=4", "b=1 t=3 c=4 eps=0.5", "b=3 t=4 c=2"};
  c.judging = "b=2 t=96 c=40";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::rms_norm
