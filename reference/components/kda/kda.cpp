#include "reference/components/kda/kda.hpp"

#include <cmath>

#include "reference/components/kda/inputs.hpp"

namespace megatoken::kda {

Shape::Shape(const Axes& axes)
    : b(axes["b"]), t(axes["t"]), h(axes["h"]), group(axes["group"]), d(axes["d"]), dv(axes["dv"]), docs(axes["docs"]), carry(axes["carry"] != 0),
      gate(static_cast<Gate>(axes["gate"])), beta(static_cast<Beta>(axes["beta"])), l2norm(axes["l2norm"] != 0), lower_bound(axes.real("lower_bound")),
      eps(axes.real("eps")), scale(axes.real("scale") != 0 ? axes.real("scale") : 1 / std::sqrt(static_cast<double>(d))) {}

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"q", Role::Input, "b t h d"}, &T::q},
          {{"k", Role::Input, "b t h d"}, &T::k},
          {{"v", Role::Input, "b t h group dv"}, &T::v},
          {{"g", Role::Input, "b t h group d"}, &T::g},
          {{"beta", Role::Input, "b t h group"}, &T::beta},
          {{"A_log", Role::Input, "h group", Kind::Accum, "", "gate"}, &T::a_log},
          {{"dt_bias", Role::Input, "h group d", Kind::Accum, "", "gate"}, &T::dt_bias},
          {{"document", Role::Input, "b t", Kind::Index}, &T::document},
          {{"initial_state", Role::Input, "b h group d dv", Kind::Accum, "", "carry"}, &T::initial_state},
          {{"o", Role::Output, "b t h group dv"}, &T::o},
          {{"final_state", Role::Output, "b h group d dv", Kind::Accum, "", "carry"}, &T::final_state},
          {{"do", Role::OutputGrad, "b t h group dv", Kind::Data, "o"}, &T::d_o},
          {{"dfinal_state", Role::OutputGrad, "b h group d dv", Kind::Accum, "final_state", "carry"}, &T::d_final_state},
          {{"dq", Role::InputGrad, "b t h d", Kind::Data, "q"}, &T::dq},
          {{"dk", Role::InputGrad, "b t h d", Kind::Data, "k"}, &T::dk},
          {{"dv", Role::InputGrad, "b t h group dv", Kind::Data, "v"}, &T::dv},
          {{"dg", Role::InputGrad, "b t h group d", Kind::Data, "g"}, &T::dg},
          {{"dbeta", Role::InputGrad, "b t h group", Kind::Data, "beta"}, &T::d_beta},
          {{"dA_log", Role::InputGrad, "h group", Kind::Accum, "A_log", "gate"}, &T::d_a_log},
          {{"ddt_bias", Role::InputGrad, "h group d", Kind::Accum, "dt_bias", "gate"}, &T::d_dt_bias},
          {{"dinitial_state", Role::InputGrad, "b h group d dv", Kind::Accum, "initial_state", "carry"}, &T::d_initial_state}};
}

std::vector<Run> document_runs(const Elements<const int32_t, 2>& document, int64_t b, int64_t t) {
  std::vector<Run> runs;
  for (int64_t begin = 0, end; begin < t; begin = end) {
    end = begin + 1;
    while (end < t && document(b, end) == document(b, begin)) ++end;
    if (document(b, begin) >= 0) runs.push_back({begin, end});
  }
  return runs;
}

