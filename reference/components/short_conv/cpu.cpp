// short_conv/cpu: the loops of loops.hpp on CPU threads; z is formed again wherever backward needs it.
#include "reference/components/short_conv/loops.hpp"
#include "reference/core/loops.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::short_conv {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { forward_loops<T>(s, x, CpuLoop{c.threads}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { backward_loops<T>(s, x, CpuLoop{c.threads}); }); },
})};

}  // namespace
}  // namespace megatoken::short_conv
