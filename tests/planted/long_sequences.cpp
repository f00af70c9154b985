// Faults that give the right answer on short sequences: every one shows only beyond 32Ki tokens, the way an offset, a grid limit, a chunk
// loop or a running sum goes wrong in real code. Judged at 64Ki tokens, planted in the variants that are made for such lengths.
#include <algorithm>
#include <cmath>

#include "reference/core/problem.hpp"
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

constexpr int64_t kLong = 32768;
constexpr const char* kOffsets = "FLA #1080, mamba #1015, SGLang #20389, checks_and_results.md §1: boundary lengths";

Registered<Fault> fault(const char* component, const char* variant, const char* axes, const char* name, const char* about, std::function<Variant(const Variant&)> plant,
                        const char* guards = "") {
  return Registered<Fault>{Fault{.component = component, .name = name, .about = about, .guards = guards, .plant = std::move(plant), .variant = variant, .axes = axes,
                                 .distributions = {"aimed"}, .beyond = kLong}};
}

/// Where a row is read when its byte offset is formed in 32 bits and a row holds 128 KiB: beyond row 32767 at the start again.
int64_t wrapped(int64_t row) {
  constexpr uint32_t kRowBytes = uint32_t{1} << 17;
  return static_cast<uint32_t>(row) * kRowBytes / kRowBytes;
}

/// Rows beyond 32Ki along an axis are what another row was.
void wrap_rows(const TensorView& view, int axis) {
  const Tensor before = clone(view);
  for (int64_t i = kLong; i < view.shape[axis]; ++i) copy(before->slice(axis, wrapped(i), wrapped(i) + 1), view.slice(axis, i, i + 1));
}

Variant with_wrapped(const Variant& truth, std::vector<std::string> fields, Phase when = Phase::Both) {
  return with_inputs(truth, fields, [fields](const Editor& e) {
    for (const auto& field : fields)
      if (e.has(field)) e.edit(field, [](const TensorView& view) { wrap_rows(view, view.shape.rank() > 1 ? 1 : 0); });
  }, when);
}

/// The rows of the last block of 64 along axis 1, when there are more than 512 blocks.
void change_last_block(const TensorView& view, double value) {
  const int64_t rows = view.shape[1];
  if (rows > kLong) fill(view.slice(1, (rows - 1) / 64 * 64, rows), value);
}

/// Another document, so another state, from every 32Ki-th token on.
void restart_at_chunks(const TensorView& document) {
  const int64_t tokens = document.shape[1];
  for (int64_t flat = 0; flat < document.size(); ++flat)
    if (const double d = value_at(document, flat); d >= 0) set_value(document, flat, d * 2 + static_cast<double>(flat % tokens / kLong));
}

void round_to_bf16(const TensorView& view) { copy(convert(view, DType::BF16), view); }

/// A sum over the tokens passes through bf16 between chunks of 32Ki.
Variant with_rounded_sum(const Variant& truth, const char* field) {
  return with_outputs(truth, [field](const Editor& e) {
    if (e.axes()["t"] > kLong) e.edit(field, round_to_bf16);
  }, find_component(truth.component).fields[find_component(truth.component).index(field)].role == Role::Output ? Phase::Forward : Phase::Backward);
}

/// The call restricted to [begin, end) of one axis, on copies.
Problem part_of(const Component& component, const Call& call, const std::string& axis, int64_t begin, int64_t end) {
  Axes axes = call.axes;
  axes.set(axis, static_cast<double>(end - begin));
  Problem part(component, axes, call.dtype);
  for (size_t i = 0; i < call.views.size(); ++i) {
    const int position = Component::axis_position(component.fields[i], axis);
    if (call.views[i] && component.fields[i].role == Role::Input) copy(position < 0 ? call.views[i] : call.views[i].slice(position, begin, end), part.views()[i]);
  }
  return part;
}

using Run = std::function<void(const Call&)>;

// ---- attention -----------------------------------------------------------------------------------------------------------------------

