// short_conv/gpu: the formulas of rows.hpp, one thread per element of a result.
#include "reference/components/short_conv/rows.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::short_conv {
namespace {

template <class T>
void forward_loops(const Shape& shape, const Tensors& x, Context& context) {
  const Rows<T> rows(shape, x, false);
  const int64_t t = shape.t, width_c = shape.c, halo = shape.halo;
  const auto y = x.y.elements<T, 3>();
  launch(shape.b * t * width_c, context.stream, "short_conv forward", [=] __device__(int64_t item) {
    const int64_t b = item / (t * width_c), i = item / width_c % t, c = item % width_c;
    y(b, i, c) = static_cast<T>(rows.y(b, i, c));
  });
  if (halo == 0) return;
  const auto final_history = x.final_history.elements<T, 3>();
  launch(shape.b * halo * width_c, context.stream, "short_conv final_history", [=] __device__(int64_t item) {
    const int64_t b = item / (halo * width_c), r = item / width_c % halo, c = item % width_c;
    final_history(b, r, c) = static_cast<T>(rows.final_history(b, r, c));
  });
}

template <class T>
void backward_loops(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Rows<T> rows(shape, x, true);
  const int64_t batch = shape.b, t = shape.t, width_c = shape.c, halo = shape.halo, width = shape.width;
  const auto dx = x.dx.elements<T, 3>();
  launch(batch * t * width_c, context.stream, "short_conv dx", [=] __device__(int64_t item) {
    const int64_t b = item / (t * width_c), i = item / width_c % t, c = item % width_c;
    dx(b, i, c) = static_cast<T>(rows.d_input(b, i, c));
  });
  const auto dw = x.dw.elements<Acc, 2>();
  launch(width_c * width, context.stream, "short_conv dw", [=] __device__(int64_t item) {
    const int64_t c = item / width, j = item % width;
    Acc sum = 0;
    for (int64_t b = 0; b < batch; ++b) sum += rows.d_weight(b, c, j);
    dw(c, j) = sum;
  });
  if (halo == 0) return;
  const auto d_history = x.d_history.elements<T, 3>();
  launch(batch * halo * width_c, context.stream, "short_conv dhistory", [=] __device__(int64_t item) {
    const int64_t b = item / (halo * width_c), r = item / width_c % halo, c = item % width_c;
    d_history(b, r, c) = static_cast<T>(rows.d_input(b, r - halo, c));
  });
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per element",
    .device = Device::Gpu,
    .dtypes = {DType::F64, DType::F32, DType::BF16, DType::F16},
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { forward_loops<T>(s, x, c); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { backward_loops<T>(s, x, c); }); },
})};

}  // namespace
}  // namespace megatoken::short_conv
