// Faults of attention on one rank: mask, softmax, heads, documents, scale, and the sums of its gradients.
#include <limits>
#include <vector>

#include "reference/core/device.hpp"
#include "reference/components/attention/attention.hpp"
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using plant::Editor;
using namespace plant;

// ---- mask and positions --------------------------------------------------------------------------------------------------------------

const Registered<Fault> kLastBlockDropped{Fault{
    .component = "attention", .name = "last_key_block_dropped", .about = "the loop over keys ends before the last, partial block of 64",
    .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) {
      return with_input(truth, "k_document", [](const TensorView& document) {
        const int64_t keys = document.shape[1];
        fill(document.slice(1, (keys - 1) / 64 * 64, keys), -1);
      });
    }}};

const Registered<Fault> kStrictMask{Fault{
    .component = "attention", .name = "causal_mask_strict", .about = "j < i instead of j ≤ i: no query sees its own key",
    .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) { return with_input(truth, "k_position", [](const TensorView& position) { add(position, 1); }); }}};

const Registered<Fault> kLateMask{Fault{
    .component = "attention", .name = "causal_mask_one_late", .about = "every query sees the key after its own",
    .plant = [](const Variant& truth) { return with_input(truth, "k_position", [](const TensorView& position) { add(position, -1); }); }}};

const Registered<Fault> kCausalForgotten{Fault{
    .component = "attention", .name = "causal_forgotten", .about = "the future is visible", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) { return with_axis(truth, "causal", 0); }}};

void wrap_at_128(const TensorView& index) {
  for (int64_t i = 0; i < index.size(); ++i) set_value(index, i, static_cast<double>(static_cast<int64_t>(value_at(index, i)) & 127));
}

const Registered<Fault> kPositionsWrap{Fault{
    .component = "attention", .name = "positions_wrap", .about = "positions are kept in too few bits (7 here, 31 in real code) and start again",
    .guards = "flash-linear-attention #1080, mamba #1015",
    .plant = [](const Variant& truth) {
      return with_inputs(truth, {"q_position", "k_position"}, [](const Editor& e) {
        for (const char* field : {"q_position", "k_position"}) e.edit(field, wrap_at_128);
      });
    }}};

const Registered<Fault> kOffsetWraps{Fault{
    .component = "attention", .name = "row_offset_wraps", .about = "the offset of a key row overflows: rows from the 128th on are read from the start (2^31 elements in real code)",
    .guards = "SageAttention #386, mamba #1015, checks_and_results.md §1: boundary lengths",
    .plant = [](const Variant& truth) {
      return with_inputs(truth, {"k", "v"}, [](const Editor& e) {
        for (const char* field : {"k", "v"})
          e.edit(field, [](const TensorView& x) {
            const int64_t rows = x.shape[1];
            if (rows > 128) copy(clone(x.slice(1, 0, rows - 128)), x.slice(1, 128, rows));
          });
      });
    }}};

const Registered<Fault> kDocumentLeak{Fault{
    .component = "attention", .name = "document_leak", .about = "document borders are ignored", .guards = "parallel.md A10: axolotl #3608",
    .plant = [](const Variant& truth) {
      return with_inputs(truth, {"q_document", "k_document"}, [](const Editor& e) {
        for (const char* field : {"q_document", "k_document"})
          e.edit(field, [](const TensorView& document) {
            for (int64_t i = 0; i < document.size(); ++i) set_value(document, i, std::min(value_at(document, i), 0.0));
          });
      });
    }}};

const Registered<Fault> kFirstBatchDocuments{Fault{
    .component = "attention", .name = "documents_of_the_first_batch_row", .about = "every batch row is cut at the borders of the first", .guards = "parallel.md D1: DeepSpeed #5808",
    .plant = [](const Variant& truth) {
      return with_inputs(truth, {"q_document", "k_document"}, [](const Editor& e) {
        for (const char* field : {"q_document", "k_document"})
          e.edit(field, [](const TensorView& document) {
            for (int64_t b = 1; b < document.shape[0]; ++b) copy(clone(document.slice(0, 0, 1)), document.slice(0, b, b + 1));
          });
      });
    }}};

