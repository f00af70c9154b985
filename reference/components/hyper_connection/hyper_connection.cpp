#include "reference/components/hyper_connection/hyper_connection.hpp"

#include "reference/core/row_inputs.hpp"

namespace megatoken::hyper_connection {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t n c", Kind::Data, "", "!entry"}, &T::x},
          {{"e", Role::Input, "b t c", Kind::Data, "", "entry"}, &T::e},
          {{"fn", Role::Input, "k n c", Kind::Accum}, &T::fn},
          {{"base", Role::Input, "k", Kind::Accum}, &T::base},
          {{"scale", Role::Input, "3", Kind::Accum}, &T::scale},
          {{"u", Role::Input, "b t c"}, &T::u},
          {{"y", Role::Output, "b t c"}, &T::y},
          {{"x_out", Role::Output, "b t n c"}, &T::x_out},
          {{"pooled", Role::Output, "b t c", Kind::Data, "", "exit"}, &T::pooled},
          {{"post", Role::Output, "b t n", Kind::Accum}, &T::post},
          {{"comb", Role::Output, "b t n n", Kind::Accum}, &T::comb},
          {{"dy", Role::OutputGrad, "b t c", Kind::Data, "y"}, &T::d_y},
          {{"dx_out", Role::OutputGrad, "b t n c", Kind::Data, "x_out"}, &T::d_x_out},
          {{"dpooled", Role::OutputGrad, "b t c", Kind::Data, "pooled", "exit"}, &T::d_pooled},
          {{"dx", Role::InputGrad, "b t n c", Kind::Data, "x", "!entry"}, &T::dx},
          {{"de", Role::InputGrad, "b t c", Kind::Data, "e", "entry"}, &T::de},
          {{"dfn", Role::InputGrad, "k n c", Kind::Accum, "fn"}, &T::dfn},
          {{"dbase", Role::InputGrad, "k", Kind::Accum, "base"}, &T::dbase},
          {{"dscale", Role::InputGrad, "3", Kind::Accum, "scale"}, &T::dscale},
          {{"du", Role::InputGrad, "b t c", Kind::Data, "u"}, &T::du}};
}

int64_t backward_workspace(const Shape& s, DType dtype) { return s.tokens() * (3 * s.k + 1) * size_of(accumulator_of(dtype)); }

namespace {

/// fn is drawn so that m is of size 1 and the mixing is far from uniform; base then tells the streams apart.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const int64_t width = s.entry ? s.c : s.n * s.c;
  const TensorView& streams = s.entry ? x.e : x.x;
  for (int64_t i = 0; i < x.fn.size(); ++i) set_value(x.fn, i, value_at(x.fn, i) / std::sqrt(static_cast<double>(s.n * s.c)));
  if (request.distribution == "aimed") {
    aim_rows(streams, s.tokens(), width), aim_rows(x.d_y, s.tokens(), s.c), aim_rows(x.d_x_out, s.tokens(), s.n * s.c);
    dim_rows(streams, s.tokens(), width, 0.2);
    for (int64_t i = 0; i < x.base.size(); ++i) set_value(x.base, i, 1.5 * value_at(x.base, i));  // streams that differ: a transposed mix shows
  }
  if (request.distribution == "extreme") {
    spread_rows(streams, s.tokens(), width);
    for (int64_t i = 0; i < x.base.size(); ++i) set_value(x.base, i, 6 * value_at(x.base, i));  // Sinkhorn far from its fixed point after 20 rounds
  }
}

void validate(const Axes& axes) {
  const int64_t n = axes["n"], k = axes["k"];
  MEGATOKEN_CHECK(k == 2 * n + n * n, "hyper_connection: fn has k={} rows, expected 2n + n² = {} for n={} streams", k, 2 * n + n * n, n);
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto stream = static_cast<double>(s.tokens() * s.n * s.c), row = static_cast<double>(s.tokens() * s.c), k = static_cast<double>(s.k), n = static_cast<double>(s.n);
  const auto size = static_cast<double>(size_of(dtype)), fn = static_cast<double>(s.k * s.n * s.c * size_of(accumulator_of(dtype)));
  return phase_cost(phase, {stream * (2 * k + 2 * n + 6), size * (2 * stream + 2 * row) + fn}, {stream * (6 * k + 4 * n + 12), size * (3 * stream + 3 * row) + 2 * fn});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "residual streams mixed into a sublayer and back, Sinkhorn-normalised";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 512, .max = 2147483647},
            {.name = "n", .about = "streams", .fallback = 4, .min = 1, .max = kMaxStreams},
            {.name = "c", .about = "model width", .fallback = 64, .min = 1},
            {.name = "k", .about = "rows of fn: 2n + n²", .fallback = 24, .min = 3, .option = true},
            {.name = "rounds", .about = "Sinkhorn rounds", .fallback = 20, .min = 1, .max = 1000, .option = true},
            {.name = "entry", .about = "1: streams are copies of the embedding", .fallback = 0, .max = 1, .option = true},
            {.name = "exit", .about = "1: also the mean of the streams", .fallback = 0, .max = 1, .option = true},
            {.name = "eps", .about = "added to the mean of squares", .fallback = 1e-5, .max = 1, .real = true, .option = true},
            {.name = "hc_eps", .about = "added to pre, to the softmax and to every divisor", .fallback = 1e-6, .max = 1, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"y", "x_out", "pooled", "post", "comb", "dx", "de", "du"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"t=1 n=1 c=1 k=3", "b=2 t=2 n=4 c=3", "t=0 n=4 c=2", "t=3 n=4 c=2 entry=1 exit=1", "t=2 n=2 c=5 k=8 rounds=1", "b=1 t=2 n=3 c=2 k=15 hc_eps=0.1 exit=1"};
  c.judging = "b=2 t=48 n=4 c=24 exit=1";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::hyper_connection
