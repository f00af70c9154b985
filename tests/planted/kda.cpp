// Faults of kda: order inside the recurrence, activations, heads, documents, states, and the gradients of decays and parameters.
#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/components/kda/activation.hpp"
#include "tests/planted/edits.hpp"
#include "tests/planted/kda_host.hpp"

namespace megatoken {
namespace {

using kda::Activation, kda::Gate, kda::Shape, kda::Tensors;
using plant::Editor, plant::HostCopy, plant::zero, plant::with_axis;

/// The places where a recurrence can be written down wrongly.
struct Slip {
  bool decay_after_update = false, residual_before_decay = false, read_before_update = false, decay_clamped = false, heads_by_remainder = false;
};

double log_decay(const Activation<double>& in, const Shape& shape, const Slip& slip, int64_t b, int64_t i, int64_t h, int64_t n, int64_t c) {
  if (!slip.decay_clamped) return in.log_decay(b, i, h, n, c);
  const double rate = std::exp(in.a_log(h, n));
  return std::max(shape.lower_bound, -rate * Activation<double>::softplus(in.raw_g(b, i, h, n, c) + in.dt_bias(h, n, c)));
}

void slipped_forward(const Call& call, const Slip& slip) {
  const Shape shape(call.axes);
  synchronize(call.views[0].device);
  const HostCopy host(call);
  const Activation<double> in(shape, host.x);
  const auto o = host.x.o.elements<double, 5>();
  const int64_t d = shape.d, dv = shape.dv;
  for (int64_t item = 0; item < shape.b * shape.h * shape.group; ++item) {
    const int64_t b = item / (shape.h * shape.group), hv = item % (shape.h * shape.group), h = hv / shape.group, n = hv % shape.group;
    const int64_t key_head = slip.heads_by_remainder ? hv % shape.h : h;
    std::vector<double> s(static_cast<size_t>(d * dv), 0.0), old;
    for (int64_t e = 0; shape.carry && e < d * dv; ++e) s[static_cast<size_t>(e)] = value_at(host.x.initial_state, item * d * dv + e);
    for (int64_t i = 0; i < shape.t; ++i) {
      if (in.starts(b, i)) std::fill(s.begin(), s.end(), 0.0);
      const double q_factor = in.inverse_norm(in.q, b, i, key_head), k_factor = in.inverse_norm(in.k, b, i, key_head), beta = in.beta(b, i, h, n);
      std::vector<double> decay(static_cast<size_t>(d));
      for (int64_t c = 0; c < d; ++c) decay[static_cast<size_t>(c)] = std::exp(log_decay(in, shape, slip, b, i, h, n, c));
      for (int64_t e = 0; e < dv; ++e) {
        const auto state = [&](int64_t c) -> double& { return s[static_cast<size_t>(c * dv + e)]; };
        double residual = in.v(b, i, h, n, e), value = 0;
        const auto subtract = [&] { for (int64_t c = 0; c < d; ++c) residual -= state(c) * in.k(b, i, key_head, c) * k_factor; };
        const auto decay_all = [&] { for (int64_t c = 0; c < d; ++c) state(c) *= decay[static_cast<size_t>(c)]; };
        const auto read = [&] { for (int64_t c = 0; c < d; ++c) value += shape.scale * state(c) * in.q(b, i, key_head, c) * q_factor; };
        if (slip.residual_before_decay) subtract();
        if (!slip.decay_after_update) decay_all();
        if (!slip.residual_before_decay) subtract();
        if (slip.read_before_update) read();
        for (int64_t c = 0; c < d; ++c) state(c) += beta * in.k(b, i, key_head, c) * k_factor * residual;
        if (slip.decay_after_update) decay_all();
        if (!slip.read_before_update) read();
        o(b, i, h, n, e) = value;
      }
    }
    for (int64_t e = 0; shape.carry && e < d * dv; ++e) set_value(host.x.final_state, item * d * dv + e, s[static_cast<size_t>(e)]);
  }
  const Component& component = find_component("kda");
  for (const char* name : {"o", "final_state"})
    if (const size_t f = component.index(name); call.views[f]) HostCopy::write(host.views[f], call.views[f]);
}

Fault slip_fault(std::string name, std::string about, std::string guards, Slip slip) {
  return Fault{.component = "kda", .name = std::move(name), .about = std::move(about), .guards = std::move(guards),
               .plant = [slip](const Variant& truth) { return plant::with_forward(truth, [slip](const Call& call) { slipped_forward(call, slip); }); }};
}

Variant with_zeroed_input(const Variant& truth, const std::string& field, Phase when = Phase::Both) {
  return plant::with_inputs(truth, {field}, [field](const Editor& e) { if (e.has(field)) e.edit(field, zero); }, when);
}

constexpr const char* kJudging = "b=2 t=160 h=2 group=2 d=16 dv=8 docs=3 carry=1";
std::string judged_with(const std::string& more) { return std::string(kJudging) + " " + more; }

const Registered<Fault> kDecayAfterUpdate{slip_fault("decay_after_update", "the new token is decayed with the old state", "kda.md §1.1", {.decay_after_update = true})};
const Registered<Fault> kResidual{slip_fault("residual_of_undecayed_state", "v − Sᵀk is taken before the decay", "kda.md §1.1", {.residual_before_decay = true})};
const Registered<Fault> kReadBefore{slip_fault("read_before_update", "o does not see its own token", "kda.md §1.1", {.read_before_update = true})};
const Registered<Fault> kClamp{slip_fault("bound_as_clamp", "the lower bound clamps a softplus gate instead of multiplying a sigmoid", "glm53_flash.md §5 row 1: llama.cpp 116", {.decay_clamped = true})};
const Registered<Fault> kRemainder{slip_fault("heads_by_remainder", "value head hv reads query/key head hv % h instead of hv / group", "kda.md §7 row 5: flash-linear-attention #624", {.heads_by_remainder = true})};

const Registered<Fault> kWrongGate{Fault{
    .component = "kda", .name = "bounded_kernel_on_softplus_gate", .about = "a softplus model runs through the kernel of the bounded gate",
    .guards = "kda.md §7 row 32: FlashKDA #3, #7", .plant = [](const Variant& truth) { return with_axis(truth, "gate", static_cast<double>(Gate::Bounded)); },
    .axes = judged_with("gate=1")}};

const Registered<Fault> kBetaNotDoubled{Fault{
    .component = "kda", .name = "beta_not_doubled", .about = "β = σ(x) where the model asks for 2σ(x)", .guards = "kda.md §1.2",
    .plant = [](const Variant& truth) { return with_axis(truth, "beta", static_cast<double>(kda::Beta::Sigmoid)); }, .axes = judged_with("beta=2")}};

const Registered<Fault> kMeanNorm{Fault{
    .component = "kda", .name = "norm_epsilon_on_mean", .about = "eps is added to the mean of squares, so to the sum d times", .guards = "glm53_flash.md §5 row 2: mlx-lm 1624",
    .plant = [](const Variant& truth) {
      return plant::with_axes(truth, [](Axes& axes) { axes.set("eps", axes.real("eps") * axes.real("d")); });
    },
    .axes = judged_with("eps=0.05")}};

const Registered<Fault> kScale{Fault{
    .component = "kda", .name = "scale_forgotten", .about = "q is not multiplied by 1/√d",
    .plant = [](const Variant& truth) { return with_axis(truth, "scale", 1); }}};

const Registered<Fault> kDocumentLeak{Fault{
    .component = "kda", .name = "document_leak", .about = "the state of one document goes on into the next", .guards = "kda.md §7 row 31: torchtitan #4313, #4164",
    .plant = [](const Variant& truth) { return with_zeroed_input(truth, "document"); }}};

const Registered<Fault> kStateRestarts{Fault{
    .component = "kda", .name = "initial_state_ignored", .about = "every shard starts from a zero state", .guards = "kda.md §7 rows 26, 29: vllm #51039, accelerate #4177",
    .plant = [](const Variant& truth) { return with_zeroed_input(truth, "initial_state"); }}};

const Registered<Fault> kFinalGradient{Fault{
    .component = "kda", .name = "final_state_gradient_ignored", .about = "backward starts from dS = 0 although the state goes on", .guards = "kda.md §7 row 29: accelerate #4177, gradients wrong while the loss looks right",
    .plant = [](const Variant& truth) { return with_zeroed_input(truth, "dfinal_state", Phase::Backward); }}};

const Registered<Fault> kInitialGradient{Fault{
    .component = "kda", .name = "initial_state_gradient_missing", .about = "nothing flows back to the shard before", .guards = "kda.md §7 row 11: flash-linear-attention, initial_state lost in backward",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) { e.edit("dinitial_state", zero); }, Phase::Backward);
    }}};

