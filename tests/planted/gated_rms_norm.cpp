// Faults of gated_rms_norm: the gate, the shared weight, eps, heads.
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "gated_rms_norm", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("eps_on_the_sum", "eps is added to the sum of squares: its share is d times smaller", [](const Variant& v) { return with_axes(v, [](Axes& a) { a.set("eps", a.real("eps") / static_cast<double>(a["d"])); }); }),
    fault("gate_negated", "1 − σ(g) instead of σ(g)", [](const Variant& v) { return with_input(v, "gate", [](const TensorView& x) { scale(x, -1); }); }),
    fault("gate_is_silu", "g σ(g) instead of σ(g)", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        e.edit("y", [&](const TensorView& y) { e.edit("gate", [&](const TensorView& g) { for (int64_t i = 0; i < y.size(); ++i) set_value(y, i, value_at(y, i) * value_at(g, i)); }); });
      }, Phase::Forward);
    }, "glm53_flash.md §5 row 21: fak 10788"),
    fault("gate_of_the_next_token", "gate rows are off by one token", [](const Variant& v) { return with_input(v, "gate", [](const TensorView& x) { shift_by_one(x, 1); }); }),
    fault("gate_of_the_next_head", "gate heads are off by one", [](const Variant& v) { return with_input(v, "gate", [](const TensorView& x) { shift_by_one(x, 2); }); }),
    fault("dw_of_one_head", "dw is not summed over all heads", [](const Variant& v) { return with_output(v, "dw", [](const TensorView& x) { scale(x, 1.0 / 3); }); }),
    fault("dgate_without_slope", "dgate lacks the factor 1 − σ", [](const Variant& v) { return with_output(v, "dgate", [](const TensorView& x) { scale(x, 2); }); }),
    fault("last_row_missed", "the last token is not computed", [](const Variant& v) { return with_output(v, "y", zero_last_row); }),
};

}  // namespace
}  // namespace megatoken
