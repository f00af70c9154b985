#include "reference/components/swiglu/swiglu.hpp"

#include "reference/core/row_inputs.hpp"

namespace megatoken::swiglu {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"gate", Role::Input, "b t c"}, &T::gate},
          {{"up", Role::Input, "b t c"}, &T::up},
          {{"y", Role::Output, "b t c"}, &T::y},
          {{"dy", Role::OutputGrad, "b t c", Kind::Data, "y"}, &T::d_y},
          {{"dgate", Role::InputGrad, "b t c", Kind::Data, "gate"}, &T::dgate},
          {{"dup", Role::InputGrad, "b t c", Kind::Data, "up"}, &T::dup}};
}

namespace {

void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const int64_t rows = s.b * s.t, n = rows * s.c;
  if (request.distribution == "aimed") {
    aim_rows(x.d_y, rows, s.c);
    // Every fourth value beyond one of the clamps: gates beyond both signs of the limit, ups beyond both ends.
    const double beyond = 1.2 * (s.limit > 0 ? s.limit : 10);
    for (int64_t i = 0; i < n; ++i) {
      if (i % 4 == 1) set_value(x.gate, i, (i % 8 == 1 ? beyond : -0.2 * beyond) + 0.01 * value_at(x.gate, i));
      if (i % 4 == 2) set_value(x.up, i, (i % 8 == 2 ? beyond : -beyond) + 0.01 * value_at(x.up, i));
    }
  }
  if (request.distribution == "extreme") spread_rows(x.gate, rows, s.c), spread_rows(x.up, rows, s.c);
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto n = static_cast<double>(s.b * s.t * s.c), size = static_cast<double>(size_of(dtype));
  return phase_cost(phase, {7 * n, 3 * n * size}, {14 * n, 5 * n * size});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "clamped gated unit of the MLPs";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 1024, .max = 2147483647},
            {.name = "c", .about = "inner width", .fallback = 256, .min = 1},
            {.name = "limit", .about = "clamp; 0 for none", .fallback = 10, .max = 1e30, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"y", "dgate", "dup"}}, {"cols", "c", {"y", "dgate", "dup"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"b=1 t=1 c=1", "b=2 t=5 c=7", "b=1 t=0 c=4", "b=1 t=4 c=6 limit=0", "b=1 t=5 c=8 limit=3"};
  c.judging = "b=2 t=96 c=40";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::swiglu
