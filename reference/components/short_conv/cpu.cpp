// short_conv/cpu: the formulas of rows.hpp, element by element; z is formed again wherever backward needs it.
#include "reference/components/short_conv/rows.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::short_conv {
namespace {

template <class T>
void forward_loops(const Shape& shape, const Tensors& x, Context& context) {
  const Rows<T> rows(shape, x, false);
  const auto y = x.y.elements<T, 3>();
  parallel_for(shape.b * shape.t, context.threads, [&](int64_t item) {
    const int64_t b = item / shape.t, i = item % shape.t;
    for (int64_t c = 0; c < shape.c; ++c) y(b, i, c) = static_cast<T>(rows.y(b, i, c));
  });
  if (shape.halo == 0) return;
  const auto final_history = x.final_history.elements<T, 3>();
  for (int64_t b = 0; b < shape.b; ++b)
    for (int64_t r = 0; r < shape.halo; ++r)
      for (int64_t c = 0; c < shape.c; ++c) final_history(b, r, c) = static_cast<T>(rows.final_history(b, r, c));
}

template <class T>
void backward_loops(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Rows<T> rows(shape, x, true);
  const auto dx = x.dx.elements<T, 3>();
  const auto dw = x.dw.elements<Acc, 2>();
  parallel_for(shape.b * shape.t, context.threads, [&](int64_t item) {
    const int64_t b = item / shape.t, i = item % shape.t;
    for (int64_t c = 0; c < shape.c; ++c) dx(b, i, c) = static_cast<T>(rows.d_input(b, i, c));
  });
  parallel_for(shape.c, context.threads, [&](int64_t c) {
    for (int64_t j = 0; j < shape.width; ++j) {
      Acc sum = 0;
      for (int64_t b = 0; b < shape.b; ++b) sum += rows.d_weight(b, c, j);
      dw(c, j) = sum;
    }
  });
  if (shape.halo == 0) return;
  const auto d_history = x.d_history.elements<T, 3>();
  for (int64_t b = 0; b < shape.b; ++b)
    for (int64_t r = 0; r < shape.halo; ++r)
      for (int64_t c = 0; c < shape.c; ++c) d_history(b, r, c) = static_cast<T>(rows.d_input(b, r - shape.halo, c));
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .dtypes = {DType::F64, DType::F32, DType::BF16, DType::F16},
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { forward_loops<T>(s, x, c); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { backward_loops<T>(s, x, c); }); },
})};

}  // namespace
}  // namespace megatoken::short_conv
