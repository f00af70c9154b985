#include "reference/components/experts/experts.hpp"

#include "reference/core/random.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::experts {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t c"}, &T::x},
          {{"id", Role::Input, "b t k", Kind::Index}, &T::id},
          {{"weight", Role::Input, "b t k", Kind::Accum}, &T::weight},
          {{"gate_up", Role::Input, "e 2 f c"}, &T::gate_up},
          {{"down", Role::Input, "e c f"}, &T::down},
          {{"shared_gate_up", Role::Input, "2 f c", Kind::Data, "", "shared"}, &T::shared_gate_up},
          {{"shared_down", Role::Input, "c f", Kind::Data, "", "shared"}, &T::shared_down},
          {{"y", Role::Output, "b t c"}, &T::y},
          {{"dy", Role::OutputGrad, "b t c", Kind::Data, "y"}, &T::d_y},
          {{"dx", Role::InputGrad, "b t c", Kind::Data, "x"}, &T::dx},
          {{"dweight", Role::InputGrad, "b t k", Kind::Accum, "weight"}, &T::dweight},
          {{"dgate_up", Role::InputGrad, "e 2 f c", Kind::Accum, "gate_up"}, &T::dgate_up},
          {{"ddown", Role::InputGrad, "e c f", Kind::Accum, "down"}, &T::ddown},
          {{"dshared_gate_up", Role::InputGrad, "2 f c", Kind::Accum, "shared_gate_up", "shared"}, &T::dshared_gate_up},
          {{"dshared_down", Role::InputGrad, "c f", Kind::Accum, "shared_down", "shared"}, &T::dshared_down}};
}

void check_ids(const Shape& s, const Tensors& x) {
  for (int64_t i = 0; i < x.id.size(); ++i) {
    const auto id = static_cast<int64_t>(value_at(x.id, i));
    MEGATOKEN_CHECK(id >= -1 && id < s.e, "experts: id at {} is {}, expected -1 (empty) or 0 to {} (e={})", format("token {}, slot {}", i / s.k, i % s.k), id, s.e - 1, s.e);
  }
}

int64_t workspace_bytes(const Shape& s, DType dtype, Phase phase) {
  return (phase == Phase::Forward ? 2 : 4) * s.rows() * s.slots() * s.f * size_of(accumulator_of(dtype));
}

namespace {

/// Distinct experts a token. aimed: the first and the last expert at edge rows, and one that nobody uses. extreme: every token
/// goes to the same experts, others stay empty. tokens: the id decides, so frequent words load few experts.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const RandomStream stream(request.seed, "experts id");
  std::vector<int32_t> tokens;
  if (request.distribution == "tokens" && s.rows() > 0) tokens = request.tokens(s.rows());
  const int64_t usable = request.distribution == "aimed" && s.e > s.k + 1 ? s.e - 1 : s.e;
  for (int64_t row = 0; row < s.rows(); ++row) {
    int64_t first = stream.integer(row, usable);
    if (request.distribution == "aimed" && is_edge_row(row, s.rows())) first = row % 2 ? usable - 1 : 0;
    if (request.distribution == "extreme") first = 0;
    if (request.distribution == "tokens") first = tokens[static_cast<size_t>(row)] % usable;
    for (int64_t slot = 0; slot < s.k; ++slot) {
      const bool empty = slot > 0 && row % 11 == 10;  // a dropped slot now and then
      x.id.as<int32_t>()[row * s.k + slot] = empty || slot >= usable ? -1 : static_cast<int32_t>((first + slot) % usable);
      set_value(x.weight, row * s.k + slot, 0.25 + std::abs(value_at(x.weight, row * s.k + slot)));
    }
  }
  for (const TensorView* w : {&x.gate_up, &x.shared_gate_up})
    for (int64_t i = 0; i < (*w ? w->size() : 0); ++i) set_value(*w, i, value_at(*w, i) / std::sqrt(static_cast<double>(s.c)));
  quantise(x.x, 1.0 / 64, 1.984375);  // gate and up are exact, so that no precision sees another side of a clamp
  for (const TensorView* w : {&x.gate_up, &x.shared_gate_up})
    if (*w) quantise(*w, 1.0 / 256, 0.49609375);
  if (request.distribution == "aimed") aim_rows(x.x, s.rows(), s.c), aim_rows(x.d_y, s.rows(), s.c);
  if (request.distribution == "extreme") {  // gates up to tens: at hundreds the few that are not saturated would make up the whole error
    spread_rows(x.x, s.rows(), s.c);
    for (int64_t i = 0; i < x.x.size(); ++i) set_value(x.x, i, 0.03 * value_at(x.x, i));
  }
}

void validate(const Axes& axes) {
  const int64_t e = axes["e"], k = axes["k"];
  MEGATOKEN_CHECK(k <= e, "experts: k={} slots for e={} experts; k is at most e", k, e);
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto uses = static_cast<double>(s.rows() * s.slots()), c = static_cast<double>(s.c), f = static_cast<double>(s.f), rows = static_cast<double>(s.rows());
  const double weights = 3 * c * f * static_cast<double>(s.e + s.shared), forward = uses * 6 * c * f;
  const auto size = static_cast<double>(size_of(dtype)), wide = static_cast<double>(size_of(accumulator_of(dtype)));
  return phase_cost(phase, {forward, size * (2 * rows * c + weights)}, {2 * forward, size * (3 * rows * c + weights) + wide * weights});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "dispatch, grouped gated MLP, combine, shared expert";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 256, .max = 2147483647},
            {.name = "c", .about = "model width", .fallback = 64, .min = 1},
            {.name = "e", .about = "experts", .fallback = 8, .min = 1},
            {.name = "k", .about = "experts a token is sent to", .fallback = 2, .min = 1},
            {.name = "f", .about = "inner width of an expert", .fallback = 32, .min = 1},
            {.name = "shared", .about = "1: with a shared expert", .fallback = 1, .max = 1, .option = true},
            {.name = "limit", .about = "clamp of the gated unit; 0 for none", .fallback = 10, .max = 1e30, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"y", "dx", "dweight"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"t=1 c=2 e=1 k=1 f=1", "b=2 t=3 c=3 e=4 k=2 f=2", "t=0 c=2 e=3 k=2 f=2", "t=5 c=2 e=5 k=3 f=2 shared=0", "t=12 c=2 e=3 k=2 f=1"};
  c.judging = "b=2 t=40 c=20 e=6 k=2 f=12";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::experts
