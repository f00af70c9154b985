// Faults of pool_keys: the norm, the softmax over slots, the grid of pools, and the sums of the parameters' gradients.
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "pool_keys", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

/// Slot s of [pool, d] becomes slot pool − 1 − s.
void reverse_slots(const TensorView& ape) {
  const Tensor before = clone(ape);
  for (int64_t s = 0; s < ape.shape[0]; ++s) copy(before->slice(0, ape.shape[0] - 1 - s, ape.shape[0] - s), ape.slice(0, s, s + 1));
}

/// Rows as two ranks hold them under zig-zag: the first and the last quarter, then the second and the third.
void rows_in_rank_order(const TensorView& x) {
  const Tensor natural = clone(x);
  const int64_t t = x.shape[1], quarter = t / 4;
  int64_t to = 0;
  for (const int64_t part : {0, 3, 1, 2}) {
    const int64_t begin = part * quarter, end = part == 3 ? t : begin + quarter;
    copy(natural->slice(1, begin, end), x.slice(1, to, to + end - begin));
    to += end - begin;
  }
}

const Registered<Fault> faults[] = {
    fault("pools_by_absolute_position", "the grid does not start anew at a document: pools span two", [](const Variant& v) { return with_input(v, "document", zero); },
          "glm53_flash.md §5 trap 14, 40"),
    fault("rms_norm_eps", "eps 1e-5 of the RMS norms instead of 1e-6", [](const Variant& v) { return with_axis(v, "eps", 1e-5); }, "glm53_flash.md §1.1"),
    fault("bias_left_out", "the norm's bias is not added", [](const Variant& v) { return with_input(v, "bias", zero); }),
    fault("position_bias_left_out", "the softmax over slots lacks ape", [](const Variant& v) { return with_input(v, "ape", zero); }, "glm53_flash.md §2.5 step 4"),
    fault("slots_counted_backwards", "ape of slot 3 goes to the pool's first token", [](const Variant& v) { return with_input(v, "ape", reverse_slots); }),
    fault("gates_in_rank_order", "gates gathered from zig-zag shards are not put back into token order; keys are", [](const Variant& v) { return with_input(v, "gate", rows_in_rank_order); },
          "glm53_flash.md §5 row 15"),
    fault("mean_of_the_pool", "plain mean: the gate is ignored", [](const Variant& v) { return with_input(v, "gate", zero); }),
    fault("last_pool_skipped", "the pools past the last whole tile are not written", [](const Variant& v) {
      return with_output(v, "y", [](const TensorView& y) { fill(y.slice(1, y.shape[1] / 16 * 16, y.shape[1]), 0); });
    }),
    fault("gate_gradient_of_the_token_before", "dgate is written one row too far down", [](const Variant& v) {
      return with_output(v, "dgate", [](const TensorView& x) { shift_by_one(x, 1); });
    }),
    fault("position_bias_gradient_of_one_batch_row", "dape sums the first batch row only", [](const Variant& v) {
      return with_input(v, "dy", [](const TensorView& x) { fill(x.slice(0, 1, x.shape[0]), 0); }, Phase::Backward);
    }),
    fault("upstream_ignored", "gradients are formed with an upstream of 1", [](const Variant& v) {
      return with_input(v, "dy", [](const TensorView& x) { fill(x, 1); }, Phase::Backward);
    }),
};

}  // namespace
}  // namespace megatoken
