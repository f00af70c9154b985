// Faults of short_conv: documents, history, taps, and the sums of its gradients.
#include "tests/planted/plant.hpp"

namespace megatoken {
namespace {

using plant::Editor;

void reverse_taps(const TensorView& w) {
  const int64_t c = w.shape[0], width = w.shape[1];
  for (int64_t i = 0; i < c; ++i)
    for (int64_t j = 0; j < width / 2; ++j) {
      const double swap = value_at(w, i * width + j);
      set_value(w, i * width + j, value_at(w, i * width + width - 1 - j));
      set_value(w, i * width + width - 1 - j, swap);
    }
}

/// Row i becomes row i − 1 of the same sequence; row 0 becomes 0.
void delay_by_one_row(const TensorView& x) {
  const Tensor before = clone(x);
  const int64_t t = x.shape[1];
  fill(x.slice(1, 0, 1), 0);
  copy(before->slice(1, 0, t - 1), x.slice(1, 1, t));
}

void zero(const TensorView& view) { fill(view, 0); }
void zero_rows_of_the_last_partial_tile(const TensorView& view) { fill(view.slice(1, view.shape[1] / 64 * 64, view.shape[1]), 0); }

const Registered<Fault> kReversedTaps{Fault{
    .component = "short_conv", .name = "reversed_taps", .about = "w_0 multiplies the token itself: a convolution where the model has a correlation",
    .guards = "glm53_flash.md §2.3 step 2",
    .plant = [](const Variant& truth) { return plant::with_inputs(truth, {"w"}, [](const Editor& e) { e.edit("w", reverse_taps); }); }}};

const Registered<Fault> kDocumentLeak{Fault{
    .component = "short_conv", .name = "document_leak", .about = "taps read the last tokens of the document before",
    .guards = "torchtitan #4313, #4164",
    .plant = [](const Variant& truth) { return plant::with_inputs(truth, {"document"}, [](const Editor& e) { e.edit("document", zero); }); }}};

const Registered<Fault> kHistoryIgnored{Fault{
    .component = "short_conv", .name = "history_ignored", .about = "every shard starts from zeros",
    .guards = "vllm #51039, #52909: chunked prefill differs from one shot",
    .plant = [](const Variant& truth) { return plant::with_inputs(truth, {"history"}, [](const Editor& e) { e.edit("history", zero); }); }}};

const Registered<Fault> kStrictlyCausal{Fault{
    .component = "short_conv", .name = "strictly_causal", .about = "the token itself is not seen: taps reach one row too far back",
    .plant = [](const Variant& truth) { return plant::with_inputs(truth, {"x"}, [](const Editor& e) { e.edit("x", delay_by_one_row); }); }}};

const Registered<Fault> kStaleFinalHistory{Fault{
    .component = "short_conv", .name = "stale_final_history", .about = "the carried rows end one token early",
    .guards = "sglang #31474: a restored state is not the one that was left",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) { e.edit("final_history", delay_by_one_row); }, Phase::Forward);
    }}};

const Registered<Fault> kHistoryGradientLost{Fault{
    .component = "short_conv", .name = "history_gradient_lost", .about = "nothing flows back to the neighbour that sent the halo",
    .guards = "flash-linear-attention #1140",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) { e.edit("dhistory", zero); }, Phase::Backward);
    }}};

const Registered<Fault> kHaloGradientNotAdded{Fault{
    .component = "short_conv", .name = "halo_gradient_not_added", .about = "the gradient that comes back for the carried rows is not added to dx",
    .guards = "kda.md §3.4",
    .plant = [](const Variant& truth) {
      return plant::with_inputs(truth, {"dfinal_history"}, [](const Editor& e) { e.edit("dfinal_history", zero); }, Phase::Backward);
    }}};

const Registered<Fault> kWeightGradientPerRow{Fault{
    .component = "short_conv", .name = "weight_gradient_times_batch", .about = "dw is added once per batch row of the launch instead of once",
    .guards = "flash-linear-attention #955",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) {
        e.edit("dw", [&](const TensorView& dw) {
          for (int64_t i = 0; i < dw.size(); ++i) set_value(dw, i, static_cast<double>(e.axes()["b"]) * value_at(dw, i));
        });
      }, Phase::Backward);
    }}};

const Registered<Fault> kLastTileSkipped{Fault{
    .component = "short_conv", .name = "last_partial_tile_skipped", .about = "rows past the last full tile of 64 are never written",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) {
        for (const char* name : {"y", "dx"}) e.edit(name, zero_rows_of_the_last_partial_tile);
      });
    }}};

}  // namespace
}  // namespace megatoken
