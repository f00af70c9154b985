// pool_keys/cpu: the loops of loops.hpp on CPU threads; the oracle at fp64, the yardstick below.
#include "reference/components/pool_keys/loops.hpp"
#include "reference/core/loops.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::pool_keys {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .workspace = workspace_bytes,
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.k.dtype, [&]<class T>() { forward_loops<T>(s, x, c, CpuLoop{c.threads}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.k.dtype, [&]<class T>() { backward_loops<T>(s, x, c, CpuLoop{c.threads}); }); },
})};

}  // namespace
}  // namespace megatoken::pool_keys
