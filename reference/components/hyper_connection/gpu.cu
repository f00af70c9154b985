// hyper_connection/gpu: the loops of loops.hpp, one GPU thread per index.
#include "reference/components/hyper_connection/loops.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::hyper_connection {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per output",
    .device = Device::Gpu,
    .workspace = [](const Shape& s, DType dtype, Phase phase) -> int64_t { return phase == Phase::Forward ? 0 : backward_workspace(s, dtype); },
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.y.dtype, [&]<class T>() { forward_loops<T>(s, x, GpuLoop{c.stream}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.y.dtype, [&]<class T>() { backward_loops<T>(s, x, c, GpuLoop{c.stream}); }); },
})};

}  // namespace
}  // namespace megatoken::hyper_connection
