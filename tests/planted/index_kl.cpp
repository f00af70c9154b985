// Faults of index_kl: the teacher's denominator, rows at the border, the form of the gradient.
#include <algorithm>

#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "index_kl", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

/// lse over the selected keys only: every head is normalised by itself.
void lse_of_the_selection(const Editor& e) {
  e.edit("lse", [&](const TensorView& lse) {
    e.edit("logit", [&](const TensorView& logit) {
      e.edit("count", [&](const TensorView& count) {
        const int64_t t = e.axes()["t"], h = e.axes()["h"], pool = e.axes()["pool"], keys = e.axes()["topk"] * pool;
        for (int64_t row = 0; row < e.axes()["b"] * t; ++row)
          for (int64_t head = 0; head < h; ++head) {
            double largest = -1e300, sum = 0;
            const int64_t at = (row * h + head) * keys, seen = static_cast<int64_t>(value_at(count, row)) * pool;
            for (int64_t j = 0; j < seen; ++j) largest = std::max(largest, value_at(logit, at + j));
            for (int64_t j = 0; j < seen; ++j) sum += std::exp(value_at(logit, at + j) - largest);
            if (seen > 0) set_value(lse, (row / t * h + head) * t + row % t, largest + std::log(sum));
          }
      });
    });
  });
}

/// The last pool of every row is forgotten.
void one_pool_less(const TensorView& count) {
  for (int64_t i = 0; i < count.size(); ++i) set_value(count, i, std::max(0.0, value_at(count, i) - 1));
}

void all_pools(const Editor& e) {
  e.edit("count", [&](const TensorView& count) { fill(count, static_cast<double>(e.axes()["topk"])); });
}

const Registered<Fault> faults[] = {
    fault("teacher_normalised_by_head", "lse over the selected keys instead of all: heads that look elsewhere count in full", 
          [](const Variant& v) { return with_inputs(v, {"lse"}, lse_of_the_selection); },
          "dsa.md B34: Megatron #5776, #6349, Primus #992"),
    fault("one_head_only", "the target is not summed over heads (a missing all-reduce)", [](const Variant& v) {
      return with_input(v, "logit", [](const TensorView& x) { fill(x.slice(2, 1, x.shape[2]), -1e4); });
    }, "dsa.md §2.4"),
    fault("coefficient_forgotten", "loss and gradient are not scaled by the coefficient", [](const Variant& v) { return with_axis(v, "coefficient", 1); },
          "dsa.md B35: Megatron #4070"),
    fault("upstream_forgotten", "the gradient is not scaled by that of the loss", [](const Variant& v) {
      return with_input(v, "dloss", [](const TensorView& x) { fill(x, 1); }, Phase::Backward);
    }, "dsa.md B35"),
    fault("empty_slots_counted", "slots beyond the selected pools take part", [](const Variant& v) { return with_inputs(v, {"count"}, all_pools); }, "dsa.md B27, B43"),
    fault("short_rows_skipped", "rows with fewer pools than topk contribute nothing", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        e.edit("loss", [&](const TensorView& loss) {
          e.edit("count", [&](const TensorView& count) {
            for (int64_t i = 0; i < loss.size(); ++i)
              if (value_at(count, i) < static_cast<double>(e.axes()["topk"])) set_value(loss, i, 0);
          });
        });
      }, Phase::Forward);
    }, "dsa.md §2.4"),
    fault("last_pool_forgotten", "the last selected pool is left out of both distributions", [](const Variant& v) { return with_input(v, "count", one_pool_less); }),
    fault("sign_of_the_gradient", "target − softmax", [](const Variant& v) { return with_output(v, "dscore", [](const TensorView& x) { scale(x, -1); }); }),
};

}  // namespace
}  // namespace megatoken