/// Forward over the keys in chunks of 32Ki, whose partial results meet in a running sum of bf16.
void attention_with_rounded_sum(const Run& run, const Call& call) {
  const Component& component = find_component("attention");
  const size_t o = component.index("o"), lse = component.index("lse");
  const int64_t keys = call.axes["s"], width = call.axes["dv"], heads = call.axes["h"], tokens = call.axes["t"];
  run(call);  // right while there is one chunk
  if (keys <= kLong) return;
  std::vector<Problem> parts;
  for (int64_t begin = 0; begin < keys; begin += kLong) {
    parts.push_back(part_of(component, call, "s", begin, std::min(keys, begin + kLong)));
    run({parts.back().axes(), call.dtype, parts.back().views(), call.context});
  }
  for (int64_t row = 0; row < call.axes["b"] * tokens * heads; ++row) {
    const int64_t h = row % heads, i = row / heads % tokens, b = row / heads / tokens, statistic = (b * heads + h) * tokens + i;
    const double largest = value_at(parts[0].views()[lse], statistic);  // a causal row sees the first chunk
    double sum = 0;
    std::vector<double> value(static_cast<size_t>(width));
    for (const Problem& part : parts) {
      const double weight = std::exp(value_at(part.views()[lse], statistic) - largest);
      sum = static_cast<double>(BFloat16(sum + weight));
      for (int64_t c = 0; weight > 0 && c < width; ++c) value[static_cast<size_t>(c)] += weight * value_at(part.views()[o], row * width + c);
    }
    set_value(call.views[lse], statistic, largest + std::log(sum));
    for (int64_t c = 0; c < width; ++c) set_value(call.views[o], row * width + c, value[static_cast<size_t>(c)] / sum);
  }
}

constexpr const char* kAttention = "b=1 t=64Ki h=1 d=8";
const Registered<Fault> attention_faults[] = {
    fault("attention", "online_softmax", kAttention, "offsets_in_32_bits", "byte offsets of key rows are formed in 32 bits: from row 32,768 on keys and values are read from the start",
          [](const Variant& v) { return with_wrapped(v, {"k", "v"}); }, kOffsets),
    fault("attention", "online_softmax", kAttention, "last_block_of_many_dropped", "a grid of 512 blocks of keys: with more, the last one is not visited",
          [](const Variant& v) { return with_input(v, "k_document", [](const TensorView& x) { change_last_block(x, -1); }); }, "checks_and_results.md §1"),
    fault("attention", "online_softmax", kAttention, "row_offset_of_a_chunk_lost", "queries of every chunk of 32Ki stand at the positions of the first",
          [](const Variant& v) { return with_wrapped(v, {"q_position"}); }, "dsa.md B20: Megatron #5099"),
    fault("attention", "online_softmax", kAttention, "running_sum_in_bf16", "partial results of 32Ki keys are added up in bf16",
          [](const Variant& v) { return with_forward(v, [run = v.forward](const Call& call) { attention_with_rounded_sum(run, call); }); }, "checks_and_results.md §1"),
};

// ---- kda -----------------------------------------------------------------------------------------------------------------------------

/// Forward in chunks of 32Ki tokens whose states travel in bf16.
void kda_with_rounded_states(const Run& run, const Call& call) {
  const Component& component = find_component("kda");
  const int64_t tokens = call.axes["t"];
  if (tokens <= kLong) return run(call);
  Tensor state = clone(call.views[component.index("initial_state")]);
  for (int64_t begin = 0; begin < tokens; begin += kLong) {
    const int64_t end = std::min(tokens, begin + kLong);
    const Problem part = part_of(component, call, "t", begin, end);
    copy(state, part["initial_state"]);
    run({part.axes(), call.dtype, part.views(), call.context});
    copy(part["o"], call.views[component.index("o")].slice(1, begin, end));
    copy(part["final_state"], call.views[component.index("final_state")]);
    state = clone(part["final_state"]);
    round_to_bf16(state);
  }
}

