#include "reference/components/linear/linear.hpp"

#include "reference/core/random.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::linear {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t c"}, &T::x},
          {{"w", Role::Input, "o c"}, &T::w},
          {{"bias", Role::Input, "o", Kind::Data, "", "bias"}, &T::bias},
          {{"y", Role::Output, "b t o"}, &T::y},
          {{"dy", Role::OutputGrad, "b t o", Kind::Data, "y"}, &T::d_y},
          {{"dx", Role::InputGrad, "b t c", Kind::Data, "x"}, &T::dx},
          {{"dw", Role::InputGrad, "o c", Kind::Accum, "w"}, &T::dw},
          {{"dbias", Role::InputGrad, "o", Kind::Accum, "bias", "bias"}, &T::dbias}};
}

namespace {

void fill_integers(const TensorView& view, uint64_t seed, const std::string& name) {
  const RandomStream stream(seed, name);
  for (int64_t i = 0; i < view.size(); ++i) set_value(view, i, static_cast<double>(stream.integer(i, 5) - 2));
}

void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  if (request.distribution == "aimed") {
    aim_rows(x.x, s.rows(), s.c), aim_rows(x.d_y, s.rows(), s.o), aim_rows(x.w, s.o, s.c);
    for (int64_t row = 0; row < s.rows(); ++row)  // the ends of every sum weigh most: a tail that is cut off shows
      for (int64_t j : {int64_t{0}, s.c - 1}) set_value(x.x, row * s.c + j, 4 * value_at(x.x, row * s.c + j));
  }
  if (request.distribution == "extreme") spread_rows(x.x, s.rows(), s.c), spread_rows(x.d_y, s.rows(), s.o);
  if (request.distribution == "exact")  // small integers: every partial sum is exact in fp32, and in the result while it is below 256
    for (const auto& [view, name] : {std::pair{&x.x, "x"}, {&x.w, "w"}, {&x.bias, "bias"}, {&x.d_y, "dy"}})
      if (*view) fill_integers(*view, request.seed, std::string("exact ") + name);
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto rows = static_cast<double>(s.rows()), c = static_cast<double>(s.c), o = static_cast<double>(s.o), size = static_cast<double>(size_of(dtype));
  const double weights = c * o, forward = 2 * rows * weights;
  return phase_cost(phase, {forward, size * (rows * (c + o) + weights)},
                    {2 * forward, size * (rows * (2 * c + o) + weights) + static_cast<double>(size_of(accumulator_of(dtype))) * weights});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "y = x Wᵀ + bias";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 256, .max = 2147483647},
            {.name = "c", .about = "input width", .fallback = 128, .min = 1},
            {.name = "o", .about = "output width", .fallback = 128, .min = 1},
            {.name = "bias", .about = "1: with bias", .fallback = 0, .max = 1, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.distributions.push_back("exact");
  c.slices = {{"rows", "t", {"y", "dx"}}, {"cols", "o", {"y", "dw", "dbias"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"b=1 t=1 c=1 o=1", "b=2 t=5 c=7 o=3 bias=1", "b=1 t=0 c=4 o=2 bias=1", "b=1 t=6 c=2 o=9", "b=3 t=2 c=5 o=5 bias=1"};
  c.judging = "b=2 t=96 c=40 o=24 bias=1";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::linear
