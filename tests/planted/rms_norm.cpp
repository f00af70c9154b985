// Faults of rms_norm: where eps stands, the terms of dx, rows that are missed.
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant) {
  return Registered<Fault>{Fault{.component = "rms_norm", .name = name, .about = about, .guards = "", .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("eps_on_the_sum", "eps is added to the sum of squares: its share is c times smaller", [](const Variant& v) { return with_axes(v, [](Axes& a) { a.set("eps", a.real("eps") / static_cast<double>(a["c"])); }); }),
    fault("eps_of_another_norm", "eps 1e-6 of the index keys used here", [](const Variant& v) { return with_axis(v, "eps", 1e-6); }),
    fault("weight_left_out_of_dx", "dx is formed from dy instead of w dy", [](const Variant& v) { return with_input(v, "w", [](const TensorView& x) { fill(x, 1); }, Phase::Backward); }),
    fault("weight_offset_by_one", "y = (1 + w) x̂, as in other model families", [](const Variant& v) { return with_input(v, "w", [](const TensorView& x) { add(x, 1); }); }),
    fault("last_row_missed", "the row past the last whole tile is not computed", [](const Variant& v) { return with_output(v, "y", zero_last_row); }),
    fault("dw_of_one_batch_row", "dw sums only the first batch row", [](const Variant& v) { return with_output(v, "dw", [](const TensorView& x) { scale(x, 0.5); }); }),
    fault("dx_not_projected", "dx lacks the term that removes its part along x", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        e.edit("dx", [&](const TensorView& dx) { e.edit("x", [&](const TensorView& x) { e.edit("w", [&](const TensorView& w) { e.edit("dy", [&](const TensorView& dy) {
          const int64_t c = x.shape[2];
          for (int64_t i = 0; i < dx.size(); ++i) {
            double mean = 0;
            for (int64_t j = i / c * c; j < i / c * c + c; ++j) mean += value_at(x, j) * value_at(x, j) / static_cast<double>(c);
            set_value(dx, i, value_at(w, i % c) * value_at(dy, i) / std::sqrt(mean + 1e-5));
          }
        }); }); }); });
      }, Phase::Backward);
    }),
};

}  // namespace
}  // namespace megatoken
