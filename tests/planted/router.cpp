// Faults of router: what selects, what weighs, ties, the normalisation.
#include <algorithm>

#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "router", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("weights_from_biased_scores", "the bias enters the weights", [](const Variant& v) { return with_outputs(v, [](const Editor& e) { e.edit("weight", [&](const TensorView& w) { e.edit("id", [&](const TensorView& id) { e.edit("bias", [&](const TensorView& b) { for (int64_t i = 0; i < w.size(); ++i) set_value(w, i, value_at(w, i) + value_at(b, static_cast<int64_t>(value_at(id, i)))); }); }); }); }, Phase::Forward); }, "glm53_flash.md §2.8"),
    fault("selection_by_unbiased_score", "the bias does not enter the choice", [](const Variant& v) { return with_input(v, "bias", zero, Phase::Forward); }, "glm53_flash.md §2.8"),
    fault("ties_by_the_higher_id", "of equal scores the higher id wins", [](const Variant& v) { return with_input(v, "bias", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, value_at(x, i) + 1e-6 * static_cast<double>(i)); }, Phase::Forward); }, "total order: score, then lower id"),
    fault("factor_forgotten", "weights sum to 1, not to 2.5", [](const Variant& v) { return with_axis(v, "factor", 1); }),
    fault("not_normalised", "scores are not divided by their sum", [](const Variant& v) { return with_output(v, "weight", [](const TensorView& x) { scale(x, 1.7); }); }),
    fault("best_expert_missed", "ids are off by one", [](const Variant& v) { return with_output(v, "id", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, std::max(0.0, value_at(x, i) - 1)); }); }),
    fault("gradient_ignores_the_sum", "dl lacks the term of the normalisation", [](const Variant& v) { return with_output(v, "dx", [](const TensorView& x) { scale(x, 1.2); }); }),
    fault("dw_of_the_best_slot_only", "only the first slot sends a gradient to the router", [](const Variant& v) { return with_input(v, "dweight", [](const TensorView& x) { fill(x.slice(2, 1, x.shape[2]), 0); }, Phase::Backward); }, "Megatron #1877, Automodel #1408"),
};

}  // namespace
}  // namespace megatoken
