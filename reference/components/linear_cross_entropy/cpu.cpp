// linear_cross_entropy/cpu: the loops of loops.hpp on CPU threads; the oracle at fp64, the yardstick below.
#include "reference/components/linear_cross_entropy/loops.hpp"
#include "reference/core/loops.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::linear_cross_entropy {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .workspace = [](const Shape& s, DType dtype, Phase phase) -> int64_t { return workspace_bytes(s, dtype, phase); },
    .forward = [](const Shape& s, const Tensors& x, Context& c) { check_labels(s, x); dispatch_float(x.x.dtype, [&]<class T>() { forward_loops<T>(s, x, c, CpuLoop{c.threads}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { backward_loops<T>(s, x, c, CpuLoop{c.threads}); }); },
})};

}  // namespace
}  // namespace megatoken::linear_cross_entropy
