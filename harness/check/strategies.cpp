#include "harness/check/strategies.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "harness/check/oracle.hpp"
#include "reference/core/device.hpp"
#include "reference/core/names.hpp"
#include "reference/core/random.hpp"

namespace megatoken {
namespace {

bool judged(const Field& field, Phase phase) { return field.role == Role::Output || (field.role == Role::InputGrad && phase != Phase::Forward); }

/// The problem restricted to some indices of one axis; forward outputs are taken along from `outputs` when given.
Problem restrict_axis(const Problem& problem, const std::string& axis, const std::vector<int64_t>& index, const Problem* outputs) {
  const Component& component = problem.component();
  Axes axes = problem.axes();
  axes.set(axis, static_cast<double>(index.size()));
  Problem part(component, axes, problem.dtype());
  for (size_t i = 0; i < component.fields.size(); ++i) {
    const Field& field = component.fields[i];
    const bool output = field.role == Role::Output;
    if (!part.views()[i] || field.role == Role::InputGrad || (output && !outputs)) continue;
    const TensorView& from = output ? outputs->views()[i] : problem.views()[i];
    const int position = Component::axis_position(field, axis);
    copy(position < 0 ? from : gather_rows(from, position, index).view(), part.views()[i]);
  }
  return part;
}

/// The first entries along every dimension, as far as the shapes of `axes` reach.
Problem cut_problem(const Problem& problem, const Axes& axes) {
  Problem part(problem.component(), axes, problem.dtype());
  for (size_t i = 0; i < part.views().size(); ++i) {
    const Role role = problem.component().fields[i].role;
    if (!part.views()[i] || (role != Role::Input && role != Role::OutputGrad)) continue;
    TensorView from = problem.views()[i];
    for (int axis = 0; axis < from.shape.rank(); ++axis) from = from.slice(axis, 0, part.views()[i].shape[axis]);
    copy(from, part.views()[i]);
  }
  return part;
}

/// 1 for a token axis in a layout, the divisor for rows that stand for several tokens ("s/pool": pools), 0 for everything else.
int64_t tokens_per_row(const Component& component, const Axes& axes, const std::string& word) {
  const size_t slash = word.find('/');
  const auto& tokens = component.token_axes;
  if (std::find(tokens.begin(), tokens.end(), word.substr(0, slash)) == tokens.end()) return 0;
  return slash == std::string::npos ? 1 : axes[word.substr(slash + 1)];
}

/// Makes [offset, offset + length) a document of its own. The others keep their borders, so that the sequence costs what it did,
/// and their ascending order; the one it lies in is cut in two.
void insert_document(int32_t* document, int64_t tokens, int64_t offset, int64_t length) {
  int32_t around = 0;
  for (int64_t i = 0; i < tokens; ++i) {
    if (i <= offset) around = std::max(around, document[i]);
    if (i >= offset && i < offset + length) document[i] = 3 * around + 1;
    else if (document[i] >= 0) document[i] = 3 * document[i] + (i < offset ? 0 : 2);
  }
}

/// How many whole sequences (heads, channels) may be recomputed.
int64_t scan_samples(const Evidence& e, const std::string& axis, int64_t samples, double flops) {
  const Component& component = e.problem.component();
  Axes axes = e.problem.axes();
  for (samples = std::min(samples, axes[axis]); samples > 2 && component.cost; --samples) {
    axes.set(axis, static_cast<double>(samples));
    if (component.cost(axes, e.test.dtype, e.test.phase).flops <= flops) break;
  }
  return samples;
}

const TensorView* naive_view(const Truth& truth, size_t field) { return truth.naive ? &truth.naive->views()[field] : nullptr; }

}  // namespace

std::vector<size_t> document_fields(const Component& component) {
  std::vector<size_t> found;
  for (size_t i = 0; i < component.fields.size(); ++i)
    if (component.fields[i].kind == Kind::Index && component.fields[i].role == Role::Input && component.fields[i].name.find("document") != std::string::npos) found.push_back(i);
  return found;
}

std::vector<int64_t> sample_indices(int64_t n, int64_t count, int ranks, uint64_t seed) {
  std::set<int64_t> chosen;
  const auto add = [&](int64_t i) {
    if (i >= 0 && i < n && static_cast<int64_t>(chosen.size()) < count) chosen.insert(i);
  };
  add(0), add(n - 1), add(n - 2);
  const int64_t shard = (n + ranks - 1) / std::max(ranks, 1);
  for (int64_t edge : {n / 2 / 64 * 64, n / 128 * 128, (n - 1) / 256 * 256, shard, (ranks - 1) * shard}) add(edge - 1), add(edge);
  const RandomStream stream(seed, "sampled indices");
  for (int64_t i = 0; i < 4 * count && n > 0; ++i) add(stream.integer(i, n));
  return {chosen.begin(), chosen.end()};
}

Checks check_full(const Evidence& e) {
  const auto truth = cached_truth(e.test.problem() + (e.test.phase == Phase::Forward ? " fwd" : ""), e.problem, e.test.phase, e.threads);
  Checks checks;
  const auto& fields = e.problem.component().fields;
  for (size_t i = 0; i < fields.size(); ++i)
    if (judged(fields[i], e.test.phase) && e.problem.views()[i])
      checks.push_back(judge(e.problem.component(), fields[i], "full", "cpu fp64", e.run.result.views()[i], truth->oracle.views()[i], naive_view(*truth, i), e.test.dtype, e.tolerances));
  return checks;
}

Checks check_exact(const Evidence& e) {
  const auto truth = cached_truth(e.test.problem() + (e.test.phase == Phase::Forward ? " fwd" : ""), e.problem, e.test.phase, e.threads);
  Checks checks;
  const auto& fields = e.problem.component().fields;
  for (size_t i = 0; i < fields.size(); ++i)
    if (judged(fields[i], e.test.phase) && e.problem.views()[i])
      checks.push_back(judge(e.problem.component(), fields[i], "exact", "cpu fp64", e.run.result.views()[i], truth->oracle.views()[i], nullptr, e.test.dtype, e.tolerances, true));
  return checks;
}

Checks check_slice(const Evidence& e, const Slice& slice, int64_t samples, double scan_flops) {
  const Component& component = e.problem.component();
  if (slice.given_forward && e.test.phase == Phase::Forward) return {};
  if (slice.strategy == "scan") samples = scan_samples(e, slice.axis, samples, scan_flops);
  const auto index = sample_indices(e.problem.axes()[slice.axis], samples, e.subject.ranks, e.test.seed);
  if (index.empty()) return {};
  const Problem part = restrict_axis(e.problem, slice.axis, index, slice.given_forward ? &e.run.result : nullptr);
  const Truth truth = find_truth(part, e.test.phase, e.threads, slice.given_forward);
  Checks checks;
  for (const auto& name : slice.outputs) {
    const size_t i = component.index(name);
    const Field& field = component.fields[i];
    if (!judged(field, e.test.phase) || !part.views()[i]) continue;
    const int position = Component::axis_position(field, slice.axis);
    const Tensor got = position < 0 ? clone(e.run.result.views()[i]) : gather_rows(e.run.result.views()[i], position, index);
    checks.push_back(judge(component, field, slice.strategy, "cpu fp64 on " + slice.axis + " sampled", got, truth.oracle.views()[i], naive_view(truth, i), e.test.dtype, e.tolerances));
    // Say where in the whole tensor, not where in the sample.
    if (position >= 0) {
      Dims whole = e.run.result.views()[i].shape;
      int64_t flat = checks.back().comparison.worst, stride = 1, place = 0;
      for (int axis = whole.rank() - 1; axis >= 0; --axis) {
        const int64_t extent = got->shape[axis], at = extent > 0 ? flat % extent : 0;
        place += (axis == position ? index[static_cast<size_t>(at)] : at) * stride;
        stride *= whole[axis];
        if (extent > 0) flat /= extent;
      }
      checks.back().worst_index = coordinate(field.axes, whole, place);
    }
  }
  return checks;
}

Checks check_prefix(const Evidence& e) {
  const Component& component = e.problem.component();
  if (!component.causal || !component.causal(e.problem.axes()) || component.token_axes.empty()) return {};
  const int64_t tokens = e.problem.axes()[component.token_axes[0]];
  for (const auto& axis : component.token_axes)
    if (e.problem.axes()[axis] != tokens) return {};
  const int64_t kept = std::min<int64_t>(tokens / 2, 384);
  if (kept < 1) return {};
  const Problem part = cut_problem(e.problem, component.shortened(e.problem.axes(), kept));
  const Truth truth = find_truth(part, Phase::Forward, e.threads);
  Checks checks;
  for (size_t i = 0; i < component.fields.size(); ++i) {
    const Field& field = component.fields[i];
    if (field.role != Role::Output || !part.views()[i]) continue;
    bool has_tokens = false;
    TensorView got = e.run.result.views()[i];
    for (int axis = 0; axis < got.shape.rank(); ++axis) {
      has_tokens |= got.shape[axis] != part.views()[i].shape[axis];
      got = got.slice(axis, 0, part.views()[i].shape[axis]);
    }
    if (has_tokens) checks.push_back(judge(component, field, "prefix", "cpu fp64 on the first tokens", clone(got), truth.oracle.views()[i], naive_view(truth, i), e.test.dtype, e.tolerances));
  }
  return checks;
}

Checks check_shift(const Evidence& e) {
  const Component& component = e.problem.component();
  const auto documents = document_fields(component);
  if (documents.empty() || component.token_axes.empty() || e.subject.scheme) return {};
  const int64_t tokens = e.problem.axes()[component.token_axes[0]];
  for (const auto& axis : component.token_axes)
    if (e.problem.axes()[axis] != tokens) return {};
  const int64_t length = std::min<int64_t>(tokens / 3, 384), offset = tokens - length - tokens / 7;
  if (length < 1) return {};

  Axes short_axes = component.shortened(e.problem.axes(), length);
  if (short_axes.has("docs")) short_axes.set("docs", 1);
  if (!component.carry.empty()) short_axes.set(component.carry, 0);  // nothing is carried into a document that starts later
  if (short_axes.has("padding")) short_axes.set("padding", 0);
  Problem alone(component, short_axes, e.test.dtype);
  alone.fill(e.test.distribution, e.test.seed + 1, e.tokens);
  Problem packed = e.problem.converted(e.test.dtype);
  const auto window = [&](const TensorView& view, const Field& field) {
    TensorView part = view;
    const auto words = split(field.axes, ' ');
    for (size_t i = 0; i < words.size(); ++i)
      if (const int64_t tokens_a_row = tokens_per_row(component, e.problem.axes(), words[i]); tokens_a_row > 0)
        part = part.slice(static_cast<int>(i), offset / tokens_a_row, offset / tokens_a_row + length / tokens_a_row);
    return part;
  };
  const auto has_tokens = [&](const Field& field) {
    const auto words = split(field.axes, ' ');
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return tokens_per_row(component, e.problem.axes(), word) > 0; });
  };
  for (size_t i = 0; i < component.fields.size(); ++i) {
    const Field& field = component.fields[i];
    if (!packed.views()[i] || !alone.views()[i] || (field.role != Role::Input && field.role != Role::OutputGrad)) continue;
    if (field.kind != Kind::Index) copy(alone.views()[i], has_tokens(field) ? window(packed.views()[i], field) : packed.views()[i]);
  }
  for (size_t i : documents)
    for (int64_t row = 0; row < packed.views()[i].size() / tokens; ++row) insert_document(packed.views()[i].as<int32_t>() + row * tokens, tokens, offset, length);
  const SubjectRun run = run_subject(e.subject, packed, e.test.phase);
  const Truth truth = find_truth(alone, e.test.phase, e.threads);
  Checks checks;
  for (size_t i = 0; i < component.fields.size(); ++i) {
    const Field& field = component.fields[i];
    if (!judged(field, e.test.phase) || !alone.views()[i] || !has_tokens(field) || field.kind == Kind::Index) continue;
    checks.push_back(judge(component, field, "shift", format("cpu fp64 on the document alone, placed at {}", offset), clone(window(run.result.views()[i], field)),
                           truth.oracle.views()[i], naive_view(truth, i), e.test.dtype, e.tolerances));
  }
  return checks;
}

