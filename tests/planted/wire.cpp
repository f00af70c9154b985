#include "tests/planted/wire.hpp"

namespace megatoken::plant {
namespace {

bool applies(Phase when, Phase now) { return when == Phase::Both || when == now; }

/// Wraps both phases: body(truth's phase function, call, phase).
template <class F>
Scheme wrap(const Scheme& truth, F body) {
  Scheme wrong = truth;
  wrong.forward = [run = truth.forward, body](const SchemeCall& call) { body(run, call, Phase::Forward); };
  if (truth.backward) wrong.backward = [run = truth.backward, body](const SchemeCall& call) { body(run, call, Phase::Backward); };
  return wrong;
}

}  // namespace

Scheme with_exchanges(const Scheme& truth, std::function<ExchangeWatcher::After(const SchemeCall&)> make_after, Phase when) {
  return wrap(truth, [make_after, when](const auto& run, const SchemeCall& call, Phase phase) {
    if (!applies(when, phase)) return run(call);
    ExchangeWatcher watcher(call.communicator, make_after(call));
    run({call.component, call.block, call.global, call.local, call.dtype, call.layout, call.views, call.whole_index, watcher, call.context});
  });
}

Scheme with_block(const Scheme& truth, std::function<Variant(const Variant&, int)> change) {
  return wrap(truth, [change](const auto& run, const SchemeCall& call, Phase) {
    const Variant block = change(call.block, call.communicator.rank());
    run({call.component, block, call.global, call.local, call.dtype, call.layout, call.views, call.whole_index, call.communicator, call.context});
  });
}

Scheme with_local_axes(const Scheme& truth, std::function<void(Axes&, int)> change) {
  return wrap(truth, [change](const auto& run, const SchemeCall& call, Phase) {
    Axes local = call.local;
    change(local, call.communicator.rank());
    run({call.component, call.block, call.global, local, call.dtype, call.layout, call.views, call.whole_index, call.communicator, call.context});
  });
}

Scheme with_results(const Scheme& truth, std::function<void(const SchemeCall&)> change, Phase when) {
  return wrap(truth, [change, when](const auto& run, const SchemeCall& call, Phase phase) {
    run(call);
    if (applies(when, phase)) change(call);
  });
}

}  // namespace megatoken::plant
