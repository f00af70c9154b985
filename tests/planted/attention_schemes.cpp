// Faults of ring attention and of its siblings: merge, mask, layout, order, scale. Each stands for something that public code got wrong.
#include <cmath>

#include "optimized/schemes/ring/merge.hpp"
#include "optimized/schemes/ring/ring.hpp"
#include "optimized/schemes/zigzag/zigzag.hpp"
#include "tests/planted/plant.hpp"
#include "tests/planted/wire.hpp"

namespace megatoken {
namespace {

using plant::Editor;
using ring::Part;
using ring::Ring;

// ---- merge ---------------------------------------------------------------------------------------------------------------------------

/// Replaces the merge: weigh(l, l', w, w') gives the two weights and returns the new lse. In the accumulator's precision, as real code would.
template <class Weigh>
auto merge_with(Weigh weigh) {
  return [weigh](const TensorView& o, const TensorView& lse, const TensorView& more_o, const TensorView& more_lse, int) {
    const auto row = [&]<class Acc>() {
      const auto o_at = o.elements<Acc, 4>(), more_o_at = more_o.elements<Acc, 4>();
      const auto lse_at = lse.elements<Acc, 3>(), more_lse_at = more_lse.elements<Acc, 3>();
      for (int64_t b = 0; b < o.shape[0]; ++b)
        for (int64_t i = 0; i < o.shape[1]; ++i)
          for (int64_t h = 0; h < o.shape[2]; ++h) {
            Acc w, more_w;
            const Acc l = weigh(lse_at(b, h, i), more_lse_at(b, h, i), w, more_w);
            for (int64_t d = 0; d < o.shape[3]; ++d) o_at(b, i, h, d) = w * o_at(b, i, h, d) + more_w * more_o_at(b, i, h, d);
            lse_at(b, h, i) = l;
          }
    };
    if (o.dtype == DType::F64) row.template operator()<double>();
    else row.template operator()<float>();
  };
}

/// Right but for what `change` does to the two numbers it merges by.
template <class Acc>
Acc guarded_weights(Acc l, Acc more_l, Acc& w, Acc& more_w) {
  const Acc m = std::fmax(l, more_l);
  w = std::isinf(l) ? 0 : std::exp(l - m), more_w = std::isinf(more_l) ? 0 : std::exp(more_l - m);
  const Acc sum = w + more_w;
  if (sum > 0) w /= sum, more_w /= sum;
  return sum > 0 ? m + std::log(sum) : m;
}

Scheme ring_with(Ring changed) { return ring::make_ring_scheme("ring", "", changed); }
Scheme zigzag_with(Ring changed) { return ring::make_ring_scheme("zigzag", "", changed); }

template <class Weigh>
Scheme ring_merging_with(Weigh weigh) {
  Ring changed = ring::contiguous_ring();
  changed.merge = merge_with(weigh);
  return ring_with(changed);
}

const Registered<Fault> kNaiveExponentials{Fault{
    .component = "attention", .name = "merge_of_naive_exponentials", .about = "l = ln(e^l + e^l'), which overflows in fp32 beyond 88",
    .guards = "parallel.md A1: EasyContext #14, ring-flash-attention PR#34", .scheme = "ring",
    .plant_scheme = [](const Scheme&) {
      return ring_merging_with([](auto l, auto more_l, auto& w, auto& more_w) {
        const auto a = std::exp(l), b = std::exp(more_l);
        w = a / (a + b), more_w = b / (a + b);
        return std::log(a + b);
      });
    }}};

const Registered<Fault> kUnguardedSigmoid{Fault{
    .component = "attention", .name = "merge_of_two_empty_rows_unguarded", .about = "sigmoid form without a guard: −∞ − (−∞) where neither side saw a key",
    .guards = "parallel.md §2.1", .scheme = "zigzag",
    .plant_scheme = [](const Scheme&) {
      Ring changed = ring::zigzag_ring();
      changed.merge = merge_with([](auto l, auto more_l, auto& w, auto& more_w) {
        more_w = 1 / (1 + std::exp(l - more_l));
        w = 1 - more_w;
        return l - std::log(1 / (1 + std::exp(more_l - l)));
      });
      return zigzag_with(changed);
    }}};

const Registered<Fault> kBaseTwo{Fault{
    .component = "attention", .name = "merge_in_base_two", .about = "natural-log lse merged as if it were log2",
    .guards = "parallel.md A15: attention-gym PR#200", .scheme = "ring",
    .plant_scheme = [](const Scheme&) {
      return ring_merging_with([](auto l, auto more_l, auto& w, auto& more_w) {
        const auto ln2 = static_cast<decltype(l)>(std::log(2.0));
        return guarded_weights(l * ln2, more_l * ln2, w, more_w) / ln2;
      });
    }}};

const Registered<Fault> kForgottenRescale{Fault{
    .component = "attention", .name = "merge_without_rescale", .about = "what was accumulated so far is not scaled down when a block is merged",
    .guards = "checks_and_results.md §1: skip the online rescale", .scheme = "ring",
    .plant_scheme = [](const Scheme&) {
      return ring_merging_with([](auto l, auto more_l, auto& w, auto& more_w) {
        const auto merged = guarded_weights(l, more_l, w, more_w);
        if (!std::isinf(l)) w = 1;
        return merged;
      });
    }}};

const Registered<Fault> kLseOfTheFirstBlock{Fault{
    .component = "attention", .name = "lse_of_own_block_only", .about = "outputs are merged, the log-sum-exp stays that of the first block",
    .guards = "parallel.md A6: TransformerEngine #1557, wrong gradients while the loss converges", .scheme = "zigzag",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_results(truth, [](const SchemeCall& call) {
        const Component& c = call.component;
        std::vector<TensorView> views(call.views.begin(), call.views.end());
        const Tensor o = clone(views[c.index("o")]);
        views[c.index("o")] = o.view();
        call.block.forward({call.local, call.dtype, views, call.context});  // writes lse from the own keys alone
      }, Phase::Forward);
    }}};

const Registered<Fault> kFiniteEmptyRows{Fault{
    .component = "attention", .name = "empty_rows_with_finite_lse", .about = "the block variant says lse = 0 for rows that see none of its keys",
    .guards = "parallel.md A16: vllm PR#49294", .scheme = "ring",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_block(truth, [](const Variant& block, int) {
        return plant::with_outputs(block, [](const Editor& e) {
          e.edit("lse", [](const TensorView& lse) {
            for (int64_t i = 0; i < lse.size(); ++i)
              if (std::isinf(value_at(lse, i))) set_value(lse, i, 0);
          });
        }, Phase::Forward);
      });
    }}};

