// Faults of index_topk: ties, the tail, visibility, candidates that are dropped, scores that are formed or kept badly. Most are one wrong
// rule in a selection that is done again on the host.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using namespace plant;

/// How a wrong selection differs from the right one.
struct Rule {
  bool higher_id = false;         // ties go to the higher id
  bool linear = false;            // no ReLU
  bool bf16_scores = false;       // scores are rounded before they are compared
  bool first_token_visible = false;  // a pool counts as soon as its first token is visible
  bool tail_of_the_sequence = false; // the tail is that of the last token
  bool no_tail = false;
  bool tokens_not_pools = false;     // the best tokens fill the whole width: the last pool is cut
  bool short_unmasked = false;       // a document that fits into the width is taken whole
  int64_t buffer = std::numeric_limits<int64_t>::max();  // candidates that are looked at
};

struct Pool {
  double score;
  int64_t first;
};

/// Chooses again, for inputs read from host tensors: documents are runs of equal ids, pools are counted from the start of each.
void choose(const Rule& rule, const Axes& axes, const TensorView& q, const TensorView& w, const TensorView& k, const TensorView& position,
            const TensorView& document, const TensorView& id, const TensorView& score) {
  const int64_t t = axes["t"], s = axes["s"], h = axes["h"], d = axes["d"], pool = axes["pool"], topk = axes["topk"], rows = s / pool, width = id.shape[2];
  const double scale = axes.real("scale") > 0 ? axes.real("scale") : 1 / std::sqrt(static_cast<double>(d));
  for (int64_t row = 0; row < axes["b"] * t; ++row) {
    const int64_t b = row / t, own = static_cast<int64_t>(value_at(position, row % t));
    int64_t start = own;
    while (start > 0 && value_at(document, b * s + start - 1) == value_at(document, b * s + own)) --start;
    int64_t end = own + 1;
    while (end < s && value_at(document, b * s + end) == value_at(document, b * s + own)) ++end;
    std::vector<Pool> pools;
    for (int64_t first = start; first + pool <= end && first + (rule.first_token_visible ? 0 : pool - 1) <= own; first += pool) {
      double sum = 0;
      for (int64_t head = 0; head < h; ++head) {
        double dot = 0;
        for (int64_t c = 0; c < d; ++c) dot += value_at(q, (row * h + head) * d + c) * value_at(k, (b * rows + first / pool) * d + c);
        sum += value_at(w, row * h + head) * (rule.linear ? dot : std::max(0.0, dot));
      }
      pools.push_back({scale * sum, first});
    }
    if (static_cast<int64_t>(pools.size()) > rule.buffer) pools.resize(static_cast<size_t>(rule.buffer));
    const auto seen = [&](const Pool& p) { return rule.bf16_scores ? static_cast<double>(BFloat16(p.score)) : p.score; };
    std::stable_sort(pools.begin(), pools.end(), [&](const Pool& x, const Pool& y) { return seen(x) != seen(y) ? seen(x) > seen(y) : rule.higher_id && x.first > y.first; });
    const std::vector<Pool> ranked = pools;
    if (static_cast<int64_t>(pools.size()) > topk) pools.resize(static_cast<size_t>(topk));
    const Pool* next = rule.tokens_not_pools && static_cast<int64_t>(ranked.size()) > topk ? &ranked[static_cast<size_t>(topk)] : nullptr;
    std::sort(pools.begin(), pools.end(), [](const Pool& x, const Pool& y) { return x.first < y.first; });
    fill(id.slice(0, b, b + 1).slice(1, row % t, row % t + 1), -1);
    fill(score.slice(0, b, b + 1).slice(1, row % t, row % t + 1), -std::numeric_limits<double>::infinity());
    int64_t out = 0;
    for (size_t p = 0; p < pools.size(); ++p) {
      set_value(score, row * topk + static_cast<int64_t>(p), pools[p].score);
      for (int64_t j = 0; j < pool; ++j) set_value(id, row * width + out++, static_cast<double>(pools[p].first + j));
    }
    const int64_t last = rule.tail_of_the_sequence ? end - 1 : own;
    if (!rule.no_tail)
      for (int64_t j = start + (last + 1 - start) / pool * pool; j <= last && out < width; ++j) set_value(id, row * width + out++, static_cast<double>(j));
    for (int64_t j = 0; next && out < width; ++j) set_value(id, row * width + out++, static_cast<double>(next->first + j));
    for (int64_t j = 0; rule.short_unmasked && end - start <= width && j < width; ++j) set_value(id, row * width + j, start + j < end ? static_cast<double>(start + j) : -1);
  }
}

