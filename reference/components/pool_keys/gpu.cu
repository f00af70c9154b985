// pool_keys/gpu: the loops of loops.hpp, one GPU thread per index.
#include "reference/components/pool_keys/loops.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::pool_keys {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per output",
    .device = Device::Gpu,
    .workspace = workspace_bytes,
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.k.dtype, [&]<class T>() { forward_loops<T>(s, x, c, GpuLoop{c.stream}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.k.dtype, [&]<class T>() { backward_loops<T>(s, x, c, GpuLoop{c.stream}); }); },
})};

}  // namespace
}  // namespace megatoken::pool_keys
