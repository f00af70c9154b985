// Faults of embedding: ids, repeats and sums of the gradient.
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant) {
  return Registered<Fault>{Fault{.component = "embedding", .name = name, .about = about, .guards = "", .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("id_off_by_one", "ids start at 1", [](const Variant& v) { return with_input(v, "id", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, std::max(0.0, value_at(x, i) - 1)); }); }),
    fault("repeats_overwrite", "a repeated token overwrites the gradient instead of adding to it", [](const Variant& v) { return with_output(v, "dtable", [](const TensorView& x) { scale(x, 0.4); }); }),
    fault("padding_row_without_gradient", "row 0 is taken for padding", [](const Variant& v) { return with_output(v, "dtable", [](const TensorView& x) { zero(x.slice(0, 0, 1)); }); }),
    fault("last_table_row_missed", "the last row of the table gets no gradient", [](const Variant& v) { return with_output(v, "dtable", [](const TensorView& x) { zero(x.slice(0, x.shape[0] - 1, x.shape[0])); }); }),
    fault("ids_of_the_next_token", "the shift of the labels is applied to the inputs", [](const Variant& v) { return with_input(v, "id", [](const TensorView& x) { shift_by_one(x, 1); }); }),
    fault("scaled_by_the_width", "rows are multiplied by √c, as in another model family", [](const Variant& v) { return with_output(v, "y", [](const TensorView& x) { scale(x, std::sqrt(static_cast<double>(x.shape[2]))); }); }),
    fault("last_token_missed", "the last token is not looked up", [](const Variant& v) { return with_output(v, "y", zero_last_row); }),
};

}  // namespace
}  // namespace megatoken