const Registered<Fault> kTransposed{Fault{
    .component = "kda", .name = "state_transposed", .about = "initial_state is read as [dv, d]", .guards = "kda.md §7 row 25: vllm #41292",
    .plant = [](const Variant& truth) {
      return plant::with_inputs(truth, {"initial_state"}, [](const Editor& e) {
        e.edit("initial_state", [](const TensorView& state) {
          const Tensor before = clone(state);
          const int64_t d = state.shape[3], dv = state.shape[4];
          for (int64_t flat = 0; flat < state.size(); ++flat) {
            const int64_t at = flat % (d * dv);
            set_value(state, flat, value_at(before, flat - at + at % dv * d + at / dv));
          }
        });
      });
    }}};

const Registered<Fault> kLastChunk{Fault{
    .component = "kda", .name = "last_partial_chunk_skipped", .about = "tokens past the last full chunk of 64 are never written", .guards = "kda.md §7 row 34: flash-linear-attention-npu #266",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) {
        for (const char* name : {"o", "dq", "dk", "dv", "dg", "dbeta"}) e.edit(name, [](const TensorView& view) { zero(view.slice(1, view.shape[1] / 64 * 64, view.shape[1])); });
      });
    }}};

const Registered<Fault> kTailRows{Fault{
    .component = "kda", .name = "tail_rows_not_neutral", .about = "the rows that fill up the last chunk decay the state by gate(0)", .guards = "kda.md §7 row 21: cuLA #38",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) {
        const Axes& axes = e.axes();
        const double rows = static_cast<double>((64 - axes["t"] % 64) % 64), bound = axes.real("lower_bound");
        const int64_t heads = axes["h"] * axes["group"], d = axes["d"], dv = axes["dv"];
        std::vector<double> factor(static_cast<size_t>(heads * d));
        e.edit("A_log", [&](const TensorView& a_log) {
          e.edit("dt_bias", [&](const TensorView& bias) {
            for (int64_t c = 0; c < heads * d; ++c) factor[static_cast<size_t>(c)] = std::exp(rows * bound * Activation<double>::sigmoid(std::exp(value_at(a_log, c / d)) * value_at(bias, c)));
          });
        });
        e.edit("final_state", [&](const TensorView& state) {
          for (int64_t flat = 0; flat < state.size(); ++flat) set_value(state, flat, value_at(state, flat) * factor[static_cast<size_t>(flat / dv % (heads * d))]);
        });
      }, Phase::Forward);
    }}};

