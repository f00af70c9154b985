// index_kl/gpu: the loops of loops.hpp, one GPU thread per row.
#include "reference/components/index_kl/loops.hpp"
#include "reference/core/launch.cuh"

namespace megatoken::index_kl {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per row",
    .device = Device::Gpu,
    .forward = [](const Shape& s, const Tensors& x, Context& c) {
      dispatch_float(x.logit.dtype, [&]<class T>() { forward_loops<T>(s, x, GpuLoop{c.stream}); });
    },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.logit.dtype, [&]<class T>() { backward_loops<T>(s, x, GpuLoop{c.stream}); }); },
})};

}  // namespace
}  // namespace megatoken::index_kl
