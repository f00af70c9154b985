#include "reference/schemes/run_scheme.hpp"

#include <chrono>
#include <cstring>
#include <limits>

#include "reference/core/device.hpp"

namespace megatoken {
namespace {

constexpr int64_t kMissing = std::numeric_limits<int32_t>::min();

bool is_result(const Field& field, Phase phase) {
  return (field.role == Role::Output && phase != Phase::Backward) || (field.role == Role::InputGrad && phase != Phase::Forward);
}

void fill_missing(const TensorView& view) { fill(view, is_float(view.dtype) ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(kMissing)); }

/// Index tensors of the whole problem, which every rank knows; others are empty.
std::vector<TensorView> whole_index(const Problem& whole) {
  std::vector<TensorView> views;
  for (size_t i = 0; i < whole.views().size(); ++i) views.push_back(whole.component().fields[i].kind == Kind::Index ? whole.views()[i] : TensorView());
  return views;
}

/// The elements of a replicated result become missing where the ranks do not agree to the bit.
void collect_replicated(std::vector<Problem>& ranks, size_t field, const TensorView& result) {
  const TensorView first = ranks[0].views()[field];
  copy(first, result);
  const int64_t size = size_of(first.dtype);
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    for (int64_t e = 0; e < first.size(); ++e) {
      const auto* a = static_cast<const std::byte*>(first.data) + e * size;
      const auto* b = static_cast<const std::byte*>(ranks[rank].views()[field].data) + e * size;
      if (std::memcmp(a, b, static_cast<size_t>(size)) != 0) fill_missing(result.reshape({result.size()}).slice(0, e, e + 1));
    }
}

/// Waits for all ranks, computes, and says how long that took until all were done.
template <class F>
double timed(Communicator& communicator, F&& compute) {
  communicator.barrier();
  const auto start = std::chrono::steady_clock::now();
  compute();
  communicator.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::string scheme_unsupported(const Scheme& scheme, const Variant& block, const Axes& global, DType dtype, int ranks, Phase phase) {
  const Component& component = find_component(block.component);
  if (block.device != Device::Cpu) return format("unsupported: {} runs on host tensors, {} on the GPU", scheme.label(), block.label());
  if (phase != Phase::Forward && !scheme.backward) return format("unsupported: {} has no backward", scheme.label());
  const std::string reason = scheme.refuse ? scheme.refuse(component, global, ranks) : "";
  return reason.empty() ? block.unsupported(global, dtype, phase) : "unsupported: " + reason;
}

Problem shard(const Problem& whole, const Layout& layout, int rank, bool forward_outputs) {
  const Component& component = whole.component();
  Problem local(component, local_axes(component, whole.axes(), layout), whole.dtype());
  for (size_t i = 0; i < component.fields.size(); ++i) {
    const Field& field = component.fields[i];
    const TensorView& from = whole.views()[i];
    if (!from) continue;
    const bool given = field.role == Role::Input || field.role == Role::OutputGrad || (field.role == Role::Output && forward_outputs);
    const int axis = token_axis(component, field);
    if (!given) fill_missing(local.views()[i]);
    else if (axis < 0) copy(from, local.views()[i]);
    else copy(gather_rows(from, axis, layout.tokens[static_cast<size_t>(rank)], field.kind == Kind::Index ? -1 : 0), local.views()[i]);
  }
  return local;
}

SchemeRun run_scheme(const Scheme& scheme, const Variant& block, const Problem& whole, int ranks, Phase phase, int threads_per_rank,
                     const LocalOptions& options) {
  const Component& component = whole.component();
  if (const std::string reason = scheme_unsupported(scheme, block, whole.axes(), whole.dtype(), ranks, phase); !reason.empty())
    throw Error(ErrorKind::Usage, format("{} with {} on {} ranks: {}", scheme.label(), block.label(), ranks, reason));

  const Layout layout = scheme.layout(component, whole.axes(), ranks);
  const Axes local = local_axes(component, whole.axes(), layout);
  const auto index = whole_index(whole);
  std::vector<Problem> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(shard(whole, layout, rank, phase == Phase::Backward));

  SchemeRun run{whole.converted(whole.dtype(), true), std::vector<Ledger>(static_cast<size_t>(ranks)), 0};
  run_ranks(ranks, [&](Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    Context context{.threads = threads_per_rank, .communicator = &communicator};
    const int64_t bytes = scheme.workspace ? scheme.workspace(block, local, whole.dtype(), ranks, phase) : 0;
    const auto memory = allocate(Device::Cpu, bytes);
    context.workspace = {memory.get(), static_cast<size_t>(bytes)};
    const SchemeCall call{component, block, whole.axes(), local, whole.dtype(), layout, parts[rank].views(), index, communicator, context};
    const double seconds = timed(communicator, [&] {
      communicator.ledger().set_phase("fwd");
      if (phase != Phase::Backward) scheme.forward(call);
      communicator.ledger().set_phase("bwd");
      if (phase != Phase::Forward) scheme.backward(call);
    });
    run.ledgers[rank] = communicator.ledger();
    if (rank == 0) run.seconds = seconds;
  }, options);

  for (size_t i = 0; i < component.fields.size(); ++i) {
    const Field& field = component.fields[i];
    const TensorView& result = run.result.views()[i];
    if (!result || !is_result(field, phase)) continue;
    const int axis = token_axis(component, field);
    if (axis < 0) {
      collect_replicated(parts, i, result);
      continue;
    }
    fill_missing(result);
    for (int rank = 0; rank < ranks; ++rank) scatter_rows(parts[static_cast<size_t>(rank)].views()[i], result, axis, layout.tokens[static_cast<size_t>(rank)]);
  }
  return run;
}

}  // namespace megatoken
