// kda/chunk_wy, backward: groups on threads of their own; sums of A_log and dt_bias over batch rows in a fixed order.
#include "optimized/components/kda/backward_group.hpp"
#include "optimized/components/kda/chunk_wy.hpp"

namespace megatoken::kda {
namespace {

/// Sums of one value head of one batch row, b h group.
template <class Real>
int64_t sums_bytes(const Shape& shape) {
  cpu::Arena arena;
  arena.take<Real>(shape.b * shape.h * shape.group * parameter_numbers(Widths(shape)));
  return arena.used();
}

template <class T>
void backward(const Shape& shape, const Tensors& x, Context& context) {
  using Real = Accumulator<T>;
  zero_gradients<T>(shape, x);
  Real* const sums = reinterpret_cast<Real*>(context.workspace.data());
  const int64_t count = parameter_numbers(Widths(shape)), heads = shape.h * shape.group;
  std::fill_n(sums, shape.b * heads * count, Real{0});
  for_each_group<BackwardGroup<T>>(shape, context.threads, context.workspace.subspan(static_cast<size_t>(sums_bytes<Real>(shape))), [&](BackwardGroup<T>& group, int64_t b, int64_t h) {
    const auto places = chunk_places(x.document.elements<const int32_t, 2>(), b, shape.t);
    group.select(x, b, h, places);
    for (int64_t n = 0; n < shape.group; ++n) load_state(shape, group.width(), x.initial_state, b, h, n, group.state(n));
    group.keep_borders();
    for (int64_t n = 0; n < shape.group; ++n) load_state(shape, group.width(), x.d_final_state, b, h, n, group.state(n));
    group.run(true);
    for (int64_t n = 0; n < shape.group; ++n) {
      store_state(shape, group.width(), group.state(n), x.d_initial_state, b, h, n);
      group.add_sums(n, sums + (b * heads + h * shape.group + n) * count);
    }
  });
  for (int64_t i = 0; i < shape.b * heads && shape.gate != Gate::Given; ++i) add_parameters(shape, x, i % heads / shape.group, i % shape.group, sums + i * count);
}

}  // namespace

void chunk_wy_backward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch_float(x.q.dtype, [&]<class T>() { backward<T>(shape, x, context); });
}

int64_t chunk_wy_backward_workspace(const Shape& shape, DType dtype) {
  return dtype == DType::F64 ? sums_bytes<double>(shape) + groups_workspace<BackwardGroup<double>>(shape)
                             : sums_bytes<float>(shape) + groups_workspace<BackwardGroup<float>>(shape);
}

}  // namespace megatoken::kda
