// The fp64 oracles against the public reference model, part by part and layer by layer: each gets the captured input of a part
// and must give its captured output.
#include "tests/reference/golden/nano.hpp"

namespace megatoken::test {
namespace {

class GoldenLayers : public GoldenTest {};

TEST_F(GoldenLayers, SitesMapAndMixTheStreams) {
  const Nano nano;
  for (int layer = 0; layer < Nano::kLayers; ++layer) {
    const Problem attention = nano.attention_site(layer);
    const Problem mlp = solve("hyper_connection", Nano::site_axes(false, false), nano.site(layer, "ffn_hc", result(attention, "x_out"), nano.captured(layer, "mlp")));
    for (const auto& [name, site] : {std::pair<std::string, const Problem*>{"attn_hc", &attention}, {"ffn_hc", &mlp}}) {
      const std::string where = format("layer {} {}", layer, name);
      expect_equal((*site)["post"], nano.captured(layer, name, 0), where + " post");
      expect_equal((*site)["comb"], nano.captured(layer, name, 1), where + " comb");
      expect_equal((*site)["y"], nano.captured(layer, name, 2), where + " collapsed");
    }
    expect_equal(mlp["x_out"], nano.captured(layer, "streams"), format("layer {} streams", layer));
  }
}

TEST_F(GoldenLayers, NormsOfTheMixers) {
  const Nano nano;
  for (int layer = 0; layer < Nano::kLayers; ++layer) {
    const Problem norm = solve("rms_norm", format("{}c=32", Nano::kTokens), {{"x", nano.captured(layer, "attn_hc", 2)}, {"w", nano.weight(layer, "input_layernorm.weight")}});
    expect_equal(norm["y"], nano.captured(layer, "input_layernorm"), format("layer {}", layer));
  }
}

TEST_F(GoldenLayers, DenseMlp) {
  const Nano nano;
  const auto linear = [&](const Tensor& x, const std::string& name, int c, int o) {
    return result(solve("linear", format("{}c={} o={}", Nano::kTokens, c, o), {{"x", x}, {"w", nano.weight(0, "mlp." + name + ".weight")}}), "y");
  };
  const Tensor x = result(nano.mlp_norm(0), "y");
  const Tensor hidden = result(solve("swiglu", format("{}c=48", Nano::kTokens), {{"gate", linear(x, "gate_proj", 32, 48)}, {"up", linear(x, "up_proj", 32, 48)}}), "y");
  expect_equal(linear(hidden, "down_proj", 48, 32), nano.captured(0, "mlp"), "layer 0");
}

/// Expert → weight of one token.
std::map<int64_t, double> choice(const TensorView& id, const TensorView& weight, int64_t token) {
  std::map<int64_t, double> chosen;
  for (int64_t slot = 2 * token; slot < 2 * token + 2; ++slot) chosen[static_cast<int64_t>(value_at(id, slot))] = value_at(weight, slot);
  return chosen;
}

TEST_F(GoldenLayers, RoutersChooseTheSameExpertsWithTheSameWeights) {
  const Nano nano;
  for (int layer = 1; layer < Nano::kLayers; ++layer) {
    const Problem routed = solve("router", Nano::router_axes(), nano.router_inputs(layer, result(nano.mlp_norm(layer), "y")));
    const Tensor weight = nano.captured(layer, "router", 1), id = nano.captured(layer, "router", 2);
    for (int64_t token = 0; token < 180; ++token) {
      const auto got = choice(routed["id"], routed["weight"], token), want = choice(id, weight, token);
      for (const auto& [expert, w] : want) {
        ASSERT_TRUE(got.contains(expert)) << "layer " << layer << " token " << token << " expert " << expert;
        EXPECT_NEAR(got.at(expert), w, 1e-10 * w) << "layer " << layer << " token " << token << " expert " << expert;
      }
    }
  }
}

TEST_F(GoldenLayers, ExpertsWithTheSharedOne) {
  const Nano nano;
  for (int layer = 1; layer < Nano::kLayers; ++layer) {
    const Tensor x = result(nano.mlp_norm(layer), "y");
    const Problem routed = solve("router", Nano::router_axes(), nano.router_inputs(layer, x));
    expect_equal(solve("experts", Nano::expert_axes(), nano.expert_inputs(layer, x, routed))["y"], nano.captured(layer, "mlp"), format("layer {}", layer));
  }
}

TEST_F(GoldenLayers, LogProbabilitiesAndLoss) {
  const Nano nano;
  const Tensor x = result(nano.final_norm(), "y");
  const Problem logits = solve("linear", format("{}c=32 o=97", Nano::kTokens), {{"x", x}, {"w", nano("weights/lm_head.weight")}});
  expect_equal(logits["y"], nano("logits"), "logits");
  const Problem loss = solve("linear_cross_entropy", Nano::loss_axes(), nano.loss_inputs(x));
  const Tensor labels = nano("labels"), logprobs = nano("logprobs");
  for (int64_t i = 0; i < labels->size(); ++i) {
    if (value_at(labels, i) == -100) continue;
    const double want = value_at(logprobs, i);
    EXPECT_NEAR(value_at(loss["logprob"], i), want, 1e-10 * std::abs(want)) << "token " << i;
  }
  const double want = value_at(nano("loss"), 0);
  EXPECT_NEAR(value_at(loss["loss"], 0) / static_cast<double>(nano.valid_labels()), want, 1e-10 * want);
}

}  // namespace
}  // namespace megatoken::test