Checks check_shards(const Evidence& e) {
  if (!e.subject.scheme) return {};
  Subject one = e.subject;
  one.scheme = nullptr;
  one.ranks = 1;
  const SubjectRun single = run_subject(one, e.problem, e.test.phase);
  const auto truth = cached_truth(e.test.problem() + (e.test.phase == Phase::Forward ? " fwd" : ""), e.problem, e.test.phase, e.threads);
  Checks checks;
  const auto& fields = e.problem.component().fields;
  for (size_t i = 0; i < fields.size(); ++i)
    if (judged(fields[i], e.test.phase) && e.problem.views()[i])
      checks.push_back(judge(e.problem.component(), fields[i], "shards", "one rank", e.run.result.views()[i], single.result.views()[i], naive_view(*truth, i), e.test.dtype, e.tolerances));
  return checks;
}

Checks check_ledger(const Evidence& e) {
  if (!e.subject.scheme || !e.subject.scheme->bytes_sent) return {};
  Checks checks;
  for (Phase phase : {Phase::Forward, Phase::Backward}) {
    if (e.test.phase != Phase::Both && e.test.phase != phase) continue;
    const int64_t want = e.subject.scheme->bytes_sent(e.problem.component(), e.problem.axes(), e.test.dtype, e.subject.ranks, phase);
    std::string finding;
    for (size_t rank = 0; rank < e.run.ledgers.size() && finding.empty(); ++rank)
      if (const int64_t got = e.run.ledgers[rank].sent(to_string(phase)); got != want) finding = format("rank {} sent {} bytes in {}, the formula says {}", rank, got, to_string(phase), want);
    checks.push_back(rule("ledger", to_string(phase) + " bytes", finding));
    checks.back().value = finding.empty() ? 0 : 1;
  }
  return checks;
}