constexpr const char* kKda = "b=1 t=64Ki h=1 d=16 dv=8 carry=1";
const Registered<Fault> kda_faults[] = {
    fault("kda", "chunk_wy", kKda, "offsets_in_32_bits", "byte offsets of value rows are formed in 32 bits: from row 32,768 on they are read from the start",
          [](const Variant& v) { return with_wrapped(v, {"v"}); }, "kda.md §7 rows 4, 26: flash-linear-attention #1080, vllm #39087"),
    fault("kda", "chunk_wy", kKda, "last_chunk_of_many_dropped", "a grid of 512 chunks: with more, the last one is never written", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        for (const char* field : {"o", "dq", "dk", "dv", "dg", "dbeta"}) e.edit(field, [](const TensorView& x) { change_last_block(x, 0); });
      });
    }, "kda.md §7 row 34: flash-linear-attention-npu #266"),
    fault("kda", "chunk_wy", kKda, "row_offset_of_a_chunk_lost", "every chunk of 32Ki reads the decays and steps of the first", [](const Variant& v) { return with_wrapped(v, {"g", "beta"}); }, kOffsets),
    fault("kda", "chunk_wy", kKda, "carry_dropped_at_a_chunk", "the state is lost at every 32Ki-th token",
          [](const Variant& v) { return with_input(v, "document", restart_at_chunks, Phase::Forward); }, "kda.md §7 rows 26, 29: vllm #51039, accelerate #4177"),
    fault("kda", "chunk_wy", kKda, "gradient_dropped_at_a_chunk", "no gradient flows back over every 32Ki-th token",
          [](const Variant& v) { return with_input(v, "document", restart_at_chunks, Phase::Backward); }, "kda.md §7 row 11: initial_state lost in backward"),
    fault("kda", "chunk_wy", kKda, "states_travel_in_bf16", "the state is rounded to bf16 at every 32Ki-th token",
          [](const Variant& v) { return with_forward(v, [run = v.forward](const Call& call) { kda_with_rounded_states(run, call); }); }),
    fault("kda", "chunk_wy", kKda, "parameter_sums_in_bf16", "with more than 32Ki tokens the partial sums of ddt_bias meet in bf16",
          [](const Variant& v) { return with_rounded_sum(v, "ddt_bias"); }),
};

// ---- short_conv ----------------------------------------------------------------------------------------------------------------------

constexpr const char* kConv = "b=1 t=64Ki c=16 halo=3";
const Registered<Fault> conv_faults[] = {
    fault("short_conv", "", kConv, "offsets_in_32_bits", "byte offsets of rows are formed in 32 bits: from row 32,768 on x is read from the start",
          [](const Variant& v) { return with_wrapped(v, {"x"}); }, kOffsets),
    fault("short_conv", "", kConv, "last_block_of_many_dropped", "a grid of 512 blocks: with more, the last one is never written", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        for (const char* field : {"y", "dx"}) e.edit(field, [](const TensorView& x) { change_last_block(x, 0); });
      });
    }),
    fault("short_conv", "", kConv, "row_offset_of_a_chunk_lost", "backward of every chunk of 32Ki reads the upstream gradients of the first",
          [](const Variant& v) { return with_wrapped(v, {"dy"}, Phase::Backward); }, kOffsets),
    fault("short_conv", "", kConv, "carry_dropped_at_a_chunk", "the taps see zeros in front of every 32Ki-th token",
          [](const Variant& v) { return with_input(v, "document", restart_at_chunks); }, "vllm #51039, #52909: chunked prefill differs from one shot"),
    fault("short_conv", "", kConv, "weight_sums_in_bf16", "with more than 32Ki tokens the partial sums of dw meet in bf16",
          [](const Variant& v) { return with_rounded_sum(v, "dw"); }),
};

// ---- index_topk and sparse_attention -------------------------------------------------------------------------------------------------

/// A token number that went through a signed 16-bit integer; what became negative is an empty slot.
void keep_16_bits(const TensorView& id) {
  for (int64_t i = 0; i < id.size(); ++i) id.as<int32_t>()[i] = std::max<int32_t>(static_cast<int16_t>(id.as<int32_t>()[i]), -1);
}

