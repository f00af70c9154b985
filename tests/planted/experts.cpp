// Faults of experts: dispatch, halves, the shared expert, weights.
#include <algorithm>

#include "reference/core/device.hpp"
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "experts", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

/// Forward in two parts: the routed experts as they should be, the shared one without its clamp.
void shared_without_clamp(const std::function<void(const Call&)>& run, const Call& call) {
  const Component& component = find_component("experts");
  const auto part = [&](const char* silenced, const Axes& axes) {
    std::vector<TensorView> views(call.views.begin(), call.views.end());
    const Tensor y = clone(call.views[component.index("y")]), zeros = Tensor::zeros(call.views[component.index(silenced)].dtype, call.views[component.index(silenced)].shape, call.views[0].device);
    views[component.index("y")] = y, views[component.index(silenced)] = zeros;
    run({axes, call.dtype, views, call.context});
    synchronize(call.views[0].device);
    return to_device(y, Device::Cpu);
  };
  Axes unclamped = call.axes;
  unclamped.set("limit", 0);
  const Tensor routed = part("shared_down", call.axes), shared = part("down", unclamped);
  for (int64_t i = 0; i < routed->size(); ++i) set_value(routed, i, value_at(routed, i) + value_at(shared, i));
  copy(routed, call.views[component.index("y")]);
}

const Registered<Fault> kSharedWithoutClamp{Fault{
    .component = "experts", .name = "shared_expert_not_clamped", .about = "the limit is applied in the routed experts only", .guards = "glm53_flash.md §5 row 9: mlx-vlm 2030",
    .plant = [](const Variant& v) { return with_forward(v, [run = v.forward](const Call& call) { shared_without_clamp(run, call); }); },
    .axes = "b=2 t=40 c=20 e=6 k=2 f=12 limit=0.5"}};

const Registered<Fault> faults[] = {
    fault("gate_and_up_swapped", "the halves of the fused projection are taken in the wrong order", [](const Variant& v) { return with_input(v, "gate_up", [](const TensorView& x) { const Tensor old = clone(x); copy(old->slice(1, 1, 2), x.slice(1, 0, 1)); copy(old->slice(1, 0, 1), x.slice(1, 1, 2)); }); }),
    fault("shared_expert_weighted", "the shared expert gets a routing weight", [](const Variant& v) { return with_input(v, "shared_down", [](const TensorView& x) { scale(x, 0.5); }, Phase::Forward); }),
    fault("shared_expert_missing", "only routed experts are added", [](const Variant& v) { return with_input(v, "shared_down", zero, Phase::Forward); }),
    fault("weights_ignored", "expert outputs are added without their weights", [](const Variant& v) { return with_input(v, "weight", [](const TensorView& x) { fill(x, 1); }); }),
    fault("second_slot_dropped", "capacity drops every second slot", [](const Variant& v) { return with_input(v, "id", [](const TensorView& x) { fill(x.slice(2, 1, 2), -1); }); }),
    fault("last_expert_missed", "tokens of the last expert are not computed", [](const Variant& v) { return with_input(v, "id", [](const TensorView& x) { double last = 0; for (int64_t i = 0; i < x.size(); ++i) last = std::max(last, value_at(x, i)); for (int64_t i = 0; i < x.size(); ++i) if (value_at(x, i) == last) set_value(x, i, -1); }); }),
    fault("empty_slot_uses_expert_zero", "id −1 is read as expert 0", [](const Variant& v) { return with_input(v, "id", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, std::max(0.0, value_at(x, i))); }); }, "Megatron #1877"),
    fault("no_clamp", "the gated unit is not clamped", [](const Variant& v) { return with_axis(v, "limit", 0.8); }),
    fault("ddown_without_weights", "the gradient of down lacks the routing weight", [](const Variant& v) { return with_input(v, "weight", [](const TensorView& x) { fill(x, 1); }, Phase::Backward); }),
    fault("dweight_missing", "no gradient reaches the router", [](const Variant& v) { return with_output(v, "dweight", zero); }, "Automodel #1408"),
};

}  // namespace
}  // namespace megatoken
