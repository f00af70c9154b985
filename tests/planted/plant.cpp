#include "tests/planted/plant.hpp"

#include "reference/core/device.hpp"

namespace megatoken::plant {
namespace {

bool applies(Phase when, Phase now) { return when == Phase::Both || when == now; }

/// Wraps both phases: body(truth's phase function, call, phase).
template <class F>
Variant wrap(const Variant& truth, F body) {
  Variant wrong = truth;
  wrong.forward = [run = truth.forward, body](const Call& call) { body(run, call, Phase::Forward); };
  if (truth.backward) wrong.backward = [run = truth.backward, body](const Call& call) { body(run, call, Phase::Backward); };
  return wrong;
}

}  // namespace

bool Editor::has(const std::string& field) const { return static_cast<bool>(call_.views[component_.index(field)]); }

void Editor::edit(const std::string& field, const std::function<void(const TensorView&)>& change) const {
  const TensorView& view = call_.views[component_.index(field)];
  MEGATOKEN_CHECK(view, "{} is absent in this case", field);
  if (view.device == Device::Cpu) return change(view);
  synchronize(view.device);
  const Tensor host = to_device(view, Device::Cpu);
  change(host);
  copy(host, view);
}

Variant with_axes(const Variant& truth, std::function<void(Axes&)> change) {
  return wrap(truth, [change](const auto& run, const Call& call, Phase) {
    Axes axes = call.axes;
    change(axes);
    run({axes, call.dtype, call.views, call.context});
  });
}

Variant with_inputs(const Variant& truth, std::vector<std::string> fields, Edit change, Phase when) {
  const Component& component = find_component(truth.component);
  return wrap(truth, [fields, change, when, &component](const auto& run, const Call& call, Phase phase) {
    if (!applies(when, phase)) return run(call);
    std::vector<TensorView> views(call.views.begin(), call.views.end());
    std::vector<Tensor> copies;
    for (const auto& field : fields) {
      TensorView& view = views[component.index(field)];
      if (!view) continue;
      copies.push_back(clone(view));
      view = copies.back().view();
    }
    const Call corrupted{call.axes, call.dtype, views, call.context};
    change(Editor(component, corrupted));
    run(corrupted);
    synchronize(call.views[0].device);  // the copies die here
  });
}

Variant with_outputs(const Variant& truth, Edit change, Phase when) {
  const Component& component = find_component(truth.component);
  return wrap(truth, [change, when, &component](const auto& run, const Call& call, Phase phase) {
    run(call);
    if (applies(when, phase)) change(Editor(component, call));
  });
}

Variant with_forward(const Variant& truth, std::function<void(const Call&)> forward) {
  Variant wrong = truth;
  wrong.forward = std::move(forward);
  return wrong;
}

Variant with_backward(const Variant& truth, std::function<void(const Call&)> backward) {
  Variant wrong = truth;
  wrong.backward = std::move(backward);
  return wrong;
}

}  // namespace megatoken::plant