const Registered<Fault> kRoundedBlocks{Fault{
    .component = "attention", .name = "block_outputs_rounded_to_bf16", .about = "every block's output is rounded before it is merged, so the error grows with the ranks",
    .guards = "parallel.md A2: ring-flash-attention #42", .scheme = "ring",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_block(truth, [](const Variant& block, int) {
        return plant::with_outputs(block, [](const Editor& e) {
          e.edit("o", [](const TensorView& o) { copy(convert(o, DType::BF16), o); });
        }, Phase::Forward);
      });
    }, .ranks = 8}};

// ---- masks, documents, padding -------------------------------------------------------------------------------------------------------

const Registered<Fault> kCausalForgotten{Fault{
    .component = "attention", .name = "causal_flag_forgotten_on_rank_1", .about = "one rank attends to the future",
    .guards = "checks_and_results.md §1", .scheme = "zigzag",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_local_axes(truth, [](Axes& local, int rank) {
        if (rank == 1) local.set("causal", 0);
      });
    }}};

/// A fault of the block variant in steps that work on another rank's keys.
Scheme with_foreign_blocks(const Scheme& truth, std::vector<std::string> fields, plant::Edit edit) {
  return plant::with_block(truth, [fields, edit](const Variant& block, int) {
    const Variant wrong = plant::with_inputs(block, fields, edit);
    Variant either = block;
    const auto choose = [](const auto& own, const auto& foreign) {
      return [own, foreign](const Call& call) { call.axes["causal"] ? own(call) : foreign(call); };
    };
    either.forward = choose(block.forward, wrong.forward);
    either.backward = choose(block.backward, wrong.backward);
    return either;
  });
}

const Registered<Fault> kDocumentLeak{Fault{
    .component = "attention", .name = "document_borders_lost_between_shards", .about = "documents are told apart inside a shard, not across shards",
    .guards = "parallel.md A10: axolotl #3608", .scheme = "ring",
    .plant_scheme = [](const Scheme& truth) {
      return with_foreign_blocks(truth, {"q_document", "k_document"}, [](const Editor& e) {
        for (const char* field : {"q_document", "k_document"})
          e.edit(field, [](const TensorView& document) {
            for (int64_t i = 0; i < document.size(); ++i) set_value(document, i, std::min(value_at(document, i), 0.0));
          });
      });
    }}};

