// sparse_attention/gpu: the loops of loops.hpp, one GPU thread per row and 32 columns.
#include "reference/components/sparse_attention/loops.hpp"
#include "reference/core/launch.cuh"

namespace megatoken::sparse_attention {
namespace {

constexpr int kColumns = 32;

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas as loops, one thread per row and 32 columns",
    .device = Device::Gpu,
    .workspace = workspace_bytes,
    .forward = [](const Shape& s, const Tensors& x, Context& c) {
      dispatch_float(x.q.dtype, [&]<class T>() { forward_loops<kColumns, T>(s, x, GpuLoop{c.stream}); });
    },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { backward_loops<kColumns, T>(s, x, c, GpuLoop{c.stream}); }); },
})};

}  // namespace
}  // namespace megatoken::sparse_attention
