// gated_rms_norm/gpu: the loops of loops.hpp, one GPU thread per index.
#include "reference/components/gated_rms_norm/loops.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::gated_rms_norm {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per output",
    .device = Device::Gpu,
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { forward_loops<T>(s, x, GpuLoop{c.stream}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { backward_loops<T>(s, x, GpuLoop{c.stream}); }); },
})};

}  // namespace
}  // namespace megatoken::gated_rms_norm