Checks check_repeat(const Evidence& e, int calls, bool& deterministic) {
  deterministic = true;
  const auto& fields = e.problem.component().fields;
  const bool claims = e.subject.variant.deterministic && (!e.subject.scheme || e.subject.scheme->deterministic);
  // Other data in between, so that yesterday's output or a stale buffer cannot look right.
  Problem other(e.problem.component(), e.problem.axes(), e.test.dtype);
  other.fill(e.test.distribution, e.test.seed + 1000, e.tokens);
  run_subject(e.subject, other, e.test.phase);
  std::string finding, changed;
  for (int call = 0; call < calls && finding.empty(); ++call) {
    const SubjectRun again = run_subject(e.subject, e.problem, e.test.phase);
    for (size_t i = 0; i < fields.size() && finding.empty(); ++i) {
      if (!judged(fields[i], e.test.phase) || !e.problem.views()[i] || same_bits(again.result.views()[i], e.run.result.views()[i])) continue;
      deterministic = false;
      const Comparison c = compare(again.result.views()[i], e.run.result.views()[i]);
      // Without the claim, only a difference beyond rounding is a fault.
      const double allowed = e.tolerances.lookup(e.problem.component().name, fields[i].name, e.test.dtype, true).floor * 8;
      if (claims || !(c.rel_rms <= allowed)) finding = format("{} of call {} differs from the first (relative RMS {:.1e})", fields[i].name, call + 2, c.rel_rms);
      changed = fields[i].name;
    }
  }
  return {rule("repeat", changed.empty() ? "all" : changed, finding)};
}

Checks check_hygiene(const Evidence& e) {
  Checks checks;
  for (const auto& violation : e.run.violations) checks.push_back(rule("hygiene", "memory", violation));
  if (checks.empty() && !e.subject.scheme) checks.push_back(rule("hygiene", "memory", ""));
  return checks;
}

}  // namespace megatoken
