// The rules a request must keep, and the nearest valid choice for each one that is broken.
#include "harness/plan/request.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "reference/core/error.hpp"
#include "reference/schemes/traffic.hpp"

namespace megatoken::plan {

namespace {

/// The divisor of `whole` nearest to `wish`, the smaller one of two equally near.
int64_t nearest_divisor(int64_t whole, int64_t wish) {
  int64_t best = 1;
  for (int64_t d = 1; d <= whole && d <= 2 * std::max<int64_t>(wish, 1); ++d)
    if (whole % d == 0 && std::abs(d - wish) < std::abs(best - wish)) best = d;
  return best;
}

std::string must_divide(const char* option, int64_t value, const char* what, int64_t whole) {
  if (whole % value == 0) return "";
  return format("--{} {} must divide the {} {}; the nearest is {}", option, value, whole, what, nearest_divisor(whole, value));
}

std::string in_range(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return "";
  return format("--{} {} must lie between {} and {}; the nearest is {}", option, value, least, most, std::clamp(value, least, most));
}

std::string check_sizes(const Request& r) {
  constexpr int64_t kMostTokens = int64_t{1} << 32, kMostGpus = 1 << 20;
  const Layout& l = r.layout;
  const Techniques& t = r.techniques;
  const std::tuple<const char*, int64_t, int64_t, int64_t> ranges[] = {
      {"tokens", r.tokens, 1, kMostTokens}, {"tp", l.tp, 1, kMostGpus}, {"cp", l.cp, 1, kMostGpus}, {"dp", l.dp, 1, kMostGpus},
      {"pp", l.pp, 1, kMostGpus}, {"ep", l.ep, 1, kMostGpus}, {"etp", l.etp, 1, kMostGpus}, {"micro-batches", r.micro_batches, 1, 1 << 20},
      {"zero", t.zero, 0, 3}, {"loss-rows", t.loss_rows, 0, kMostTokens}, {"mlp-pieces", t.mlp_pieces, 1, kMostTokens},
      {"expert-pieces", t.expert_pieces, 1, kMostTokens}, {"index-elements", t.index_elements, 0, int64_t{1} << 50},
      {"query-chunk", t.query_chunk, 0, kMostTokens}, {"ulysses", l.ulysses, 0, l.cp}};
  for (const auto& [option, value, least, most] : ranges)
    if (auto broken = in_range(option, value, least, most); !broken.empty()) return broken;
  if (t.gradient_bytes != 2 && t.gradient_bytes != 4)
    return format("--gradient-bytes {} must be 2 or 4; the nearest is {}", t.gradient_bytes, t.gradient_bytes < 3 ? 2 : 4);
  if (r.bookkeeping.wire_gradient_bytes != 2 && r.bookkeeping.wire_gradient_bytes != 4)
    return format("--wire-gradient-bytes {} must be 2 or 4; the nearest is {}", r.bookkeeping.wire_gradient_bytes,
                  r.bookkeeping.wire_gradient_bytes < 3 ? 2 : 4);
  if (!(t.imbalance >= 1 && t.imbalance <= 1e4)) return format("--imbalance {:g} must lie between 1 (uniform) and 10000", t.imbalance);
  if (!(t.working_set_factor >= 0.1 && t.working_set_factor <= 10))
    return format("--working-set-factor {:g} must lie between 0.1 and 10", t.working_set_factor);
  return "";
}

std::string check_tensor_parallel(const Request& r) {
  const ModelConfig& m = r.model;
  const int64_t tp = r.layout.tp;
  std::vector<std::pair<int64_t, const char*>> wholes{{m.v, "rows of the vocabulary"}};
  if (m.attention) wholes.push_back({m.attention->h, "attention heads"});
  if (m.sparse) wholes.push_back({m.sparse->h, "attention heads"});
  if (m.delta) wholes.push_back({m.delta->h, "recurrent heads"});
  if (m.count(Mlp::Dense) > 0) wholes.push_back({m.intermediate, "columns of the MLP"});
  if (m.experts && m.experts->shared > 0) wholes.push_back({m.experts->width * m.experts->shared, "columns of the shared expert"});
  int64_t common = 0;
  for (const auto& [whole, what] : wholes) common = std::gcd(common, whole);
  for (const auto& [whole, what] : wholes)
    if (whole % tp != 0)
      return format("--tp {} must divide the {} {}; the nearest that divides everything is {}", tp, whole, what,
                    nearest_divisor(common, tp));
  if (m.attention && m.attention->hk % tp != 0 && tp % m.attention->hk != 0)
    return format("--tp {} and the {} key/value heads: one must divide the other; the nearest is {}", tp, m.attention->hk,
                  nearest_divisor(m.attention->hk, tp));
  return "";
}

std::string check_tokens(const Request& r) {
  const int64_t unit = r.layout.cp * std::lcm<int64_t>(r.layout.tp, r.layout.cp > 1 ? 2 : 1);
  if (r.tokens % unit == 0) return "";
  const int64_t nearest = std::max<int64_t>(1, (r.tokens + unit / 2) / unit) * unit;
  return format("--tokens {} must be a multiple of {} (cp {} in two chunks each, tp {}); the nearest is {}", r.tokens, unit, r.layout.cp,
                r.layout.tp, nearest);
}

std::string check_index_width(const Request& r) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (!r.techniques.int32_kernels || r.rows() * r.model.c < kMost) return "";
  const int64_t longest = (kMost - 1) / r.model.c * r.layout.cp * r.layout.tp;
  return format("--int32-kernels: {} rows of {} on one rank reach 2^31 elements; the nearest --tokens is {}", r.rows(), r.model.c, longest);
}

std::string check_host(const Request& r) {
  if (r.techniques.weights_on_host && r.techniques.zero != 3)
    return format("--weights host needs sharded weights; the nearest is --zero 3 (now {})", r.techniques.zero);
  if (r.techniques.offload == Offload::Inputs && r.techniques.recompute != Recompute::Full)
    return format("--offload inputs moves what full recompute keeps; the nearest is --recompute full (now {})",
                  name_of_choice(r.techniques.recompute));
  return "";
}

std::string check_experts(const Request& r) {
  const Layout& l = r.layout;
  if (!r.model.experts) {
    if (l.ep * l.etp > 1) return format("--ep {} --etp {}: model {} has no experts; the nearest is --ep 1 --etp 1", l.ep, l.etp, r.model.name);
    return "";
  }
  if (auto broken = must_divide("ep", l.ep, "experts", r.model.experts->e); !broken.empty()) return broken;
  if (auto broken = must_divide("etp", l.etp, "columns of an expert", r.model.experts->width); !broken.empty()) return broken;
  const int64_t ranks = l.tp * l.cp * l.dp;
  if (ranks % (l.ep * l.etp) != 0)
    return format("--ep {} times --etp {} must divide the {} ranks of a stage (tp·cp·dp); the nearest --ep is {}", l.ep, l.etp, ranks,
                  nearest_divisor(std::gcd(ranks, r.model.experts->e * l.etp), l.ep * l.etp) / std::gcd(l.etp, ranks));
  return "";
}

std::string check_scheme(const Request& r) {
  const Layout& l = r.layout;
  if (l.cp == 1) return "";
  if (r.scheme == Scheme::Usp && l.ulysses > 0)
    if (auto broken = must_divide("ulysses", l.ulysses, "context-parallel ranks", l.cp); !broken.empty()) return broken;
  const int64_t u = r.ulysses_ranks();
  if (r.model.attention && u > 1) {
    const int64_t h = r.model.attention->h / l.tp, hk = std::max<int64_t>(1, r.model.attention->hk / l.tp);
    if (h % u != 0)
      return format("{} ranks of an all-to-all must divide the {} query heads of a rank; the nearest is {}", u, h, nearest_divisor(h, u));
    if (r.bookkeeping.replicate_kv && ulysses_kv_heads(hk, u) == 0)
      return format("{} ranks of an all-to-all and the {} key/value heads of a rank: one must divide the other; the nearest is {}", u, hk,
                    nearest_divisor(hk, u));
  }
  if (r.model.delta && r.delta_exchange != DeltaExchange::State)
    if (const int64_t h = r.model.delta->h / l.tp; h % l.cp != 0)
      return format("--cp {} must divide the {} recurrent heads of a rank; the nearest is {}, or use --delta-exchange state", l.cp, h,
                    nearest_divisor(h, l.cp));
  return "";
}

}  // namespace

