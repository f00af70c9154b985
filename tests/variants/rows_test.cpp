// Rows that must not be seen: padding, the future, other sequences of the batch. Behind it: rows behind the last document left unwritten
// (flash-linear-attention-npu #266), padding in the backward of sparse attention (NeMo Automodel 3127, miles #2079), prefixes that depend on
// what follows (flash-linear-attention #1240, attention-gym #337, transformers #45820), grids of at most 65,535 blocks (llama.cpp #27752).
#include "tests/variants/every_variant.hpp"

namespace megatoken::test {
namespace {

bool knows_documents(const Variant& variant) {
  const auto& fields = find_component(variant.component).fields;
  return std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.kind == Kind::Index && f.name.find("document") != std::string::npos; });
}

/// Rows of a field that hold nothing but tokens from `token` on.
TensorView rows_from(const Problem& problem, size_t i, int64_t token) {
  TensorView rows;
  with_token_axis(problem.component(), problem.axes(), problem.component().fields[i], [&](int axis, int64_t tokens) {
    rows = problem.views()[i].slice(axis, std::min((token + tokens - 1) / tokens, problem.views()[i].shape[axis]), problem.views()[i].shape[axis]);
  });
  return rows;
}

/// Rows that hold nothing but tokens before `token`.
TensorView rows_before(const Problem& problem, size_t i, int64_t token) {
  TensorView rows;
  with_token_axis(problem.component(), problem.axes(), problem.component().fields[i], [&](int axis, int64_t tokens) {
    rows = problem.views()[i].slice(axis, 0, std::min(token / tokens, problem.views()[i].shape[axis]));
  });
  return rows;
}

class EveryPacking : public testing::TestWithParam<const Variant*> {};

TEST_P(EveryPacking, PaddingIsInvisibleWhateverItHoldsAndItsResultsAreZero) {
  const Variant& variant = *GetParam();
  const Problem clean = judging_problem(variant);
  const auto& fields = clean.component().fields;
  const int64_t tokens = clean.axes()["t"], real = tokens - 29;
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].name.find("document") != std::string::npos) fill(rows_from(clean, i, real), -1);
  const Problem dirty = clean.converted(clean.dtype());
  for (size_t i = 0; i < fields.size(); ++i)
    if (is_given(fields[i]) && is_number(fields[i]) && dirty.views()[i])
      if (const TensorView rows = rows_from(dirty, i, real)) fill(rows, std::nan(""));
  for (const Problem* p : {&clean, &dirty}) {
    for (size_t i = 0; i < fields.size(); ++i)
      if (is_result(fields[i]) && p->views()[i]) fill(p->views()[i], is_number(fields[i]) ? 1e30 : 1 << 30);  // flash-linear-attention poisons unused rows with 1e30
    run_variant(variant, *p, phases_of(variant), 2);
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!is_result(fields[i]) || !clean.views()[i] || (fields[i].role == Role::InputGrad && !variant.backward)) continue;
    EXPECT_TRUE(same_result(variant, dirty.views()[i], clean.views()[i])) << fields[i].name;
    const TensorView rows = rows_from(clean, i, real);
    for (int64_t e = 0; rows && e < rows.size(); ++e) {
      const double x = value_at(rows, e);
      ASSERT_TRUE(x == 0 || x == -INFINITY || (fields[i].kind == Kind::Index && x == -1)) << fields[i].name << " of a padding row holds " << x;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryPacking, testing::ValuesIn(cpu_variants(knows_documents)), variant_name);

bool is_causal(const Variant& variant) {
  const Component& component = find_component(variant.component);
  return component.causal && component.causal(judging_axes(component, "docs=1"));
}

class EveryPrefix : public testing::TestWithParam<const Variant*> {};

TEST_P(EveryPrefix, IsTheSameToTheBitWhateverFollows) {
  const Variant& variant = *GetParam();
  const Problem whole = judging_problem(variant, DType::F32, "docs=1");
  const auto& fields = whole.component().fields;
  run_variant(variant, whole, Phase::Forward, 2);
  const int64_t tokens = whole.axes()["t"];
  for (const int64_t cut : {tokens / 3, tokens / 2 + 1, tokens - 1}) {
    const Problem other = whole.converted(whole.dtype());
    for (size_t i = 0; i < fields.size(); ++i)
      if (fields[i].role == Role::Input && is_number(fields[i]) && other.views()[i])
        if (const TensorView rows = rows_from(other, i, cut)) fill_normal(rows, 11, fields[i].name, 3);
    run_variant(variant, other, Phase::Forward, 2);
    for (size_t i = 0; i < fields.size(); ++i) {
      const TensorView rows = fields[i].role == Role::Output && whole.views()[i] ? rows_before(whole, i, cut) : TensorView();
      if (!rows) continue;
      EXPECT_TRUE(same_result(variant, rows_before(other, i, cut), rows)) << fields[i].name << " before token " << cut;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryPrefix, testing::ValuesIn(cpu_variants(is_causal)), variant_name);

bool has_batch(const Variant& variant) {
  const auto& axes = find_component(variant.component).axes;
  return std::any_of(axes.begin(), axes.end(), [](const AxisSpec& axis) { return axis.name == "b"; });
}

class EveryBatch : public testing::TestWithParam<const Variant*> {};

// Indices of a sequence that are kept in 16 bits, or a grid of at most 65,535 blocks, lose the sequences behind.
TEST_P(EveryBatch, MoreThan65535SequencesAreAllComputed) {
  const Variant& variant = *GetParam();
  const Component& component = find_component(variant.component);
  const int64_t many = 65600, few = 100;
  Axes axes = Axes::parse(component.examples.front());
  axes.set("b", static_cast<double>(many));
  Problem whole(component, component.complete(axes), DType::F64);
  whole.fill("normal", 7);
  axes.set("b", static_cast<double>(few));
  Problem last(component, component.complete(axes), DType::F64);
  for (size_t i = 0; i < component.fields.size(); ++i) {
    const bool by_sequence = Component::axis_position(component.fields[i], "b") == 0;
    if (is_given(component.fields[i]) && whole.views()[i]) copy(by_sequence ? whole.views()[i].slice(0, many - few, many) : whole.views()[i], last.views()[i]);
  }
  for (const Problem* p : {&whole, &last}) run_variant(variant, *p, phases_of(variant), 2);
  int compared = 0;
  for (size_t i = 0; i < component.fields.size(); ++i) {
    const Field& field = component.fields[i];
    if (!is_result(field) || !whole.views()[i] || (field.role == Role::InputGrad && !variant.backward) || Component::axis_position(field, "b") != 0) continue;
    EXPECT_LE(relative_rms(whole.views()[i].slice(0, many - few, many), last.views()[i]), 1e-12) << field.name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryBatch, testing::ValuesIn(cpu_variants(has_batch)), variant_name);

}  // namespace
}  // namespace megatoken::test
