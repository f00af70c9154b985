// Faults of components under the gather scheme: what is lost, doubled or put in the wrong order when a sequence is spread over ranks. The
// scheme computes the whole on every rank, so each fault is the block variant of a wrong scheme.
#include <algorithm>

#include "tests/planted/edits.hpp"
#include "tests/planted/wire.hpp"

namespace megatoken {
namespace {

using plant::Editor, plant::Edit;

Registered<Fault> fault(const char* component, const char* name, const char* about, const char* guards, std::function<Scheme(const Scheme&)> plant_scheme) {
  return Registered<Fault>{Fault{.component = component, .name = name, .about = about, .guards = guards, .scheme = "gather", .plant_scheme = std::move(plant_scheme)}};
}

/// Replicated gradients times a factor on every rank.
Scheme with_scaled(const Scheme& truth, std::vector<std::string> gradients, std::function<double(int ranks)> factor) {
  return plant::with_results(truth, [gradients, factor](const SchemeCall& call) {
    for (const auto& name : gradients) plant::scale(call.views[call.component.index(name)], factor(call.communicator.size()));
  }, Phase::Backward);
}

/// Every rank sums a parameter's gradient over its own quarter of the tokens only.
Scheme without_reduction(const Scheme& truth, const std::string& upstream) {
  return plant::with_block(truth, [upstream](const Variant& block, int rank) {
    const Component& component = find_component(block.component);
    // Only the parameter gradients may be wrong: the others are computed by a right call first.
    Variant wrong = block;
    wrong.backward = [right = block.backward, upstream, rank, &component](const Call& call) {
      right(call);
      std::vector<TensorView> views(call.views.begin(), call.views.end());
      std::vector<Tensor> own;
      for (size_t i = 0; i < views.size(); ++i) {
        const Field& field = component.fields[i];
        if (!views[i] || (field.role == Role::InputGrad && token_axis(component, field) < 0) || (field.role != Role::InputGrad && field.name != upstream)) continue;
        own.push_back(clone(views[i]));
        views[i] = own.back();
      }
      const TensorView& grad = views[component.index(upstream)];
      const int64_t quarter = grad.shape[1] / 4;
      for (int64_t part = 0; part < 4; ++part)
        if (part != rank) plant::zero(grad.slice(1, part * quarter, part == 3 ? grad.shape[1] : (part + 1) * quarter));
      right({call.axes, call.dtype, views, call.context});
    };
    return wrong;
  });
}

/// Rows of all tensors with tokens in the order of zig-zag shards: 0 and 7 of eight parts, then 1 and 6, …
std::vector<int64_t> zigzag_order(int64_t t) {
  std::vector<int64_t> order;
  for (int64_t rank = 0; rank < 4; ++rank)
    for (const int64_t part : {rank, 7 - rank})
      for (int64_t i = part * t / 8; i < (part + 1) * t / 8; ++i) order.push_back(i);
  return order;
}

void reorder(const TensorView& x, bool back) {
  const auto order = zigzag_order(x.shape[1]);
  if (back) {
    const Tensor rows = clone(x);
    scatter_rows(rows, x, 1, order);
  } else {
    copy(gather_rows(x, 1, order), x);
  }
}

/// The whole runs on rows in zig-zag order, and its results are put back.
Scheme in_zigzag_order(const Scheme& truth, std::vector<std::string> inputs, std::vector<std::string> results) {
  return plant::with_block(truth, [inputs, results](const Variant& block, int) {
    const Variant reordered = plant::with_inputs(block, inputs, [inputs](const Editor& e) { for (const auto& name : inputs) e.edit(name, [](const TensorView& x) { reorder(x, false); }); });
    return plant::with_outputs(reordered, [results](const Editor& e) { for (const auto& name : results) e.edit(name, [](const TensorView& x) { reorder(x, true); }); }, Phase::Forward);
  });
}

/// Every shard of a quarter of the tokens becomes a document of its own: nothing is carried over a cut.
void cut_at_shards(const TensorView& document) {
  const int64_t t = document.shape[1];
  for (int64_t i = 0; i < document.size(); ++i)
    if (const double id = value_at(document, i); id >= 0) set_value(document, i, 4 * id + static_cast<double>(std::min<int64_t>(3, i % t / std::max<int64_t>(1, t / 4))));
}

Scheme restarting(const Scheme& truth) {
  return plant::with_block(truth, [](const Variant& block, int) { return plant::with_input(block, "document", cut_at_shards); });
}

const Registered<Fault> faults[] = {
    fault("gated_rms_norm", "weight_gradient_of_one_rank", "dw is not summed over the ranks that share the tokens", "glm53_flash.md §5 row 26: SkyRL PR 2226",
          [](const Scheme& s) { return without_reduction(s, "dy"); }),
    fault("linear", "weight_gradient_reduced_twice", "dw goes through two reductions", "glm53_flash.md §5 row 27: Megatron's beta projection",
          [](const Scheme& s) { return with_scaled(s, {"dw", "dbias"}, [](int ranks) { return ranks; }); }),
    fault("index_kl", "loss_scaled_by_ranks", "the gradient is divided by the number of ranks", "dsa.md B35: Megatron #4070, #3674",
          [](const Scheme& s) { return with_scaled(s, {"dscore"}, [](int ranks) { return 1.0 / ranks; }); }),
    fault("kda", "state_restarts_on_every_rank", "each shard starts from a zero state", "kda.md §7 row 29: accelerate #4177, right loss and wrong gradients", restarting),
    fault("kda", "tokens_in_zigzag_order", "the recurrence runs over rows as a load-balanced layout holds them", "glm53_flash.md §5 row 41",
          [](const Scheme& s) { return in_zigzag_order(s, {"q", "k", "v", "g", "beta", "document"}, {"o"}); }),
    fault("kda", "zigzag_undone_on_plain_shards", "rows that were never reordered are put back", "kda.md §7 row 30: Megatron #5664",
          [](const Scheme& s) { return in_zigzag_order(s, {}, {"o"}); }),
    fault("short_conv", "halo_not_exchanged", "each shard starts from zeros", "kda.md §7 row 12: flash-linear-attention #774, #1140", restarting),
    fault("short_conv", "tokens_in_zigzag_order", "taps reach back over rows as a load-balanced layout holds them", "glm53_flash.md §5 row 41",
          [](const Scheme& s) { return in_zigzag_order(s, {"x", "document"}, {"y"}); }),
};

}  // namespace
}  // namespace megatoken