int64_t Request::ulysses_ranks() const {
  if (scheme == Scheme::Ulysses) return layout.cp;
  if (scheme != Scheme::Usp) return 1;
  if (layout.ulysses > 0) return layout.ulysses;
  const int64_t hk = model.attention ? std::max<int64_t>(1, model.attention->hk / layout.tp) : 1;
  return std::gcd(hk, layout.cp);
}

std::string why_invalid(const Request& r) {
  for (auto* rule : {check_sizes, check_tensor_parallel, check_tokens, check_index_width, check_host, check_experts, check_scheme})
    if (auto broken = rule(r); !broken.empty()) return broken;
  return must_divide("pp", r.layout.pp, "layers", static_cast<int64_t>(r.model.layers.size()));
}

void check_request(const Request& request) {
  if (auto broken = why_invalid(request); !broken.empty()) throw Error(ErrorKind::Usage, broken);
}

std::string describe_layout(const Request& r) {
  const Layout& l = r.layout;
  const Techniques& t = r.techniques;
  std::string text = format("tp{} cp{} dp{}", l.tp, l.cp, l.dp);
  if (l.pp > 1) text += format(" pp{}", l.pp);
  if (r.model.experts) text += format(" ep{} etp{}", l.ep, l.etp);
  if (l.cp > 1 && r.model.attention) text += " " + name_of_choice(r.scheme);
  if (l.cp > 1 && r.model.attention && r.scheme == Scheme::Usp) text += format("({}x{})", r.ulysses_ranks(), l.cp / r.ulysses_ranks());
  text += format(" zero{} recompute={} offload={} optimizer={}", t.zero, name_of_choice(t.recompute), name_of_choice(t.offload),
                 name_of_choice(t.optimizer));
  if (t.mlp_pieces > 1) text += format(" mlp-pieces={}", t.mlp_pieces);
  if (t.expert_pieces > 1) text += format(" expert-pieces={}", t.expert_pieces);
  if (t.query_chunk > 0) text += format(" query-chunk={}", format_count(t.query_chunk));
  return text;
}

}  // namespace megatoken::plan
