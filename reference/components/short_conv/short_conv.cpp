#include "reference/components/short_conv/short_conv.hpp"

#include <algorithm>
#include <cmath>

#include "reference/core/documents.hpp"

namespace megatoken::short_conv {

Shape::Shape(const Axes& axes) : b(axes["b"]), t(axes["t"]), c(axes["c"]), width(axes["width"]), halo(axes["halo"]), docs(axes["docs"]) {}

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"x", Role::Input, "b t c"}, &T::x},
          {{"w", Role::Input, "c width", Kind::Accum}, &T::w},
          {{"document", Role::Input, "b t", Kind::Index}, &T::document},
          {{"history", Role::Input, "b halo c", Kind::Data, "", "halo"}, &T::history},
          {{"y", Role::Output, "b t c"}, &T::y},
          {{"final_history", Role::Output, "b halo c", Kind::Data, "", "halo"}, &T::final_history},
          {{"dy", Role::OutputGrad, "b t c", Kind::Data, "y"}, &T::d_y},
          {{"dfinal_history", Role::OutputGrad, "b halo c", Kind::Data, "final_history", "halo"}, &T::d_final_history},
          {{"dx", Role::InputGrad, "b t c", Kind::Data, "x"}, &T::dx},
          {{"dw", Role::InputGrad, "c width", Kind::Accum, "w"}, &T::dw},
          {{"dhistory", Role::InputGrad, "b halo c", Kind::Data, "history", "halo"}, &T::d_history}};
}

namespace {

/// Multiplies one row of a [b, t, c] view.
void scale_row(const TensorView& view, int64_t row, int64_t c, double factor) {
  for (int64_t i = row * c; i < (row + 1) * c; ++i) set_value(view, i, factor * value_at(view, i));
}

/// Rows that a wrong index reads or misses: the last ones of every document, around the edges of 64-row tiles and of
/// eighths of the sequence. They are made to hold about half of the squares of x, whatever t is.
void fill_aimed(const Tensors& x, const Shape& shape) {
  const int64_t eighth = std::max<int64_t>(1, shape.t / 8);
  for (int64_t b = 0; b < shape.b; ++b) {
    const auto* document = x.document.as<int32_t>() + b * shape.t;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < shape.t; ++i) {
      bool before_end = false;
      for (int64_t ahead = 1; ahead < shape.width && i + ahead < shape.t; ++ahead) before_end |= document[i + ahead] != document[i];
      if (before_end || i % eighth == eighth - 1 || i % 64 == 63 || i % 64 == 0 || i == shape.t - 1) rows.push_back(i);
    }
    const double factor = std::sqrt(std::max(1.0, static_cast<double>(shape.t) / static_cast<double>(std::max<size_t>(1, rows.size()))));
    for (int64_t i : rows) {
      scale_row(x.x, b * shape.t + i, shape.c, factor);
      scale_row(x.d_y, b * shape.t + std::min(i + 1, shape.t - 1), shape.c, factor);  // the next row reads it
    }
  }
}

/// Both ends of SiLU: rows of ×30 saturate it, rows of ×0.001 leave only its slope at 0.
void fill_extreme(const Tensors& x, const Shape& shape) {
  for (int64_t row = 0; row < shape.b * shape.t; ++row) scale_row(x.x, row, shape.c, row % 3 == 0 ? 30 : row % 3 == 1 ? 1 : 1e-3);
}

void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape shape(request.axes);
  fill_documents(x.document, shape.docs, request.seed);
  if (request.distribution == "aimed") fill_aimed(x, shape);
  if (request.distribution == "extreme") fill_extreme(x, shape);
}

void validate(const Axes& axes) {
  const int64_t halo = axes["halo"], width = axes["width"];
  MEGATOKEN_CHECK(halo == 0 || halo == width - 1,
                  "short_conv: history has halo={} rows, expected {} for width={}; halo is width-1, or 0 when nothing is carried", halo, width - 1, width);
}

/// Forward: width products and sums and 4 operations of SiLU; backward forms z again, then dx and dw. Element-wise, so bytes decide.
Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape x(axes);
  const auto elements = static_cast<double>(x.b * x.t * x.c), width = static_cast<double>(x.width);
  const auto carried = static_cast<double>(x.b * x.halo * x.c), weights = width * static_cast<double>(x.c * size_of(accumulator_of(dtype)));
  const auto size = static_cast<double>(size_of(dtype));
  const Cost forward{elements * (2 * width + 4), size * (2 * elements + 2 * carried) + weights};
  const Cost backward{elements * (6 * width + 8), size * (3 * elements + 3 * carried) + 2 * weights};
  if (phase == Phase::Forward) return forward;
  if (phase == Phase::Backward) return backward;
  return {forward.flops + backward.flops, forward.bytes + backward.bytes};
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "causal depthwise convolution and SiLU, packed documents, carried history";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 1024, .min = 0, .max = 2147483647},
            {.name = "c", .about = "channels", .fallback = 256, .min = 1},
            {.name = "width", .about = "taps", .fallback = 4, .min = 1, .max = 64, .option = true},
            {.name = "halo", .about = "rows of history carried in and out: width-1, or 0 for none", .fallback = 0, .max = 63, .option = true},
            {.name = "docs", .about = "packed documents", .fallback = 1, .min = 1, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"scan", "c", {"y", "final_history", "dx", "dw", "dhistory"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.carry = "halo";
  c.examples = {"b=1 t=1 c=1",          "b=2 t=9 c=3",           "b=1 t=0 c=2",        "b=1 t=0 c=2 halo=3",   "b=2 t=2 c=3 halo=3",
                "b=2 t=12 c=2 docs=4 halo=3", "b=1 t=5 c=2 docs=9 halo=3", "b=1 t=7 c=2 width=1", "b=2 t=6 c=2 width=7 halo=6", "b=3 t=13 c=3 docs=3"};
  c.judging = "b=2 t=160 c=24 docs=3 halo=3";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::short_conv