namespace {

void validate(const Axes& axes) {
  const double bound = axes.real("lower_bound"), eps = axes.real("eps");
  MEGATOKEN_CHECK(bound < 0, "kda: lower_bound={} is not valid, expected a negative number (-5 in GLM-5.3-Flash); it multiplies a sigmoid to give the log-decay g", bound);
  MEGATOKEN_CHECK(eps > 0 || axes["l2norm"] == 0, "kda: eps={} is not valid, expected a positive number; q and k rows of zeros could not be normalised", eps);
}

/// Per token and value head: forward 7·d·dv (decay 1, residual 2, update 2, read 2); backward runs forward again without the read
/// and adds dS, dq, du, dk, dS', dg and the decay: 22·d·dv.
Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape x(axes);
  const auto tokens = static_cast<double>(x.b * x.t), heads = static_cast<double>(x.h * x.group), d = static_cast<double>(x.d), dv = static_cast<double>(x.dv);
  const auto keys = tokens * static_cast<double>(x.h) * d, values = tokens * heads * dv, gates = tokens * heads * (d + 1);
  const auto size = static_cast<double>(size_of(dtype)), wide = static_cast<double>(size_of(accumulator_of(dtype)));
  const double states = x.carry ? wide * static_cast<double>(x.b) * heads * d * dv : 0, parameters = x.gate == Gate::Given ? 0 : wide * heads * (d + 1);
  const double inputs = size * (2 * keys + values + gates) + parameters;
  const Cost forward{7 * tokens * heads * d * dv, inputs + size * values + 2 * states};
  const Cost backward{22 * tokens * heads * d * dv, 2 * inputs + size * values + 3 * states};
  if (phase == Phase::Forward) return forward;
  if (phase == Phase::Backward) return backward;
  return {forward.flops + backward.flops, forward.bytes + backward.bytes};
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "Kimi Delta Attention: decay per channel, delta rule, grouped value heads, packed documents, carried state";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 1024, .min = 0, .max = 2147483647},
            {.name = "h", .about = "query and key heads", .fallback = 2, .min = 1},
            {.name = "group", .about = "value heads that share a query/key head", .fallback = 1, .min = 1, .option = true},
            {.name = "d", .about = "query and key width", .fallback = 64, .min = 1},
            {.name = "dv", .about = "value width", .same_as = "d", .min = 1},
            {.name = "docs", .about = "packed documents", .fallback = 1, .min = 1, .option = true},
            {.name = "carry", .about = "initial_state comes in, final_state goes out", .fallback = 0, .max = 1, .option = true},
            {.name = "gate", .about = "how g becomes the log-decay", .fallback = 2, .option = true, .choices = {"given", "softplus", "bounded"}},
            {.name = "beta", .about = "how beta becomes the step", .fallback = 1, .option = true, .choices = {"given", "sigmoid", "doubled"}},
            {.name = "l2norm", .about = "q and k are normalised per head", .fallback = 1, .max = 1, .option = true},
            {.name = "lower_bound", .about = "factor of the bounded gate", .fallback = -5, .min = -1e6, .max = 1e6, .real = true, .option = true},
            {.name = "eps", .about = "added to the sum of squares of q and k", .fallback = 1e-6, .max = 1e6, .real = true, .option = true},
            {.name = "scale", .about = "factor on q; 0 means 1/sqrt(d)", .fallback = 0, .min = -1e6, .max = 1e6, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"scan", "h", {"o", "final_state", "dq", "dk", "dv", "dg", "dbeta", "dA_log", "ddt_bias", "dinitial_state"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.carry = "carry";
  c.examples = {"b=1 t=1 h=1 d=1 eps=0.5",
                "b=2 t=9 h=2 d=3 dv=2",
                "b=1 t=0 h=1 d=2 carry=1",
                "b=2 t=7 h=2 group=3 d=2 dv=3 carry=1 docs=3",
                "b=1 t=8 h=1 d=3 gate=0 beta=0 l2norm=0",
                "b=2 t=6 h=2 group=2 d=3 dv=2 gate=1 beta=2 docs=2",
                "b=1 t=9 h=1 d=3 gate=1 beta=0 l2norm=0 carry=1",
                "b=1 t=8 h=2 d=2 gate=0 beta=2 scale=-0.7",
                "b=1 t=7 h=1 d=4 lower_bound=-1.5 eps=0.2",
                "b=1 t=5 h=2 d=2 docs=9 carry=1",
                "b=1 t=66 h=1 d=3 dv=2 docs=2 carry=1"};
  c.judging = "b=2 t=160 h=2 group=2 d=16 dv=8 docs=3 carry=1";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::kda