/// The last document takes the padding in.
void adopt_padding(const TensorView& document) {
  for (int64_t i = 1; i < document.size(); ++i)
    if (value_at(document, i) < 0) set_value(document, i, value_at(document, i - 1));
}

const Registered<Fault> kPaddingSeen{Fault{
    .component = "attention", .name = "padding_seen", .about = "padding at the end counts as part of the last document", .guards = "parallel.md A7: TransformerEngine #3331",
    .plant = [](const Variant& truth) {
      return with_inputs(truth, {"q_document", "k_document"}, [](const Editor& e) {
        for (const char* field : {"q_document", "k_document"}) e.edit(field, adopt_padding);
      });
    }}};

// ---- softmax and its statistics ------------------------------------------------------------------------------------------------------

/// Forward in blocks of 16 keys with a running maximum that never rescales what was summed before.
template <class T>
void forward_without_rescale(const Axes& axes, const attention::Tensors& x) {
  const attention::Shape shape(axes);
  const auto q = x.q.elements<const T, 4>(), k = x.k.elements<const T, 4>(), v = x.v.elements<const T, 4>();
  const auto q_document = x.q_document.elements<const int32_t, 2>(), k_document = x.k_document.elements<const int32_t, 2>();
  const auto q_position = x.q_position.elements<const int32_t, 1>(), k_position = x.k_position.elements<const int32_t, 1>();
  const auto o = x.o.elements<T, 4>();
  std::vector<double> sum(static_cast<size_t>(shape.dv) + 1);
  for (int64_t item = 0; item < shape.b * shape.h * shape.t; ++item) {
    const int64_t b = item / (shape.h * shape.t), h = item / shape.t % shape.h, i = item % shape.t;
    std::fill(sum.begin(), sum.end(), 0);
    double largest = -std::numeric_limits<double>::infinity();
    std::vector<std::pair<int64_t, double>> block;
    for (int64_t j = 0; j < shape.s; ++j) {
      if (q_document(b, i) >= 0 && q_document(b, i) == k_document(b, j) && (!shape.causal || k_position(j) <= q_position(i))) {
        double s = 0;
        for (int64_t d = 0; d < shape.d; ++d) s += static_cast<double>(q(b, i, h, d)) * static_cast<double>(k(b, j, h / shape.group(), d));
        block.emplace_back(j, shape.scale * s);
        largest = std::max(largest, shape.scale * s);
      }
      if (j % 16 != 15 && j + 1 != shape.s) continue;
      for (const auto& [key, s] : block) {
        const double p = std::exp(s - largest);
        for (int64_t d = 0; d < shape.dv; ++d) sum[static_cast<size_t>(d)] += p * static_cast<double>(v(b, key, h / shape.group(), d));
        sum.back() += p;
      }
      block.clear();
    }
    for (int64_t d = 0; d < shape.dv; ++d) o(b, i, h, d) = static_cast<T>(sum.back() > 0 ? sum[static_cast<size_t>(d)] / sum.back() : 0);
  }
}

const Registered<Fault> kNoRescale{Fault{
    .component = "attention", .name = "rescale_skipped", .about = "sums of earlier blocks are not rescaled when the running maximum grows", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) {
      return with_forward(truth, [run = truth.forward](const Call& call) {
        run(call);
        const auto x = bind_fields<attention::Tensors>(call.views);
        dispatch_float(x.q.dtype, [&]<class T>() { forward_without_rescale<T>(call.axes, x); });
      });
    }, .cpu_only = true}};

const Registered<Fault> kLog2{Fault{
    .component = "attention", .name = "lse_in_base_2", .about = "log-sum-exp is returned in units of log2", .guards = "parallel.md A15: attention-gym #200",
    .plant = [](const Variant& truth) { return with_output(truth, "lse", [](const TensorView& lse) { scale(lse, 1 / std::log(2.0)); }); }}};

