// The naive scheme, for any component with tokens: collect every sharded tensor, let every rank compute the whole problem, keep the
// own rows. Nothing can go wrong with borders, order or scale, so other schemes are held against it. It buys no memory and no time.
// Buffers for the whole problem are allocated at the start of each call: the naive scheme may.
#include "reference/core/problem.hpp"
#include "reference/schemes/scheme.hpp"

namespace megatoken {
namespace {

bool is_given(const Field& field, Phase phase) {
  return field.role == Role::Input || (phase == Phase::Backward && (field.role == Role::Output || field.role == Role::OutputGrad));
}

/// Rows of all ranks → the whole tensor in token order, without padding.
void gather_tokens(const TensorView& own, const TensorView& whole, int axis, const SchemeCall& call) {
  const int64_t n = own.size();
  const Tensor all(own.dtype, {call.layout.ranks() * n});
  call.communicator.all_gather(own, all);
  for (int rank = 0; rank < call.layout.ranks(); ++rank)
    scatter_rows(all->slice(0, rank * n, (rank + 1) * n).reshape(own.shape), whole, axis, call.layout.tokens[static_cast<size_t>(rank)]);
}

void run(const SchemeCall& call, Phase phase) {
  const Problem whole(call.component, call.global, call.dtype);
  for (size_t i = 0; i < call.views.size(); ++i) {
    const Field& field = call.component.fields[i];
    if (!call.views[i] || !is_given(field, phase)) continue;
    const int axis = token_axis(call.component, field);
    if (field.kind == Kind::Index && field.role == Role::Input) copy(call.whole_index[i], whole.views()[i]);
    else if (axis < 0) copy(call.views[i], whole.views()[i]);
    else gather_tokens(call.views[i], whole.views()[i], axis, call);
  }

  run_variant(call.block, whole, phase, call.context.threads);

  const auto& own_tokens = call.layout.tokens[static_cast<size_t>(call.communicator.rank())];
  for (size_t i = 0; i < call.views.size(); ++i) {
    const Field& field = call.component.fields[i];
    if (!call.views[i] || field.role != (phase == Phase::Forward ? Role::Output : Role::InputGrad)) continue;
    const int axis = token_axis(call.component, field);
    copy(axis < 0 ? whole.views()[i] : gather_rows(whole.views()[i], axis, own_tokens).view(), call.views[i]);
  }
}

Layout own_layout(const Component& component, const Axes& axes, int ranks) { return contiguous_layout(axes[component.token_axes.front()], ranks); }

std::string refuse(const Component& component, const Axes& axes, int) {
  for (const auto& axis : component.token_axes)
    if (axes[axis] != axes[component.token_axes.front()]) return format("{} and {} differ: the scheme needs one sequence", axis, component.token_axes.front());
  return "";
}

int64_t bytes_sent(const Component& component, const Axes& axes, DType dtype, int ranks, Phase phase) {
  if (phase == Phase::Both) return bytes_sent(component, axes, dtype, ranks, Phase::Forward) + bytes_sent(component, axes, dtype, ranks, Phase::Backward);
  const Axes local = local_axes(component, axes, own_layout(component, axes, ranks));
  int64_t bytes = 0;
  for (const Field& field : component.fields)
    if (!(field.kind == Kind::Index && field.role == Role::Input) && is_given(field, phase) && component.present(field, axes) && token_axis(component, field) >= 0)
      bytes += component.shape(field, local).product() * size_of(dtype_of(field, dtype));
  return (ranks - 1) * bytes;
}

const Registered<Scheme> registered{{
    .name = "gather",
    .component = "*",
    .about = "every rank collects the whole sequence, computes all of it and keeps its rows",
    .deterministic = true,
    .refuse = refuse,
    .layout = own_layout,
    .forward = [](const SchemeCall& call) { run(call, Phase::Forward); },
    .backward = [](const SchemeCall& call) { run(call, Phase::Backward); },
    .workspace = {},
    .bytes_sent = bytes_sent,
}};

}  // namespace
}  // namespace megatoken
