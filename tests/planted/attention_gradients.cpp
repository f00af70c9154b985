// Faults of attention's backward: Δ, the sum over a group of heads, scale, and statistics of another step.
#include "reference/core/device.hpp"
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using plant::Editor;
using namespace plant;

const Registered<Fault> kDeltaWithoutLse{Fault{
    .component = "attention", .name = "delta_without_dlse", .about = "the gradient that comes in through log-sum-exp is dropped", .guards = "parallel.md §2.1",
    .plant = [](const Variant& truth) { return with_input(truth, "dlse", zero, Phase::Backward); }}};

const Registered<Fault> kDeltaMissing{Fault{
    .component = "attention", .name = "delta_missing", .about = "dS = P ∘ dP: the softmax is differentiated as if its sum were fixed",
    .plant = [](const Variant& truth) {
      return with_inputs(truth, {"o", "dlse"}, [](const Editor& e) {
        for (const char* field : {"o", "dlse"}) e.edit(field, zero);
      }, Phase::Backward);
    }}};

const Registered<Fault> kDeltaOfAnotherRow{Fault{
    .component = "attention", .name = "delta_of_the_row_before", .about = "Δ is taken from o of the row before",
    .plant = [](const Variant& truth) { return with_input(truth, "o", [](const TensorView& o) { shift_by_one(o, 1); }, Phase::Backward); }}};

const Registered<Fault> kDeltaFromRoundedO{Fault{
    .component = "attention", .name = "delta_from_o_in_bf16", .about = "Δ is taken from an o that was rounded to bf16 on the way", .guards = "parallel.md A2: ring-flash-attention #42",
    .plant = [](const Variant& truth) {
      return with_input(truth, "o", [](const TensorView& o) { copy(convert(o, DType::BF16), o); }, Phase::Backward);
    }}};

/// Keeps what the last query head of every group contributes.
void keep_last_of_group(const Editor& e, const char* field, int head_axis) {
  const int64_t h = e.axes()["h"], group = h / e.axes()["hk"];
  e.edit(field, [&](const TensorView& upstream) {
    for (int64_t head = 0; head < h; ++head)
      if (head % group != group - 1) fill(upstream.slice(head_axis, head, head + 1), 0);
  });
}

/// One gradient from a second run in which only the last head of each group has an upstream gradient.
Variant with_gradient_of_last_head(const Variant& truth, const std::string& gradient) {
  const Variant partial = with_inputs(truth, {"do", "dlse"}, [](const Editor& e) {
    keep_last_of_group(e, "do", 2);
    keep_last_of_group(e, "dlse", 1);
  }, Phase::Backward);
  return with_backward(truth, [run = truth.backward, part = partial.backward, gradient](const Call& call) {
    const Component& component = find_component("attention");
    run(call);
    std::vector<TensorView> views(call.views.begin(), call.views.end());
    std::vector<Tensor> unused;
    for (size_t i = 0; i < views.size(); ++i)
      if (component.fields[i].role == Role::InputGrad && component.fields[i].name != gradient) unused.push_back(clone(views[i])), views[i] = unused.back().view();
    part({call.axes, call.dtype, views, call.context});
    synchronize(call.views[0].device);
  });
}

const Registered<Fault> kGroupNotSummedK{Fault{
    .component = "attention", .name = "dk_not_summed_over_group", .about = "the last query head of a group overwrites dk instead of adding to it", .guards = "parallel.md §2.1",
    .plant = [](const Variant& truth) { return with_gradient_of_last_head(truth, "dk"); }}};

const Registered<Fault> kGroupNotSummedV{Fault{
    .component = "attention", .name = "dv_not_summed_over_group", .about = "the last query head of a group overwrites dv instead of adding to it", .guards = "parallel.md §2.1",
    .plant = [](const Variant& truth) { return with_gradient_of_last_head(truth, "dv"); }}};

const Registered<Fault> kGroupAveraged{Fault{
    .component = "attention", .name = "group_averaged", .about = "dk and dv are the mean over the group instead of the sum", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) {
      return with_outputs(truth, [](const Editor& e) {
        const double mean = static_cast<double>(e.axes()["hk"]) / static_cast<double>(e.axes()["h"]);
        for (const char* field : {"dk", "dv"}) e.edit(field, [&](const TensorView& gradient) { scale(gradient, mean); });
      }, Phase::Backward);
    }}};

const Registered<Fault> kScaleMissing{Fault{
    .component = "attention", .name = "dq_without_scale", .about = "the factor on the scores is forgotten in dq",
    .plant = [](const Variant& truth) {
      return with_outputs(truth, [](const Editor& e) {
        const double given = e.axes().real("scale"), factor = given != 0 ? given : 1 / std::sqrt(static_cast<double>(e.axes()["d"]));
        e.edit("dq", [&](const TensorView& dq) { scale(dq, 1 / factor); });
      }, Phase::Backward);
    }}};

const Registered<Fault> kCausalForgotten{Fault{
    .component = "attention", .name = "causal_forgotten_in_backward", .about = "forward masks the future, backward does not",
    .plant = [](const Variant& truth) {
      const Variant open = with_axis(truth, "causal", 0);
      return with_backward(truth, open.backward);
    }}};

}  // namespace
}  // namespace megatoken