const Registered<Fault> kPaddingSeen{Fault{
    .component = "attention", .name = "padding_rows_not_masked", .about = "padding counts as part of the last document",
    .guards = "parallel.md A7, A8: TransformerEngine #3331, #1930", .scheme = "zigzag",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_block(truth, [](const Variant& block, int) {
        return plant::with_inputs(block, {"k_document"}, [](const Editor& e) {
          const auto last = static_cast<double>(e.axes()["docs"] - 1);
          e.edit("k_document", [last](const TensorView& document) {
            for (int64_t i = 0; i < document.size(); ++i)
              if (value_at(document, i) < 0) set_value(document, i, last);
          });
        });
      });
    }, .axes = "b=2 t=137 h=4 hk=2 d=16 docs=3"}};

const Registered<Fault> kLocalPositions{Fault{
    .component = "attention", .name = "mask_of_local_positions", .about = "every step is masked by row numbers inside the shard instead of positions in the sequence",
    .guards = "parallel.md A9: Megatron-LM #560", .scheme = "zigzag",
    .plant_scheme = [](const Scheme&) {
      Ring changed = ring::zigzag_ring();
      changed.causal_part = [](int64_t n, int, int) { return Part{0, n, 0, n, true}; };
      return plant::with_block(zigzag_with(changed), [](const Variant& block, int) {
        return plant::with_inputs(block, {"q_position", "k_position"}, [](const Editor& e) {
          for (const char* field : {"q_position", "k_position"})
            e.edit(field, [](const TensorView& position) {
              for (int64_t i = 0; i < position.size(); ++i) set_value(position, i, static_cast<double>(i));
            });
        });
      });
    }}};

// ---- layout and order ----------------------------------------------------------------------------------------------------------------

const Registered<Fault> kPlainLayout{Fault{
    .component = "attention", .name = "zigzag_fed_with_plain_shards", .about = "contiguous shards in a ring that believes them to be zig-zag",
    .guards = "parallel.md A17: long-context-attention #53", .scheme = "zigzag",
    .plant_scheme = [](const Scheme&) {
      Ring changed = ring::zigzag_ring();
      changed.layout = [](int64_t t, int ranks) { return contiguous_layout((t + 2 * ranks - 1) / (2 * ranks) * (2 * ranks), ranks); };
      return zigzag_with(changed);
    }}};

const Registered<Fault> kWrongHalf{Fault{
    .component = "attention", .name = "wrong_half_of_the_keys", .about = "queries meet the second half of a lower rank's keys, which they may not see",
    .guards = "parallel.md §2.3", .scheme = "zigzag",
    .plant_scheme = [](const Scheme&) {
      Ring changed = ring::zigzag_ring();
      changed.causal_part = [right = changed.causal_part](int64_t n, int rank, int source) {
        Part part = right(n, rank, source);
        if (source < rank) part.k_begin = n / 2, part.k_end = n;
        return part;
      };
      return zigzag_with(changed);
    }}};

const Registered<Fault> kWrongRotation{Fault{
    .component = "attention", .name = "block_number_of_the_other_direction", .about = "keys come from below, their number is counted as if they came from above",
    .guards = "parallel.md §2.2", .scheme = "ring",
    .plant_scheme = [](const Scheme&) {
      Ring changed = ring::contiguous_ring();
      changed.forward_source = [](int rank, int step, int ranks) { return (rank + step) % ranks; };
      return ring_with(changed);
    }}};

const Registered<Fault> kStaleKeys{Fault{
    .component = "attention", .name = "stale_keys", .about = "from the second hop on, the buffers still hold the keys of the first",
    .guards = "parallel.md A12: diffusers #14265", .scheme = "ring",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_exchanges(truth, [](const SchemeCall&) {
        return [first = std::vector<Tensor>()](const std::vector<Message>& received, int exchange) mutable {
          for (size_t i = 0; i < received.size() && i < 2; ++i) {
            if (exchange == 0) first.push_back(clone(received[i].tensor));
            else copy(first[i], received[i].tensor);
          }
        };
      }, Phase::Forward);
    }}};

