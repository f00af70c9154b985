// short_conv/gpu: the loops of loops.hpp, one GPU thread per element of a result.
#include "reference/components/short_conv/loops.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::short_conv {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per element",
    .device = Device::Gpu,
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { forward_loops<T>(s, x, GpuLoop{c.stream}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { backward_loops<T>(s, x, GpuLoop{c.stream}); }); },
})};

}  // namespace
}  // namespace megatoken::short_conv