Variant choosing(const Variant& truth, const Rule& rule) {
  return with_outputs(truth, [rule](const Editor& e) {
    e.edit("q", [&](const TensorView& q) { e.edit("w", [&](const TensorView& w) { e.edit("k", [&](const TensorView& k) { e.edit("position", [&](const TensorView& position) {
      e.edit("document", [&](const TensorView& document) { e.edit("id", [&](const TensorView& id) { e.edit("score", [&](const TensorView& score) {
        choose(rule, e.axes(), q, w, k, position, document, id, score);
      }); }); });
    }); }); }); });
  }, Phase::Forward);
}

Registered<Fault> fault(const char* name, const char* about, std::function<Variant(const Variant&)> plant, const char* guards = "") {
  return Registered<Fault>{Fault{.component = "index_topk", .name = name, .about = about, .guards = guards, .plant = std::move(plant)}};
}

/// The last selected token of every row that has one is dropped.
void drop_last_id(const TensorView& id) {
  const int64_t n = id.shape[2];
  for (int64_t row = 0; row < id.size() / n; ++row)
    for (int64_t j = n - 1; j >= 0; --j)
      if (value_at(id, row * n + j) >= 0) {
        set_value(id, row * n + j, -1);
        break;
      }
}

void start_chunks_at_zero(const TensorView& position) {
  for (int64_t i = 0; i < position.size(); ++i) position.as<int32_t>()[i] %= 128;
}

void drop_signs(const TensorView& w) {
  for (int64_t i = 0; i < w.size(); ++i) set_value(w, i, std::abs(value_at(w, i)));
}

const Registered<Fault> kShortUnmasked{Fault{
    .component = "index_topk", .name = "short_documents_unmasked", .about = "a document no longer than the width is taken whole, with its future",
    .guards = "dsa.md B18: vmlx-swift #429", .plant = [](const Variant& v) { return choosing(v, {.short_unmasked = true}); }, .axes = "b=2 t=120 h=4 d=16 topk=40"}};

const Registered<Fault> faults[] = {
    fault("ties_by_the_higher_id", "of equal scores the higher id wins", [](const Variant& v) { return choosing(v, {.higher_id = true}); },
          "dsa.md B8: sglang #31115"),
    fault("scores_kept_in_bf16", "scores are rounded to bf16 before they are compared", [](const Variant& v) { return choosing(v, {.bf16_scores = true}); },
          "dsa.md B9, B10: omlx #2243, sglang #37591"),
    fault("candidates_dropped", "a buffer of 24 candidates overflows silently", [](const Variant& v) { return choosing(v, {.buffer = 24}); },
          "dsa.md B1, B3, B4: tilelang #1351, sglang #36807, b12x #55"),
    fault("no_relu", "negative products count", [](const Variant& v) { return choosing(v, {.linear = true}); },
          "glm53_flash.md §2.5 step 6"),
    fault("future_leak", "a pool is a candidate as soon as its first token is visible", [](const Variant& v) { return choosing(v, {.first_token_visible = true}); },
          "dsa.md B19: transformers #45820"),
    fault("tail_of_the_sequence", "the tail is that of the document's end, not of the query", [](const Variant& v) { return choosing(v, {.tail_of_the_sequence = true}); },
          "glm53_flash.md §5 trap 14"),
    fault("tail_ignored", "tail tokens are not selected", [](const Variant& v) { return choosing(v, {.no_tail = true}); },
          "dsa.md B15: local-inference-lab/vllm #715"),
    fault("pool_cut", "the last selected pool loses a token", [](const Variant& v) { return with_output(v, "id", drop_last_id); }, "dsa.md B16: llama.cpp #28497"),
    fault("tokens_instead_of_pools", "slots that the tail leaves free are filled with a part of the next best pool", [](const Variant& v) { return choosing(v, {.tokens_not_pools = true}); },
          "glm53_flash.md §5 row 13, dsa.md B16: llama.cpp #27752, #28497"),
    fault("row_offset_lost", "the second chunk of 128 queries starts again at position 0", [](const Variant& v) { return with_input(v, "position", start_chunks_at_zero); },
          "dsa.md B20: Megatron #5099"),
    fault("documents_ignored", "pools run across documents", [](const Variant& v) { return with_input(v, "document", zero); }, "glm53_flash.md §5 trap 14"),
    fault("unsigned_weights", "head weights lose their sign", [](const Variant& v) { return with_input(v, "w", drop_signs); }, "dsa.md §1.2"),
};

}  // namespace
}  // namespace megatoken
