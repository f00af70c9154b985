#include "reference/components/gated_rms_norm/gated_rms_norm.hpp"

#include "reference/core/row_inputs.hpp"

namespace megatoken::gated_rms_norm {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t h d"}, &T::x},
          {{"gate", Role::Input, "b t h d"}, &T::gate},
          {{"w", Role::Input, "d", Kind::Accum}, &T::w},
          {{"y", Role::Output, "b t h d"}, &T::y},
          {{"dy", Role::OutputGrad, "b t h d", Kind::Data, "y"}, &T::d_y},
          {{"dx", Role::InputGrad, "b t h d", Kind::Data, "x"}, &T::dx},
          {{"dgate", Role::InputGrad, "b t h d", Kind::Data, "gate"}, &T::dgate},
          {{"dw", Role::InputGrad, "d", Kind::Accum, "w"}, &T::dw}};
}

namespace {

void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const int64_t tokens = s.b * s.t, width = s.h * s.d;
  if (request.distribution == "aimed") {
    aim_rows(x.x, tokens, width), aim_rows(x.d_y, tokens, width);
    dim_rows(x.x, s.rows(), s.d, 0.2);
  }
  if (request.distribution == "extreme") {
    spread_rows(x.x, s.rows(), s.d);
    for (int64_t row = 0; row < s.rows(); row += 2) scale_row(x.gate, row, s.d, 40);  // gates far into both ends of the sigmoid
  }
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto n = static_cast<double>(s.rows() * s.d), size = static_cast<double>(size_of(dtype));
  return phase_cost(phase, {9 * n, 3 * n * size}, {20 * n, 5 * n * size});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "per-head normalisation with a sigmoid gate";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 1024, .max = 2147483647},
            {.name = "h", .about = "heads", .fallback = 2, .min = 1},
            {.name = "d", .about = "head width", .fallback = 128, .min = 1},
            {.name = "eps", .about = "added to the mean of squares", .fallback = 1e-5, .max = 1, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"y", "dx", "dgate"}}, {"scan", "h", {"y", "dx", "dgate"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"b=1 t=1 h=1 d=1", "b=2 t=3 h=2 d=5", "b=1 t=0 h=2 d=4", "b=1 t=4 h=3 d=2 eps=0.5", "b=2 t=5 h=1 d=4"};
  c.judging = "b=2 t=96 h=3 d=24";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::gated_rms_norm
