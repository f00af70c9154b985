// Enumerates layouts and techniques. Memory does not depend on the wire, time hardly on memory techniques, so each layout is timed only
// after it fits.
#include <algorithm>

#include "harness/plan/plan.hpp"

namespace megatoken::plan {
namespace {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

/// Layouts of gpus ranks: tp inside one NVLink domain, experts over everything that divides.
std::vector<Layout> layouts_of(const Request& r, const SearchSpace& space) {
  std::vector<Layout> all;
  for (int64_t pp : divisors(space.gpus)) {
    if (pp > space.max_pp) continue;
    for (int64_t tp : divisors(space.gpus / pp)) {
      if (tp > static_cast<int64_t>(r.gpu.node_gpus.value)) continue;
      for (int64_t cp : divisors(space.gpus / pp / tp)) {
        const int64_t stage_ranks = space.gpus / pp;
        Layout layout{.tp = tp, .cp = cp, .dp = stage_ranks / tp / cp, .pp = pp};
        if (!r.model.experts) {
          all.push_back(layout);
          continue;
        }
        for (int64_t ep : divisors(std::min(stage_ranks, r.model.experts->e)))
          for (int64_t etp : {1, 2}) {
            layout.ep = ep, layout.etp = etp;
            all.push_back(layout);
          }
      }
    }
  }
  return all;
}

std::vector<Scheme> schemes_of(const Request& r, const Layout& layout) {
  if (layout.cp == 1 || !r.model.attention) return {r.scheme};
  return {Scheme::Zigzag, Scheme::AllGather, Scheme::Ulysses, Scheme::Usp};
}

/// Memory techniques from cheap to dear; each keeps what the request already asks for.
std::vector<Techniques> techniques_of(const Request& r) {
  std::vector<Techniques> all;
  for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full})
    for (Offload offload : {Offload::None, Offload::Inputs})
      for (OptimizerPlace place : {OptimizerPlace::Gpu, OptimizerPlace::Host})
        for (int64_t zero : {1, 3})
          for (int64_t pieces : {1, 8}) {
            if (offload == Offload::Inputs && recompute != Recompute::Full) continue;
            if (pieces > 1 && recompute != Recompute::Full) continue;
            Techniques t = r.techniques;
            t.recompute = recompute, t.offload = offload, t.optimizer = place, t.zero = zero;
            if (pieces > 1) {
              if (r.model.experts) t.expert_pieces = std::max(t.expert_pieces, pieces);
              t.mlp_pieces = std::max(t.mlp_pieces, pieces);
            }
            all.push_back(t);
          }
  return all;
}

}  // namespace

SearchResult search_layouts(const Request& request, const SearchSpace& space) {
  struct Candidate {
    Request request;
    double tokens_per_second;
  };
  SearchResult result;
  std::vector<Candidate> fitting;
  int64_t lowest_peak = -1;
  Request lowest = request;
  for (const Layout& layout : layouts_of(request, space))
    for (Scheme scheme : schemes_of(request, layout)) {
      Request r = request;
      r.layout = layout;
      r.scheme = scheme;
      if (!why_invalid(r).empty()) continue;
      std::optional<Candidate> fastest;  // of this layout and scheme
      for (const Techniques& techniques : techniques_of(request)) {
        r.techniques = techniques;
        ++result.considered;
        const MemoryPlan memory = plan_memory(r);
        if (!memory.fits()) {
          if (lowest_peak < 0 || memory.peak < lowest_peak) lowest_peak = memory.peak, lowest = r;
          continue;
        }
        ++result.fitting;
        const double speed = plan_time(r).tokens_per_second;
        if (!fastest || speed > fastest->tokens_per_second) fastest = Candidate{r, speed};
      }
      if (fastest) fitting.push_back(*fastest);
    }
  std::stable_sort(fitting.begin(), fitting.end(), [](const auto& a, const auto& b) { return a.tokens_per_second > b.tokens_per_second; });
  for (size_t i = 0; i < std::min(space.keep, fitting.size()); ++i) result.best.push_back(plan_valid(fitting[i].request));
  if (fitting.empty() && lowest_peak >= 0) result.nearest = plan_valid(lowest);
  return result;
}

}  // namespace megatoken::plan