const Registered<Fault> kDiagonal{Fault{
    .component = "kda", .name = "diagonal_in_decay_gradient", .about = "q·k of a token with itself is counted as if it had been decayed", .guards = "kda.md §7 row 3: attention-gym #461",
    .plant = [](const Variant& truth) {
      return plant::with_backward(truth, [right = truth.backward](const Call& call) {
        right(call);
        synchronize(call.views[0].device);
        const Shape shape(call.axes);
        const HostCopy host(call);
        const Activation<double> in(shape, host.x);
        const auto dg = host.x.dg.elements<double, 5>(), d_o = host.x.d_o.elements<double, 5>();
        for (int64_t item = 0; item < shape.b * shape.t * shape.h * shape.group; ++item) {
          const int64_t n = item % shape.group, h = item / shape.group % shape.h, i = item / (shape.group * shape.h) % shape.t, b = item / (shape.group * shape.h * shape.t);
          double upstream = 0;  // of q·k, with β v for the whole step
          for (int64_t e = 0; e < shape.dv; ++e) upstream += shape.scale * d_o(b, i, h, n, e) * in.beta(b, i, h, n) * in.v(b, i, h, n, e);
          const double factor = in.inverse_norm(in.q, b, i, h) * in.inverse_norm(in.k, b, i, h) * upstream;
          for (int64_t c = 0; c < shape.d; ++c) dg(b, i, h, n, c) += in.gate_gradient(b, i, h, n, c, factor * in.q(b, i, h, c) * in.k(b, i, h, c)).x;
        }
        const size_t f = find_component("kda").index("dg");
        HostCopy::write(host.views[f], call.views[f]);
      });
    }}};

