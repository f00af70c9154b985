// Faults of hyper_connection: the transposed mix, eps, Sinkhorn, the parts of the gradient.
#include <algorithm>

#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "hyper_connection", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

/// Forward with an eps of its own for every token, such that √(mean + eps) = √mean + 1e-6.
void eps_beside_the_root(const std::function<void(const Call&)>& run, const Call& call) {
  const Component& component = find_component("hyper_connection");
  Axes axes = call.axes;
  axes.set("b", 1), axes.set("t", 1);
  const TensorView& streams = call.views[component.index(axes["entry"] != 0 ? "e" : "x")];
  for (int64_t b = 0; b < call.axes["b"]; ++b)
    for (int64_t t = 0; t < call.axes["t"]; ++t) {
      std::vector<TensorView> views(call.views.begin(), call.views.end());
      for (size_t i = 0; i < views.size(); ++i)
        if (views[i] && Component::axis_position(component.fields[i], "t") == 1) views[i] = views[i].slice(0, b, b + 1).slice(1, t, t + 1);
      const Tensor row = clone(streams.slice(0, b, b + 1).slice(1, t, t + 1));
      double mean = 0;
      for (int64_t i = 0; i < row->size(); ++i) mean += value_at(row, i) * value_at(row, i) / static_cast<double>(row->size());
      axes.set("eps", 2e-6 * std::sqrt(mean) + 1e-12);
      run({axes, call.dtype, views, call.context});
    }
}

/// Of three groups of logits (pre, post, comb) those of comb are divided by a temperature.
void divide_mix_by(const Editor& e, double temperature) {
  e.edit("scale", [&](const TensorView& x) { set_value(x, 2, value_at(x, 2) / temperature); });
  e.edit("base", [&](const TensorView& x) { scale(x.slice(0, 2 * e.axes()["n"], x.shape[0]), 1 / temperature); });
}

/// Streams are added with weights that follow post instead of 1/n.
void pool_by_post(const Editor& e) {
  e.edit("pooled", [&](const TensorView& pooled) { e.edit("x_out", [&](const TensorView& x) { e.edit("post", [&](const TensorView& post) {
    const int64_t n = x.shape[2], c = x.shape[3];
    for (int64_t i = 0; i < pooled.size(); ++i) {
      double sum = 0, weights = 0;
      for (int64_t stream = 0; stream < n; ++stream) {
        const double weight = value_at(post, i / c * n + stream);
        sum += weight * value_at(x, (i / c * n + stream) * c + i % c), weights += weight;
      }
      set_value(pooled, i, sum / weights);
    }
  }); }); });
}

const Registered<Fault> faults[] = {
    fault("mix_not_transposed", "streams are mixed with comb instead of its transpose", [](const Variant& v) { return with_outputs(v, [](const Editor& e) { e.edit("x_out", [&](const TensorView& out) { e.edit("x", [&](const TensorView& x) { e.edit("u", [&](const TensorView& u) { e.edit("post", [&](const TensorView& post) { e.edit("comb", [&](const TensorView& comb) { const int64_t n = x.shape[2], c = x.shape[3]; for (int64_t i = 0; i < out.size(); ++i) { const int64_t token = i / (n * c), to = i / c % n, j = i % c; double sum = value_at(post, token * n + to) * value_at(u, token * c + j); for (int64_t from = 0; from < n; ++from) sum += value_at(comb, (token * n + to) * n + from) * value_at(x, (token * n + from) * c + j); set_value(out, i, sum); } }); }); }); }); }); }, Phase::Forward); }, "glm53_flash.md §2.2: an earlier public implementation multiplied without the transpose"),
    fault("sinkhorn_stopped_early", "2 rounds instead of 20", [](const Variant& v) { return with_axis(v, "rounds", 2); }),
    fault("eps_on_the_sum", "eps is added to the sum of squares", [](const Variant& v) { return with_axes(v, [](Axes& a) { a.set("eps", a.real("eps") / static_cast<double>(a["n"] * a["c"])); }); }),
    fault("no_hc_eps", "pre, softmax and divisors lack hc_eps", [](const Variant& v) { return with_axis(v, "hc_eps", 0); }),
    fault("hc_eps_too_large", "hc_eps hard-coded to 1e-4", [](const Variant& v) { return with_axis(v, "hc_eps", 1e-4); }, "SkyRL refuses checkpoints whose hc_eps differs from the built-in one"),
    fault("post_not_doubled", "post lacks its factor 2", [](const Variant& v) { return with_output(v, "post", [](const TensorView& x) { scale(x, 0.5); }); }),
    fault("scales_shared", "one scale for pre, post and comb", [](const Variant& v) { return with_input(v, "scale", [](const TensorView& x) { fill(x, value_at(x, 0)); }); }),
    fault("base_forgotten", "the biases of the mapping are not added", [](const Variant& v) { return with_input(v, "base", zero); }),
    fault("dscale_of_one_group", "dscale of comb is lost", [](const Variant& v) { return with_output(v, "dscale", [](const TensorView& x) { set_value(x, 2, 0); }); }),
    fault("streams_in_wrong_order", "fn reads the streams in another order", [](const Variant& v) { return with_input(v, "fn", [](const TensorView& x) { shift_by_one(x, 1); }); }),
    fault("hc_eps_in_the_norm", "the streams are normalised with hc_eps, 1e-6, instead of the norm's own 1e-5", [](const Variant& v) { return with_axis(v, "eps", 1e-6); },
          "glm53_flash.md §5 row 3: vmlx-swift 374, 381; noise of 1e-5 in a test with one value for both"),
    fault("eps_beside_the_root", "x / (rms + 1e-6) instead of x / √(mean + eps)", [](const Variant& v) {
      return with_forward(v, [run = v.forward](const Call& call) { eps_beside_the_root(run, call); });
    }, "glm53_flash.md §5 row 4: Megatron PR 7427"),
    fault("mapping_in_bf16", "base and scale are kept in bf16", [](const Variant& v) {
      return with_inputs(v, {"base", "scale"}, [](const Editor& e) { for (const char* name : {"base", "scale"}) e.edit(name, [](const TensorView& x) { round_to_bits(x, 7); }); });
    }, "glm53_flash.md §5 row 5: mlx-vlm 2053"),
    fault("pooled_by_learned_weights", "the exit weighs the streams as another model family does", [](const Variant& v) { return with_outputs(v, pool_by_post, Phase::Forward); },
          "glm53_flash.md §5 row 7"),
    fault("mix_with_a_temperature", "the logits of the mix are divided by 0.05", [](const Variant& v) {
      return with_inputs(v, {"scale", "base"}, [](const Editor& e) { divide_mix_by(e, 0.05); });
    }, "glm53_flash.md §5 row 8: prime-rl 3423"),
    fault("pooled_is_a_sum", "the exit adds the streams instead of averaging", [](const Variant& v) { return with_output(v, "pooled", [](const TensorView& x) { scale(x, 4); }); }),
};

}  // namespace
}  // namespace megatoken
