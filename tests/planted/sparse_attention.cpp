// Faults of sparse_attention: the scale, empty slots, ids, log-sum-exp, and the scattered gradient of the keys.
#include <algorithm>

#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "sparse_attention", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

/// change(slots of one query, number of slots) on every row of the ids.
std::function<void(const TensorView&)> each_row(std::function<void(int32_t*, int64_t)> change) {
  return [change](const TensorView& id) {
    const int64_t n = id.shape[2];
    for (int64_t row = 0; row < id.size() / std::max<int64_t>(n, 1); ++row) change(id.as<int32_t>() + row * n, n);
  };
}

/// Pairs of channels of x[b, token, head, d] are turned by the token's number; d is even.
void rotate(const TensorView& x) {
  const int64_t d = x.shape[3], per_token = x.shape[2] * d;
  for (int64_t i = 0; i + 1 < x.size(); i += 2) {
    const double angle = static_cast<double>(i / per_token % x.shape[1]) * std::pow(10000.0, -static_cast<double>(i % d) / static_cast<double>(d));
    const double a = value_at(x, i), b = value_at(x, i + 1);
    set_value(x, i, a * std::cos(angle) - b * std::sin(angle)), set_value(x, i + 1, a * std::sin(angle) + b * std::cos(angle));
  }
}

const Registered<Fault> faults[] = {
    fault("scale_of_the_latent", "1/√(latent width) instead of the scale of the head before absorption", [](const Variant& v) { return with_axis(v, "scale", 0); },
          "glm53_flash.md §5 trap 10"),
    fault("empty_slots_read_row_0", "−1 is taken as key 0", [](const Variant& v) {
      return with_input(v, "id", each_row([](int32_t* id, int64_t n) { for (int64_t j = 0; j < n; ++j) id[j] = std::max(id[j], 0); }));
    }, "dsa.md B25, B36: tilelang #1209, miles #2079, Megatron #6166"),
    fault("ids_end_at_the_first_empty_slot", "slots behind a −1 are ignored", [](const Variant& v) {
      return with_input(v, "id", each_row([](int32_t* id, int64_t n) { std::fill(std::find(id, id + n, -1), id + n, -1); }));
    }, "dsa.md B26: vllm #48364"),
    fault("slots_past_the_last_tile", "slots past the last whole tile of 64 are skipped", [](const Variant& v) {
      return with_input(v, "id", each_row([](int32_t* id, int64_t n) { std::fill(id + n / 64 * 64, id + n, -1); }));
    }, "glm53_flash.md §5 trap 12"),
    fault("ids_of_the_query_before", "two queries share a tile and its ids", [](const Variant& v) {
      return with_input(v, "id", [](const TensorView& x) { shift_by_one(x, 1); });
    }, "dsa.md B29: cudnn-frontend #384, #385, #388"),
    fault("lse_in_base_2", "the log-sum-exp is a base 2 logarithm", [](const Variant& v) { return with_output(v, "lse", [](const TensorView& x) { scale(x, 1 / std::log(2.0)); }); },
          "dsa.md B40"),
    fault("rotated_by_position", "queries and keys get rotary positions, for which the config still has fields", [](const Variant& v) {
      return with_inputs(v, {"q", "k"}, [](const Editor& e) { e.edit("q", rotate), e.edit("k", rotate); });
    }, "glm53_flash.md §5 row 11"),
    fault("upstream_of_o_lost", "backward sees dlse only", [](const Variant& v) { return with_input(v, "do", zero, Phase::Backward); }),
    fault("key_gradient_counted_twice", "every addition to dk is repeated", [](const Variant& v) { return with_output(v, "dk", [](const TensorView& x) { scale(x, 2); }); },
          "dsa.md B32: tilelang #2651"),
    fault("lse_gradient_ignored", "dlse does not enter Δ", [](const Variant& v) { return with_input(v, "dlse", zero, Phase::Backward); }),
    fault("empty_rows_are_nan", "rows without keys divide 0 by 0", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        e.edit("o", [&](const TensorView& o) {
          e.edit("id", [&](const TensorView& id) {
            const int64_t n = id.shape[2], width = o.size() / std::max<int64_t>(1, id.size() / n);
            for (int64_t row = 0; row < id.size() / n; ++row) {
              const auto* slots = id.as<int32_t>() + row * n;
              if (std::all_of(slots, slots + n, [](int32_t x) { return x < 0; }))
                for (int64_t c = 0; c < width; ++c) set_value(o, row * width + c, std::nan(""));
            }
          });
        });
      }, Phase::Forward);
    }, "dsa.md B25, B30: cudnn-frontend #785"),
};

}  // namespace
}  // namespace megatoken
