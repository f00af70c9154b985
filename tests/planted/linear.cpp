// Faults of linear: transposes, tails of sums, the bias.
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "linear", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("last_input_column_dropped", "the tail of the inner sum is cut off", [](const Variant& v) { return with_input(v, "x", [](const TensorView& x) { zero(x.slice(2, x.shape[2] - 1, x.shape[2])); }); }),
    fault("last_output_column_missed", "the last output column is not computed", [](const Variant& v) { return with_output(v, "y", [](const TensorView& x) { zero(x.slice(2, x.shape[2] - 1, x.shape[2])); }); }),
    fault("operands_in_tf32", "operands lose 13 bits on the way into the product; an indexer's projection then selects other pools", [](const Variant& v) {
      return with_inputs(v, {"x", "w"}, [](const Editor& e) { for (const char* name : {"x", "w"}) e.edit(name, [](const TensorView& x) { round_to_bits(x, 10); }); });
    }, "glm53_flash.md §5 row 22: llama.cpp 116; dsa.md B24"),
    fault("bias_forgotten", "the bias is not added", [](const Variant& v) { return with_input(v, "bias", zero); }),
    fault("bias_added_twice", "the bias is added once by each of two partial sums", [](const Variant& v) { return with_input(v, "bias", [](const TensorView& x) { scale(x, 2); }); }),
    fault("dbias_averaged", "dbias is a mean over rows", [](const Variant& v) { return with_output(v, "dbias", [](const TensorView& x) { scale(x, 1.0 / 192); }); }),
    fault("dw_of_one_batch_row", "dw sums only the first batch row", [](const Variant& v) { return with_input(v, "dy", [](const TensorView& x) { zero(x.slice(0, 1, x.shape[0])); }, Phase::Backward); }),
    fault("weights_off_by_one_row", "output features are off by one", [](const Variant& v) { return with_input(v, "w", [](const TensorView& x) { shift_by_one(x, 0); }); }),
};

}  // namespace
}  // namespace megatoken
