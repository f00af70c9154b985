// Gradients of the public reference model's loss, from the loss down to the input of the last layer's MLP site, each oracle's
// backward feeding the one below. What lies before the last mixer needs the backward of the mixers.
#include "tests/reference/golden/nano.hpp"

namespace megatoken::test {
namespace {

class GoldenGradients : public GoldenTest {};

TEST_F(GoldenGradients, FromTheLossThroughTheLastMlpSite) {
  const Nano nano;
  const int last = Nano::kLayers - 1;
  const auto expect_gradient = [&](const TensorView& got, const std::string& name) { expect_equal(got, nano.gradient(last, name), name); };

  const Problem final_norm = nano.final_norm();
  Inputs loss_inputs = nano.loss_inputs(result(final_norm, "y"));
  Tensor mean(DType::F64, {1});  // the reference's loss is the mean over valid labels
  fill(mean, 1 / static_cast<double>(nano.valid_labels()));
  loss_inputs["dloss"] = mean;
  const Problem loss = solve("linear_cross_entropy", Nano::loss_axes(), loss_inputs, Phase::Both);
  expect_equal(loss["dw"], nano("grads/lm_head.weight"), "lm_head");

  const Problem norm = solve("rms_norm", format("{}c=32", Nano::kTokens),
                             {{"x", result(final_norm, "x")}, {"w", nano("weights/norm.weight")}, {"dy", result(loss, "dx")}}, Phase::Both);
  expect_equal(norm["dw"], nano("grads/norm.weight"), "norm");

  // The site's du does not depend on dy, which comes back from the MLP: once for du, once for everything.
  Inputs site = nano.site(last, "ffn_hc", result(nano.attention_site(last), "x_out"), nano.captured(last, "mlp"));
  site["dpooled"] = result(norm, "dx");
  const Tensor d_mlp = result(solve("hyper_connection", Nano::site_axes(false, true), site, Phase::Both), "du");

  const Problem mlp_norm = nano.mlp_norm(last);
  const Tensor x = result(mlp_norm, "y");
  Inputs router_inputs = nano.router_inputs(last, x);
  const Problem routed = solve("router", Nano::router_axes(), router_inputs);
  Inputs expert_inputs = nano.expert_inputs(last, x, routed);
  expert_inputs["dy"] = d_mlp;
  const Problem experts = solve("experts", Nano::expert_axes(), expert_inputs, Phase::Both);
  expect_gradient(experts["dgate_up"], "mlp.experts.gate_up_proj");
  expect_gradient(experts["ddown"], "mlp.experts.down_proj");
  expect_gradient(experts["dshared_gate_up"].slice(0, 0, 1), "mlp.shared_experts.gate_proj.weight");
  expect_gradient(experts["dshared_gate_up"].slice(0, 1, 2), "mlp.shared_experts.up_proj.weight");
  expect_gradient(experts["dshared_down"], "mlp.shared_experts.down_proj.weight");

  router_inputs["dweight"] = result(experts, "dweight");
  const Problem router = solve("router", Nano::router_axes(), router_inputs, Phase::Both);
  expect_gradient(router["dw"], "mlp.gate.weight");

  const Problem norm_below = solve("rms_norm", format("{}c=32", Nano::kTokens),
                                   {{"x", result(mlp_norm, "x")}, {"w", result(mlp_norm, "w")}, {"dy", sum(experts["dx"], router["dx"])}}, Phase::Both);
  expect_gradient(norm_below["dw"], "post_attention_layernorm.weight");

  site["dy"] = result(norm_below, "dx");
  const Problem whole = solve("hyper_connection", Nano::site_axes(false, true), site, Phase::Both);
  expect_gradient(whole["dfn"], "ffn_hc.fn");
  expect_gradient(whole["dbase"], "ffn_hc.base");
  expect_gradient(whole["dscale"], "ffn_hc.scale");
}

}  // namespace
}  // namespace megatoken::test
