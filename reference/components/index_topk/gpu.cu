// index_topk/gpu: the loops of loops.hpp, one GPU thread per index.
#include "reference/components/index_topk/loops.hpp"
#include "reference/core/launch.cuh"

namespace megatoken::index_topk {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per output",
    .device = Device::Gpu,
    .workspace = workspace_bytes,
    .forward = [](const Shape& s, const Tensors& x, Context& c) {
      dispatch_float(x.q.dtype, [&]<class T>() { forward_loops<T>(s, x, c, GpuLoop{c.stream}); });
    },
})};

}  // namespace
}  // namespace megatoken::index_topk
