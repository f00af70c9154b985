// One layer after the other of the public reference model's nano.h5, and the fp64 oracles fed with its tensors.
#pragma once
#include <gtest/gtest.h>

#include <map>

#include "reference/core/problem.hpp"
#include "tests/compare.hpp"
#include "tests/golden.hpp"

namespace megatoken::test {

using Inputs = std::map<std::string, Tensor>;

/// The fp64 oracle on given inputs; inputs and upstream gradients that are not given are zero. Shapes need only agree in size.
inline Problem solve(const std::string& component, const std::string& axes, const Inputs& inputs, Phase phase = Phase::Forward) {
  const Component& c = find_component(component);
  Problem problem(c, c.complete(Axes::parse(axes)), DType::F64);
  for (const Field& field : c.fields)
    if (problem[field.name] && !is_result(field)) fill(problem[field.name], 0);
  for (const auto& [name, tensor] : inputs) copy(tensor->reshape(problem[name].shape), problem[name]);
  run_variant(find_variant(component, "cpu"), problem, phase);
  return problem;
}

/// A result of a solved problem that outlives it.
inline Tensor result(const Problem& problem, const std::string& field) { return clone(problem[field]); }

inline Tensor sum(const TensorView& a, const TensorView& b) {
  Tensor total = clone(a);
  for (int64_t i = 0; i < a.size(); ++i) set_value(total, i, value_at(a, i) + value_at(b, i));
  return total;
}

/// Two tensors one behind the other along a new first axis.
inline Tensor stacked(const TensorView& a, const TensorView& b) {
  Tensor both(a.dtype, {2, a.size()});
  copy(a.reshape({1, a.size()}), both->slice(0, 0, 1));
  copy(b.reshape({1, b.size()}), both->slice(0, 1, 2));
  return both;
}

inline void expect_equal(const TensorView& got, const TensorView& want, const std::string& what) {
  EXPECT_LE(relative_rms(got.reshape(want.shape), want), 1e-10) << what;
}

/// The sizes and tensors of nano.h5.
class Nano {
 public:
  static constexpr int kLayers = 5;
  static constexpr const char* kFile = "nano.h5";
  static constexpr const char* kTokens = "b=2 t=90 ";

  Tensor operator()(const std::string& path) const { return file_(path); }
  Tensor weight(int layer, const std::string& name) const { return file_(format("weights/layers.{}.{}", layer, name)); }
  Tensor gradient(int layer, const std::string& name) const { return file_(format("grads/layers.{}.{}", layer, name)); }
  Tensor captured(int layer, const std::string& part, int out = 0) const { return file_(format("captured/layers.{}.{}/out{}", layer, part, out)); }
  bool dense(int layer) const { return layer == 0; }

  /// Inputs of hyper_connection: the streams (layer 0: the embedding) and what the sublayer made of them.
  Inputs site(int layer, const std::string& name, const Tensor& streams, const Tensor& sublayer) const {
    return {{layer == 0 && name == "attn_hc" ? "e" : "x", streams}, {"fn", weight(layer, name + ".fn")}, {"base", weight(layer, name + ".base")},
            {"scale", weight(layer, name + ".scale")}, {"u", sublayer}};
  }
  static std::string site_axes(bool entry, bool exit) { return format("{}n=4 c=32 entry={} exit={}", kTokens, int{entry}, int{exit}); }

  /// Streams between the two sites of a layer, from the captured streams before it and the captured mixer.
  Problem attention_site(int layer) const {
    const Tensor before = layer == 0 ? embedded() : captured(layer - 1, "streams");
    return solve("hyper_connection", site_axes(layer == 0, false), site(layer, "attn_hc", before, captured(layer, "self_attn")));
  }
  Tensor embedded() const {
    return result(solve("embedding", format("{}c=32 v=97", kTokens), {{"id", file_("input_ids")}, {"table", file_("weights/embed_tokens.weight")}}), "y");
  }
  /// What the MLP of a layer reads.
  Problem mlp_norm(int layer) const {
    return solve("rms_norm", format("{}c=32", kTokens), {{"x", captured(layer, "ffn_hc", 2)}, {"w", weight(layer, "post_attention_layernorm.weight")}});
  }
  Inputs router_inputs(int layer, const Tensor& x) const {
    return {{"x", x}, {"w", weight(layer, "mlp.gate.weight")}, {"bias", weight(layer, "mlp.gate.e_score_correction_bias")}};
  }
  Inputs expert_inputs(int layer, const Tensor& x, const Problem& routed) const {
    const std::string shared = "mlp.shared_experts.";
    return {{"x", x}, {"id", result(routed, "id")}, {"weight", result(routed, "weight")}, {"gate_up", weight(layer, "mlp.experts.gate_up_proj")},
            {"down", weight(layer, "mlp.experts.down_proj")},
            {"shared_gate_up", stacked(weight(layer, shared + "gate_proj.weight"), weight(layer, shared + "up_proj.weight"))},
            {"shared_down", weight(layer, shared + "down_proj.weight")}};
  }
  static std::string router_axes() { return format("{}c=32 e=8 k=2", kTokens); }
  static std::string expert_axes() { return format("{}c=32 e=8 k=2 f=16", kTokens); }

  /// Mean of the streams after the last layer → final norm.
  Problem final_norm() const {
    const int last = kLayers - 1;
    const Problem site_out = solve("hyper_connection", site_axes(false, true), site(last, "ffn_hc", result(attention_site(last), "x_out"), captured(last, "mlp")));
    return solve("rms_norm", format("{}c=32", kTokens), {{"x", result(site_out, "pooled")}, {"w", file_("weights/norm.weight")}});
  }
  Inputs loss_inputs(const Tensor& x) const { return {{"x", x}, {"w", file_("weights/lm_head.weight")}, {"label", file_("labels")}}; }
  static std::string loss_axes() { return format("{}c=32 v=97", kTokens); }
  int64_t valid_labels() const {
    int64_t count = 0;
    const Tensor labels = file_("labels");
    for (int64_t i = 0; i < labels->size(); ++i) count += value_at(labels, i) != -100;
    return count;
  }

 private:
  Golden file_{kFile};
};

/// Skips with a reason where the golden files are not there.
class GoldenTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Golden::exists(Nano::kFile)) GTEST_SKIP() << Golden::missing(Nano::kFile);
  }
};

}  // namespace megatoken::test
