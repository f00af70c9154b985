// kda/chunk_wy: the recurrence in chunks of 64 tokens (WY form), forward.
//   Z = β v − (β k 2^G) S,   R = (I + Akk)⁻¹ Z,   O = (scale q 2^G) S + Aqk R,   S ← Diag(2^{G_last}) S + kgᵀ R
// The inverse is never formed: R comes from substitution in 16-row blocks. All products are between tiles that lie in cache, and only the
// state, one per value head, walks along the sequence. Heads run on threads of their own; a single head runs as a pipeline of
// chunks. Assumes nothing about gates. Measured figures: README.md beside this file.
#include "optimized/components/kda/chunk_wy.hpp"

#include "optimized/components/kda/forward_group.hpp"

namespace megatoken::kda {
namespace {

template <class T>
void forward(const Shape& shape, const Tensors& x, Context& context) {
  zero_outputs<T>(shape, x);
  for_each_group<ForwardGroup<T>>(shape, context.threads, context.workspace, [&](ForwardGroup<T>& group, int64_t b, int64_t h) {
    group.select(x, b, h);
    for (int64_t n = 0; n < shape.group; ++n) load_state(shape, group.width(), x.initial_state, b, h, n, group.state(n));
    group.run(chunk_places(x.document.elements<const int32_t, 2>(), b, shape.t));
    for (int64_t n = 0; n < shape.group; ++n) store_state(shape, group.width(), group.state(n), x.final_state, b, h, n);
  });
}

}  // namespace

void chunk_wy_forward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch_float(x.q.dtype, [&]<class T>() { forward<T>(shape, x, context); });
}

namespace {

int64_t workspace(const Shape& shape, DType dtype, Phase phase) {
  const int64_t forward = dtype == DType::F64 ? groups_workspace<ForwardGroup<double>>(shape) : groups_workspace<ForwardGroup<float>>(shape);
  return phase == Phase::Forward ? forward : std::max(forward, chunk_wy_backward_workspace(shape, dtype));
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "chunk_wy",
    .about = "chunks of 64 in 16-row blocks, past-only decays, substitution, states at chunk borders",
    .workspace = workspace,
    .forward = chunk_wy_forward,
    .backward = chunk_wy_backward,
})};

}  // namespace
}  // namespace megatoken::kda
