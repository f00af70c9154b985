// index_kl/cpu: the loops of loops.hpp on CPU threads; the oracle at fp64, the yardstick below.
#include "reference/components/index_kl/loops.hpp"
#include "reference/core/loops.hpp"

namespace megatoken::index_kl {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .forward = [](const Shape& s, const Tensors& x, Context& c) {
      check_counts(s, x);
      dispatch_float(x.logit.dtype, [&]<class T>() { forward_loops<T>(s, x, CpuLoop{c.threads}); });
    },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.logit.dtype, [&]<class T>() { backward_loops<T>(s, x, CpuLoop{c.threads}); }); },
})};

}  // namespace
}  // namespace megatoken::index_kl
