// Faults of linear_cross_entropy: ignored labels, upstream, the shift, sums.
#include <algorithm>

#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "linear_cross_entropy", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("ignored_labels_counted", "−100 is clamped to word 0", [](const Variant& v) { return with_input(v, "label", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, std::max(0.0, value_at(x, i))); }); }),
    fault("upstream_ignored", "the gradient formed in forward is not scaled by the upstream gradient", [](const Variant& v) { return with_input(v, "dloss", [](const TensorView& x) { fill(x, 1); }, Phase::Backward); }, "DeepSpeed TiledFusedLogitsLoss, parallel.md F10"),
    fault("dw_not_scaled", "dx is scaled by upstream, dw is not", [](const Variant& v) { return with_output(v, "dw", [](const TensorView& x) { scale(x, -2); }); }, "parallel.md F10"),
    fault("per_token_weights_ignored", "dlogprob does not reach the logits", [](const Variant& v) { return with_input(v, "dlogprob", zero, Phase::Backward); }, "Liger #968"),
    fault("labels_off_by_one", "labels are shifted twice", [](const Variant& v) { return with_input(v, "label", [](const TensorView& x) { shift_by_one(x, 1); }); }, "transformers #36607"),
    fault("mean_instead_of_sum", "the loss is divided by the number of tokens", [](const Variant& v) { return with_output(v, "loss", [](const TensorView& x) { scale(x, 1.0 / 80); }); }, "parallel.md §2.10"),
    fault("last_word_missed", "the last column of the vocabulary is not in the sum", [](const Variant& v) { return with_input(v, "bias", [](const TensorView& x) { set_value(x, x.size() - 1, -1e4); }); }, "ml-cross-entropy #14: vocabulary not a multiple of the tile"),
    fault("upstream_applied_twice", "an in-place scale runs twice", [](const Variant& v) { return with_input(v, "dloss", [](const TensorView& x) { scale(x, value_at(x, 0)); }, Phase::Backward); }, "quack #209"),
    fault("bf16_dw", "dw is accumulated in bf16", [](const Variant& v) { return with_output(v, "dw", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, static_cast<double>(BFloat16(value_at(x, i)))); }); }, "Liger #507, #1296"),
};

}  // namespace
}  // namespace megatoken