const Registered<Fault> kKeysAsValues{Fault{
    .component = "attention", .name = "keys_and_values_swapped_on_the_wire", .about = "the two messages of a step are received in the other order",
    .guards = "parallel.md C1: Megatron-LM #1450, no tags, only order", .scheme = "zigzag",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_exchanges(truth, [](const SchemeCall&) {
        return [](const std::vector<Message>& received, int) {
          const Tensor k = clone(received[0].tensor);
          copy(received[1].tensor, received[0].tensor);
          copy(k, received[1].tensor);
        };
      }, Phase::Forward);
    }}};

// ---- gradients -----------------------------------------------------------------------------------------------------------------------

const Registered<Fault> kLastHopMissing{Fault{
    .component = "attention", .name = "last_gradient_hop_missing", .about = "the sums for dk, dv do not come home: a rank keeps only its own part",
    .guards = "parallel.md §2.2", .scheme = "ring",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_exchanges(truth, [](const SchemeCall& call) {
        return [last = call.communicator.size() - 1](const std::vector<Message>& received, int exchange) {
          if (exchange == last)
            for (const auto& message : received) fill(message.tensor, 0);
        };
      }, Phase::Backward);
    }}};

const Registered<Fault> kHalvesSwapped{Fault{
    .component = "attention", .name = "gradient_halves_swapped", .about = "sums of the first half of the keys land in the second half",
    .guards = "parallel.md §2.3", .scheme = "zigzag",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_exchanges(truth, [](const SchemeCall& call) {
        return [last = call.communicator.size() - 1](const std::vector<Message>& received, int exchange) {
          if (exchange != last) return;
          for (const auto& [tensor, _] : received) {
            const int64_t n = tensor.shape[1];
            const Tensor before = clone(tensor);
            copy(before->slice(1, 0, n / 2), tensor.slice(1, n / 2, n));
            copy(before->slice(1, n / 2, n), tensor.slice(1, 0, n / 2));
          }
        };
      }, Phase::Backward);
    }}};

const Registered<Fault> kOverwrittenSums{Fault{
    .component = "attention", .name = "gradients_overwritten_instead_of_added", .about = "the last block's part replaces the sum",
    .guards = "parallel.md §2.2", .scheme = "ring",
    .plant_scheme = [](const Scheme&) {
      Ring changed = ring::contiguous_ring();
      changed.add = [](const TensorView& sum, const TensorView& term, int) { copy(term, sum); };
      return ring_with(changed);
    }}};

/// Multiplies some of this rank's gradients by 1/ranks.
Scheme averaging(const Scheme& truth, std::vector<std::string> gradients) {
  return plant::with_results(truth, [gradients](const SchemeCall& call) {
    for (const auto& name : gradients) {
      const TensorView& gradient = call.views[call.component.index(name)];
      for (int64_t i = 0; i < gradient.size(); ++i) set_value(gradient, i, value_at(gradient, i) / call.communicator.size());
    }
  }, Phase::Backward);
}

const Registered<Fault> kMean{Fault{
    .component = "attention", .name = "mean_instead_of_sum", .about = "dk and dv are averaged over the ranks that contributed",
    .guards = "checks_and_results.md §1", .scheme = "zigzag",
    .plant_scheme = [](const Scheme& truth) { return averaging(truth, {"dk", "dv"}); }}};

const Registered<Fault> kScaledGradients{Fault{
    .component = "attention", .name = "gradients_scaled_by_ranks", .about = "all gradients are divided by the number of ranks",
    .guards = "parallel.md B1: DeepSpeed #5248", .scheme = "gather",
    .plant_scheme = [](const Scheme& truth) { return averaging(truth, {"dq", "dk", "dv"}); }}};

const Registered<Fault> kNarrowSums{Fault{
    .component = "attention", .name = "gradients_travel_in_bf16", .about = "the sums for dk, dv are rounded to bf16 at every hop",
    .guards = "parallel.md A2, B15", .scheme = "ring",
    .plant_scheme = [](const Scheme& truth) {
      return plant::with_exchanges(truth, [](const SchemeCall&) {
        return [](const std::vector<Message>& received, int exchange) {
          for (size_t i = received.size() - 2; exchange > 0 && i < received.size(); ++i) copy(convert(received[i].tensor, DType::BF16), received[i].tensor);
        };
      }, Phase::Backward);
    }}};

}  // namespace
}  // namespace megatoken