const Registered<Fault> kALogFactor{Fault{
    .component = "kda", .name = "A_log_gradient_without_input", .about = "dA_log sums dx instead of dx (x + dt_bias)", .guards = "kda.md §2.1",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) {
        e.edit("ddt_bias", [&](const TensorView& bias) {
          e.edit("dA_log", [&](const TensorView& a_log) {
            const int64_t d = bias.size() / a_log.size();
            zero(a_log);
            for (int64_t flat = 0; flat < bias.size(); ++flat) set_value(a_log, flat / d, value_at(a_log, flat / d) + value_at(bias, flat));
          });
        });
      }, Phase::Backward);
    }}};

const Registered<Fault> kGateOfHeadZero{Fault{
    .component = "kda", .name = "gate_of_head_zero", .about = "every head takes A_log and dt_bias of head 0", .guards = "kda.md §7 row 1: flash-linear-attention #1115",
    .plant = [](const Variant& truth) {
      return plant::with_inputs(truth, {"A_log", "dt_bias"}, [](const Editor& e) {
        const int64_t d = e.axes()["d"];
        e.edit("A_log", [](const TensorView& view) { fill(view, value_at(view, 0)); });
        e.edit("dt_bias", [d](const TensorView& view) {
          for (int64_t flat = d; flat < view.size(); ++flat) set_value(view, flat, value_at(view, flat % d));
        });
      });
    }}};

const Registered<Fault> kParametersDropped{Fault{
    .component = "kda", .name = "gate_parameters_dropped", .about = "a wrapper swallows A_log, dt_bias and the sigmoid of beta",
    .guards = "glm53_flash.md §5 row 18: fla 0.4.2",
    .plant = [](const Variant& truth) {
      return with_axis(with_zeroed_input(with_zeroed_input(truth, "A_log"), "dt_bias"), "beta", static_cast<double>(kda::Beta::Given));
    }}};

const Registered<Fault> kNarrowState{Fault{
    .component = "kda", .name = "carried_state_in_bf16", .about = "the state is rounded to bf16 on its way to the next shard",
    .guards = "kda.md §7 row 10: flash-linear-attention #740",
    .plant = [](const Variant& truth) {
      return plant::with_input(truth, "initial_state", [](const TensorView& state) { plant::round_to_bits(state, 7); });
    }}};

const Registered<Fault> kValuesOverwritten{Fault{
    .component = "kda", .name = "values_overwritten", .about = "v is used as scratch", .guards = "glm53_flash.md §5 row 32: GLM-5.3-Flash-NVFP4-DFlash2 issue 4",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) { e.edit("v", [](const TensorView& v) { plant::scale(v, 0.5); }); });
    }}};

const Registered<Fault> kGridTooShort{Fault{
    .component = "kda", .name = "sequences_past_the_grid", .about = "a grid axis ends at 65,535: sequences behind are never computed",
    .guards = "glm53_flash.md §5 row 35: vLLM's grid of sequences times heads",
    .plant = [](const Variant& truth) {
      return plant::with_outputs(truth, [](const Editor& e) { e.edit("o", [](const TensorView& o) { zero(o.slice(0, 65535, o.shape[0])); }); }, Phase::Forward);
    },
    .axes = "b=65600 t=1 h=1 d=2"}};

const Registered<Fault> kNarrowRows{Fault{
    .component = "kda", .name = "rows_wrap_at_65536", .about = "a 16-bit row number: tokens from 65,536 on read v of the tokens 65,536 before", .guards = "kda.md §7 rows 4, 26: flash-linear-attention #1080, vllm #39087",
    .plant = [](const Variant& truth) {
      return plant::with_inputs(truth, {"v"}, [](const Editor& e) {
        e.edit("v", [](const TensorView& v) {
          const Tensor before = clone(v);
          for (int64_t i = 65536; i < v.shape[1]; ++i) copy(before->slice(1, i - 65536, i - 65535), v.slice(1, i, i + 1));
        });
      });
    },
    .axes = "b=1 t=66000 h=1 d=4"}};

}  // namespace
}  // namespace megatoken
