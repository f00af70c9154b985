// hyper_connection/cpu: the loops of loops.hpp on CPU threads; the oracle at fp64, the yardstick below.
#include "reference/components/hyper_connection/loops.hpp"
#include "reference/core/loops.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::hyper_connection {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .workspace = [](const Shape& s, DType dtype, Phase phase) -> int64_t { return phase == Phase::Forward ? 0 : backward_workspace(s, dtype); },
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.y.dtype, [&]<class T>() { forward_loops<T>(s, x, CpuLoop{c.threads}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.y.dtype, [&]<class T>() { backward_loops<T>(s, x, c, CpuLoop{c.threads}); }); },
})};

}  // namespace
}  // namespace megatoken::hyper_connection
