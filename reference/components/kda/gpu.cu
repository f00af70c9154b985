// kda/gpu: the loops of columns.hpp, one thread per column of the state and per element of a gradient.
#include "reference/components/kda/columns.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::kda {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the recurrence, one thread per column of the state and per element of a gradient",
    .device = Device::Gpu,
    .workspace = column_workspace,
    .forward = [](const Shape& s, const Tensors& x, Context& c) {
      dispatch_float(x.q.dtype, [&]<class T>() { Columns<T, GpuLoop>(s, x, Phase::Forward, c.workspace, GpuLoop{c.stream}).forward(); });
    },
    .backward = [](const Shape& s, const Tensors& x, Context& c) {
      dispatch_float(x.q.dtype, [&]<class T>() { Columns<T, GpuLoop>(s, x, Phase::Backward, c.workspace, GpuLoop{c.stream}).backward(); });
    },
})};

}  // namespace
}  // namespace megatoken::kda
