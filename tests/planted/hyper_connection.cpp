// Faults of hyper_connection: the transposed mix, eps, Sinkhorn, the parts of the gradient.
#include <algorithm>

#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "hyper_connection", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
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
    fault("pooled_is_a_sum", "the exit adds the streams instead of averaging", [](const Variant& v) { return with_output(v, "pooled", [](const TensorView& x) { scale(x, 4); }); }),
};

}  // namespace
}  // namespace megatoken
