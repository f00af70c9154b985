// Faults of swiglu: the clamps and their gradients.
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant) {
  return Registered<Fault>{Fault{.component = "swiglu", .name = name, .about = about, .guards = "", .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("gate_clamped_below", "the gate is clamped on both sides", [](const Variant& v) { return with_input(v, "gate", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, std::max(value_at(x, i), -2.0)); }); }),
    fault("up_clamped_above_only", "up has no lower clamp", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        e.edit("y", [&](const TensorView& y) { e.edit("up", [&](const TensorView& up) {
          const double limit = e.axes().real("limit");
          for (int64_t i = 0; i < y.size(); ++i)
            if (value_at(up, i) < -limit) set_value(y, i, value_at(y, i) * value_at(up, i) / -limit);
        }); });
      }, Phase::Forward);
    }),
    fault("no_clamp", "the limit is not applied", [](const Variant& v) { return with_axis(v, "limit", 0); }),
    fault("limit_of_another_model", "limit 7 instead of 10", [](const Variant& v) { return with_axis(v, "limit", 7); }),
    fault("up_plus_one", "y = silu(g)(u + 1), as in another model family", [](const Variant& v) { return with_input(v, "up", [](const TensorView& x) { add(x, 1); }); }),
    fault("gate_and_up_swapped", "the halves of the fused projection are taken in the wrong order", [](const Variant& v) { return with_inputs(v, {"gate", "up"}, [](const Editor& e) { e.edit("gate", [&](const TensorView& g) { e.edit("up", [&](const TensorView& u) { const Tensor old = clone(g); copy(u, g); copy(old, u); }); }); }); }),
    fault("gradient_through_the_clamp", "the gradient ignores that a clamp was active", [](const Variant& v) { return with_axes(v, [](Axes& a) { a.set("limit", 1.3 * a.real("limit")); }); }),
    fault("last_row_missed", "the last token is not computed", [](const Variant& v) { return with_output(v, "y", zero_last_row); }),
};

}  // namespace
}  // namespace megatoken
