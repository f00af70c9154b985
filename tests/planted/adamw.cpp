// Faults of adamw: decay, bias correction, clipping, what enters the moments.
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant) {
  return Registered<Fault>{Fault{.component = "adamw", .name = name, .about = about, .guards = "", .plant = std::move(plant)}};
}

const Registered<Fault> faults[] = {
    fault("no_bias_correction", "m and v are not corrected for their start at zero", [](const Variant& v) { return with_axis(v, "step", 1000000); }),
    fault("step_counted_from_zero", "bias correction is one step ahead", [](const Variant& v) { return with_axes(v, [](Axes& a) { a.set("step", a.real("step") + 1); }); }),
    fault("decay_in_the_gradient", "decay enters m and v: Adam with L2, not AdamW", [](const Variant& v) { return with_inputs(v, {"grad", "master"}, [](const Editor& e) { e.edit("grad", [&](const TensorView& g) { e.edit("master", [&](const TensorView& p) { for (int64_t i = 0; i < g.size(); ++i) set_value(g, i, value_at(g, i) + 0.1 * value_at(p, i)); }); }); }); }),
    fault("decay_forgotten", "weights do not decay", [](const Variant& v) { return with_axis(v, "decay", 0); }),
    fault("no_clipping", "the global norm is not clipped", [](const Variant& v) { return with_axis(v, "clip", 0); }),
    fault("norm_of_a_part", "the norm misses the second half of the parameters", [](const Variant& v) { return with_axes(v, [](Axes& a) { a.set("clip", a.real("clip") * 1.41); }); }),
    fault("betas_swapped", "β1 and β2 change places", [](const Variant& v) { return with_axes(v, [](Axes& a) { const double b = a.real("beta1"); a.set("beta1", a.real("beta2")); a.set("beta2", b); }); }),
    fault("eps_inside_the_root", "eps is added under the root", [](const Variant& v) { return with_axes(v, [](Axes& a) { a.set("eps", std::sqrt(a.real("eps"))); }); }),
    fault("rounded_master", "the master weight is kept in bf16", [](const Variant& v) { return with_output(v, "master_out", [](const TensorView& x) { for (int64_t i = 0; i < x.size(); ++i) set_value(x, i, static_cast<double>(BFloat16(value_at(x, i)))); }); }),
};

}  // namespace
}  // namespace megatoken
