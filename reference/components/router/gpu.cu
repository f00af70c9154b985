// router/gpu: the loops of loops.hpp, one GPU thread per index.
#include "reference/components/router/loops.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::router {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per output",
    .device = Device::Gpu,
    .workspace = [](const Shape& s, DType dtype, Phase phase) -> int64_t { return workspace_bytes(s, dtype, phase); },
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { forward_loops<T>(s, x, c, GpuLoop{c.stream}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { backward_loops<T>(s, x, c, GpuLoop{c.stream}); }); },
})};

}  // namespace
}  // namespace megatoken::router
