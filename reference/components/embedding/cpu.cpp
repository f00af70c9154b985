// embedding/cpu: the loops of loops.hpp on CPU threads; the oracle at fp64, the yardstick below.
#include "reference/components/embedding/loops.hpp"
#include "reference/core/loops.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::embedding {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .forward = [](const Shape& s, const Tensors& x, Context& c) { check_ids(s, x); dispatch_float(x.table.dtype, [&]<class T>() { forward_loops<T>(s, x, CpuLoop{c.threads}); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.table.dtype, [&]<class T>() { backward_loops<T>(s, x, CpuLoop{c.threads}); }); },
})};

}  // namespace
}  // namespace megatoken::embedding
