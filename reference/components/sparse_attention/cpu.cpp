// sparse_attention/cpu: the loops of loops.hpp on CPU threads; the oracle at fp64, the yardstick below.
#include "reference/components/sparse_attention/loops.hpp"
#include "reference/core/loops.hpp"

namespace megatoken::sparse_attention {
namespace {

constexpr int kColumns = 512;

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .workspace = workspace_bytes,
    .forward = [](const Shape& s, const Tensors& x, Context& c) {
      check_ids(s, x);
      dispatch_float(x.q.dtype, [&]<class T>() { forward_loops<kColumns, T>(s, x, CpuLoop{c.threads}); });
    },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { backward_loops<kColumns, T>(s, x, c, CpuLoop{c.threads}); }); },
})};

}  // namespace
}  // namespace megatoken::sparse_attention