constexpr const char* kTopk = "b=1 t=64Ki h=1 d=8 topk=16";
const Registered<Fault> topk_faults[] = {
    fault("index_topk", "streaming", kTopk, "offsets_in_32_bits", "byte offsets of query rows are formed in 32 bits: from row 32,768 on q is read from the start",
          [](const Variant& v) { return with_wrapped(v, {"q"}); }, kOffsets),
    fault("index_topk", "streaming", kTopk, "last_block_of_many_dropped", "a query keeps no token of the last 64 in front of it once it stands beyond token 32,768", [](const Variant& v) {
      return with_output(v, "id", [](const TensorView& id) {
        for (int64_t i = 0; i < id.size(); ++i)
          if (const int64_t query = i / id.shape[2] % id.shape[1]; query > kLong && id.as<int32_t>()[i] > query - 64) id.as<int32_t>()[i] = -1;
      });
    }, "dsa.md B1, B3: candidates lost"),
    fault("index_topk", "streaming", kTopk, "row_offset_of_a_chunk_lost", "queries of every chunk of 32Ki stand at the positions of the first",
          [](const Variant& v) { return with_wrapped(v, {"position"}); }, "dsa.md B20: Megatron #5099"),
    fault("index_topk", "streaming", kTopk, "ids_in_16_bits", "token numbers are kept in signed 16 bits", [](const Variant& v) { return with_output(v, "id", keep_16_bits); }),
};

constexpr const char* kSparse = "b=1 t=64Ki h=1 d=16 n=19";
const Registered<Fault> sparse_faults[] = {
    fault("sparse_attention", "online", kSparse, "offsets_in_32_bits", "byte offsets of key rows are formed in 32 bits: from row 32,768 on they are read from the start",
          [](const Variant& v) { return with_wrapped(v, {"k"}); }, kOffsets),
    fault("sparse_attention", "online", kSparse, "last_block_of_many_dropped", "a grid of 512 blocks of queries: with more, the last one is never written", [](const Variant& v) {
      return with_outputs(v, [](const Editor& e) {
        for (const char* field : {"o", "dq"}) e.edit(field, [](const TensorView& x) { change_last_block(x, 0); });
      });
    }),
    fault("sparse_attention", "online", kSparse, "row_offset_of_a_chunk_lost", "queries of every chunk of 32Ki read the ids of the first", [](const Variant& v) { return with_wrapped(v, {"id"}); },
          "dsa.md B20: Megatron #5099"),
    fault("sparse_attention", "online", kSparse, "ids_in_16_bits", "token numbers are kept in signed 16 bits", [](const Variant& v) { return with_input(v, "id", keep_16_bits); }),
    fault("sparse_attention", "online", kSparse, "key_gradient_in_bf16", "with more than 32Ki queries the partial sums of dk meet in bf16",
          [](const Variant& v) { return with_rounded_sum(v, "dk"); }),
};

// ---- linear_cross_entropy ------------------------------------------------------------------------------------------------------------

constexpr const char* kLoss = "b=1 t=64Ki c=16 v=64";
const Registered<Fault> loss_faults[] = {
    fault("linear_cross_entropy", "tiled", kLoss, "offsets_in_32_bits", "byte offsets of rows are formed in 32 bits: from row 32,768 on x is read from the start",
          [](const Variant& v) { return with_wrapped(v, {"x"}); }, "checks_and_results.md §1: logits pass 2^31 elements at 16,744 tokens"),
    fault("linear_cross_entropy", "tiled", kLoss, "last_block_of_many_dropped", "a grid of 512 blocks: the labels of the last one beyond are taken as ignored",
          [](const Variant& v) { return with_input(v, "label", [](const TensorView& x) { change_last_block(x, -100); }); }),
    fault("linear_cross_entropy", "tiled", kLoss, "row_offset_of_a_chunk_lost", "every chunk of 32Ki reads the labels of the first", [](const Variant& v) { return with_wrapped(v, {"label"}); }, kOffsets),
    fault("linear_cross_entropy", "tiled", kLoss, "loss_sum_in_bf16", "with more than 32Ki tokens the partial losses meet in bf16", [](const Variant& v) { return with_rounded_sum(v, "loss"); }),
    fault("linear_cross_entropy", "tiled", kLoss, "weight_sums_in_bf16", "with more than 32Ki tokens the partial sums of dw meet in bf16", [](const Variant& v) { return with_rounded_sum(v, "dw"); },
          "Liger #507, #1296"),
};

}  // namespace
}  // namespace megatoken