const Registered<Fault> kFiniteEmptyRow{Fault{
    .component = "attention", .name = "empty_row_with_finite_lse", .about = "a row that sees no key returns lse = 0 instead of −∞", .guards = "parallel.md A16: vllm #49294",
    .plant = [](const Variant& truth) {
      return with_output(truth, "lse", [](const TensorView& lse) {
        for (int64_t i = 0; i < lse.size(); ++i)
          if (std::isinf(value_at(lse, i))) set_value(lse, i, 0);
      });
    }}};

const Registered<Fault> kEmptyRowNotZero{Fault{
    .component = "attention", .name = "padding_row_not_zero", .about = "a padding row returns its own value instead of 0", .guards = "parallel.md A7: TransformerEngine #3331",
    .plant = [](const Variant& truth) {
      return with_outputs(truth, [](const Editor& e) {
        e.edit("o", [&](const TensorView& o) {
          const int64_t tokens = o.shape[1];
          fill(o.slice(1, std::max<int64_t>(tokens - e.axes()["padding"], 0), tokens), 0.01);
        });
      }, Phase::Forward);
    }}};

const Registered<Fault> kScaleForgotten{Fault{
    .component = "attention", .name = "scale_forgotten", .about = "scores without 1/√d", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) { return with_axis(truth, "scale", 1); }}};

const Registered<Fault> kValueShifted{Fault{
    .component = "attention", .name = "values_shifted_by_one", .about = "P_ij meets v_{j−1}", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) { return with_input(truth, "v", [](const TensorView& v) { shift_by_one(v, 1); }); }}};

// ---- heads ---------------------------------------------------------------------------------------------------------------------------

/// Rows of one axis in another order, on the tensor's own device.
Tensor permuted(const TensorView& view, int axis, const std::vector<int64_t>& order) { return to_device(gather_rows(to_device(view, Device::Cpu), axis, order), view.device); }

/// Query head h of the wrong variant reads key/value head h % hk: the truth on query heads in another order.
void with_striped_heads(const std::function<void(const Call&)>& run, const Call& call) {
  const Component& component = find_component("attention");
  const int64_t h = call.axes["h"], hk = call.axes["hk"];
  std::vector<int64_t> order, back(static_cast<size_t>(h));
  for (int64_t kv = 0; kv < hk; ++kv)
    for (int64_t head = kv; head < h; head += hk) order.push_back(head);
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  std::vector<TensorView> views(call.views.begin(), call.views.end());
  std::vector<Tensor> copies;
  for (size_t i = 0; i < views.size(); ++i)
    if (const int axis = Component::axis_position(component.fields[i], "h"); axis >= 0) copies.push_back(permuted(call.views[i], axis, order)), views[i] = copies.back().view();
  run({call.axes, call.dtype, views, call.context});
  synchronize(call.views[0].device);
  for (const char* field : {"o", "lse", "dq"}) {
    const size_t i = component.index(field);
    copy(permuted(views[i], Component::axis_position(component.fields[i], "h"), back), call.views[i]);
  }
}

const Registered<Fault> kStripedHeads{Fault{
    .component = "attention", .name = "heads_grouped_by_remainder", .about = "query head h reads key/value head h mod hk instead of h / (h/hk)", .guards = "parallel.md D5",
    .plant = [](const Variant& truth) {
      const auto wrong = [](const auto& run) { return [run](const Call& call) { with_striped_heads(run, call); }; };
      return with_backward(with_forward(truth, wrong(truth.forward)), wrong(truth.backward));
    }}};

const Registered<Fault> kLastRowSkipped{Fault{
    .component = "attention", .name = "last_query_row_skipped", .about = "the last row of a partial tile is left at zero",
    .plant = [](const Variant& truth) {
      return with_outputs(truth, [](const Editor& e) {
        for (const char* field : {"o", "dq"}) {
          e.edit(field, [&](const TensorView& rows) {
            const int64_t end = std::max<int64_t>(rows.shape[1] - e.axes()["padding"], 1);
            fill(rows.slice(1, end - 1, end), 0);
          });
        }
      });
    }}};

}  // namespace
}  // namespace megatoken
