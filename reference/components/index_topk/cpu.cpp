// index_topk/cpu: the loops of loops.hpp on CPU threads; the oracle at fp64, the yardstick below.
#include "reference/components/index_topk/loops.hpp"
#include "reference/core/loops.hpp"

namespace megatoken::index_topk {
namespace {

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
   .workspace = workspace_bytes,
    .forward = [](const Shape& s, const Tensors& x, Context& c) {
      check_positions(s, x);
      dispatch_float(x.q.dtype, [&]<class T>() { forward_loops<T>(s, x, c, CpuLoop{c.threads}); });
    },
})};

}  // namespace
}  // namespace megatoken::index_topk
