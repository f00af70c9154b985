#include "reference/components/linear_cross_entropy/linear_cross_entropy.hpp"

#include "reference/core/random.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::linear_cross_entropy {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t c"}, &T::x},
          {{"w", Role::Input, "v c"}, &T::w},
          {{"bias", Role::Input, "v", Kind::Data, "", "bias"}, &T::bias},
          {{"label", Role::Input, "b t", Kind::Index}, &T::label},
          {{"loss", Role::Output, "1", Kind::Accum}, &T::loss},
          {{"logprob", Role::Output, "b t", Kind::Accum}, &T::logprob},
          {{"dloss", Role::OutputGrad, "1", Kind::Accum, "loss"}, &T::d_loss},
          {{"dlogprob", Role::OutputGrad, "b t", Kind::Accum, "logprob"}, &T::d_logprob},
          {{"dx", Role::InputGrad, "b t c", Kind::Data, "x"}, &T::dx},
          {{"dw", Role::InputGrad, "v c", Kind::Accum, "w"}, &T::dw},
          {{"dbias", Role::InputGrad, "v", Kind::Accum, "bias", "bias"}, &T::dbias}};
}

void check_labels(const Shape& s, const Tensors& x) {
  for (int64_t i = 0; i < x.label.size(); ++i) {
    const auto label = static_cast<int64_t>(value_at(x.label, i));
    MEGATOKEN_CHECK(label == kIgnored || (label >= 0 && label < s.v), "linear_cross_entropy: label at b={},t={} is {}, expected -100 (ignored) or 0 to {} (v={})", i / s.t,
                    i % s.t, label, s.v - 1, s.v);
  }
}

int64_t workspace_bytes(const Shape& s, DType dtype, Phase) { return s.rows() * s.v * size_of(accumulator_of(dtype)); }

namespace {

/// One label in seven is ignored. aimed: labels at both ends of the vocabulary, upstream far from 1. extreme: logits of hundreds.
/// tokens: the next token of a text.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const RandomStream stream(request.seed, "labels");
  std::vector<int32_t> tokens;
  if (request.distribution == "tokens" && s.rows() > 0) tokens = request.tokens(s.rows() + 1);
  for (int64_t row = 0; row < s.rows(); ++row) {
    int64_t label = stream.integer(row, s.v);
    if (request.distribution == "aimed" && is_edge_row(row, s.rows())) label = row % 2 ? s.v - 1 : 0;
    if (request.distribution == "tokens") label = tokens[static_cast<size_t>(row + 1)] % s.v;
    if (row % 7 == 5) label = kIgnored;
    x.label.as<int32_t>()[row] = static_cast<int32_t>(label);
  }
  for (int64_t i = 0; i < x.w.size(); ++i) set_value(x.w, i, 2 * value_at(x.w, i) / std::sqrt(static_cast<double>(s.c)));
  set_value(x.d_loss, 0, request.distribution == "aimed" ? -0.5 : 1);
  for (int64_t i = 0; i < x.d_logprob.size(); ++i) set_value(x.d_logprob, i, 0.3 * value_at(x.d_logprob, i));
  if (request.distribution == "aimed") aim_rows(x.x, s.rows(), s.c);
  if (request.distribution == "extreme") spread_rows(x.x, s.rows(), s.c);
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto rows = static_cast<double>(s.rows()), c = static_cast<double>(s.c), v = static_cast<double>(s.v), size = static_cast<double>(size_of(dtype));
  return phase_cost(phase, {2 * rows * c * v, size * (rows * c + v * c)}, {6 * rows * c * v, size * (2 * rows * c + v * c) + static_cast<double>(size_of(accumulator_of(dtype))) * v * c});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "output projection and summed cross entropy, log-probabilities";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 256, .max = 2147483647},
            {.name = "c", .about = "model width", .fallback = 64, .min = 1},
            {.name = "v", .about = "vocabulary", .fallback = 256, .min = 1, .max = 2147483647},
            {.name = "bias", .about = "1: with bias", .fallback = 0, .max = 1, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"logprob", "dx"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"t=1 c=2 v=1", "b=2 t=4 c=3 v=5 bias=1", "t=0 c=2 v=3 bias=1", "t=9 c=2 v=7", "b=3 t=2 c=4 v=2"};
  c.judging = "b=2 t=40 c=24 v=50 bias=1";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::linear_cross_entropy
