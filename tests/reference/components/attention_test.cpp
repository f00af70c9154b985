// What softmax attention must satisfy whatever its implementation: held against the fp64 oracle.
#include "reference/components/attention/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;
using test::with_inputs_of;
using test::worst_difference;

const Variant& cpu() { return find_variant("attention", "cpu"); }

Problem& run(Problem&& problem, Phase phase = Phase::Both) {
  run_variant(cpu(), problem, phase, 2);
  return problem;
}

double at(const TensorView& view, std::initializer_list<int64_t> index) {
  int64_t flat = 0, axis = 0;
  for (int64_t i : index) flat = flat * view.shape[static_cast<int>(axis++)] + i;
  return value_at(view, flat);
}

TEST(Attention, WeightsOfARowSumToOne) {
  Problem p = filled("attention", "b=2 t=23 h=4 hk=2 d=5 dv=3 docs=4");
  fill(p["v"], 0.75);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < p["o"].size(); ++i) ASSERT_NEAR(value_at(p["o"], i), 0.75, 1e-14);
}

TEST(Attention, IsLinearInTheValues) {
  const std::string axes = "b=1 t=17 h=2 d=4";
  Problem a = filled("attention", axes), b = with_inputs_of(a, axes), sum = with_inputs_of(a, axes);
  fill_normal(b["v"], 99, "other values");
  for (int64_t i = 0; i < a["v"].size(); ++i) set_value(sum["v"], i, 2 * value_at(a["v"], i) - 3 * value_at(b["v"], i));
  for (Problem* p : {&a, &b, &sum}) run_variant(cpu(), *p, Phase::Forward);
  for (int64_t i = 0; i < a["o"].size(); ++i) ASSERT_NEAR(value_at(sum["o"], i), 2 * value_at(a["o"], i) - 3 * value_at(b["o"], i), 1e-13);
}

TEST(Attention, DoesNotSeeTheFuture) {
  const std::string axes = "b=1 t=20 h=2 d=4";
  Problem a = filled("attention", axes), b = with_inputs_of(a, axes);
  for (const char* field : {"q", "k", "v"}) fill_normal(b[field].slice(1, 12, 20), 50, field);
  for (Problem* p : {&a, &b}) run_variant(cpu(), *p, Phase::Forward);
  EXPECT_EQ(relative_rms(clone(b["o"].slice(1, 0, 12)), clone(a["o"].slice(1, 0, 12))), 0);
  EXPECT_EQ(relative_rms(clone(b["lse"].slice(2, 0, 12)), clone(a["lse"].slice(2, 0, 12))), 0);
  for (int64_t i = 12; i < 20; ++i) EXPECT_NE(at(a["o"], {0, i, 0, 0}), at(b["o"], {0, i, 0, 0}));
}

TEST(Attention, FirstTokenOfEveryDocumentReturnsItsOwnValue) {
  const Problem p = run(filled("attention", "b=2 t=19 h=3 d=4 docs=4"), Phase::Forward);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 19; ++i) {
      if (i > 0 && at(p["q_document"], {b, i}) == at(p["q_document"], {b, i - 1})) continue;
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t d = 0; d < 4; ++d) ASSERT_EQ(at(p["o"], {b, i, h, d}), at(p["v"], {b, i, h, d}));
    }
}

TEST(Attention, LseOfOneKeyIsItsScoreInNaturalLog) {
  for (double scale : {0.0, 0.3, -2.0}) {
    const Problem p = run(filled("attention", "b=1 t=1 h=2 d=3 scale=" + std::to_string(scale)), Phase::Forward);
    for (int64_t h = 0; h < 2; ++h) {
      double score = 0;
      for (int64_t d = 0; d < 3; ++d) score += at(p["q"], {0, 0, h, d}) * at(p["k"], {0, 0, h, d});
      EXPECT_NEAR(at(p["lse"], {0, h, 0}), score * (scale == 0 ? 1 / std::sqrt(3.0) : scale), 1e-15);
    }
  }
}

TEST(Attention, LseOfEqualScoresIsTheirNumberInNaturalLog) {
  Problem p = filled("attention", "b=1 t=12 h=1 d=3");
  fill(p["q"], 0);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < 12; ++i) EXPECT_NEAR(at(p["lse"], {0, 0, i}), std::log(static_cast<double>(i + 1)), 1e-15);
}

TEST(Attention, SurvivesLogitsFarBeyondTheRangeOfExp) {
  Problem p = filled("attention", "b=1 t=9 h=1 d=2 causal=0", DType::F32);
  for (int64_t i = 0; i < p["q"].size(); ++i) set_value(p["q"], i, 1e4 * value_at(p["q"], i));
  run_variant(cpu(), p, Phase::Both);
  for (const char* field : {"o", "lse", "dq", "dk", "dv"})
    for (int64_t i = 0; i < p[field].size(); ++i) ASSERT_TRUE(std::isfinite(value_at(p[field], i))) << field;
}

TEST(Attention, RowsWithoutKeysAreZeroAndMinusInfinity) {
  const Problem p = run(filled("attention", "b=2 t=11 h=2 hk=1 d=3 docs=2 padding=4"));
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 7; i < 11; ++i)
      for (int64_t h = 0; h < 2; ++h) {
        EXPECT_EQ(at(p["lse"], {b, h, i}), -INFINITY);
        for (int64_t d = 0; d < 3; ++d) {
          EXPECT_EQ(at(p["o"], {b, i, h, d}), 0);
          EXPECT_EQ(at(p["dq"], {b, i, h, d}), 0);
          EXPECT_EQ(at(p["dk"], {b, i, 0, d}), 0);
          EXPECT_EQ(at(p["dv"], {b, i, 0, d}), 0);
        }
      }
}

TEST(Attention, PaddingIsInvisibleWhateverItHolds) {
  const std::string axes = "b=1 t=13 h=2 d=3 docs=2 padding=5";
  Problem a = filled("attention", axes), b = with_inputs_of(a, axes);
  for (const char* field : {"q", "k", "v", "do"}) fill(b[field].slice(1, 8, 13), std::nan(""));
  for (Problem* p : {&a, &b}) run_variant(cpu(), *p, Phase::Both);
  EXPECT_EQ(worst_difference(b, a), 0);
}

TEST(Attention, NaNsAreNotHidden) {
  Problem p = filled("attention", "b=1 t=6 h=1 d=2", DType::F32);
  set_value(p["q"], 2 * 2, std::nan(""));
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_TRUE(std::isnan(at(p["o"], {0, 2, 0, 0})));
  EXPECT_TRUE(std::isnan(at(p["lse"], {0, 0, 2})));
  EXPECT_FALSE(std::isnan(at(p["o"], {0, 3, 0, 0})));
}

/// Fields with tokens, cut to [begin, end) of batch row `b`.
Problem document_alone(const Problem& packed, int64_t b, int64_t begin, int64_t end) {
  const Component& c = packed.component();
  Axes axes = packed.axes();
  for (const auto& [name, value] : {std::pair{"b", int64_t{1}}, {"t", end - begin}, {"s", end - begin}, {"docs", int64_t{1}}}) axes.set(name, static_cast<double>(value));
  Problem alone(c, c.complete(axes), packed.dtype());
  alone.fill("normal", 0);
  for (size_t i = 0; i < c.fields.size(); ++i) {
    if (c.fields[i].kind == Kind::Index || c.fields[i].role == Role::Output || c.fields[i].role == Role::InputGrad) continue;
    TensorView from = packed.views()[i].slice(0, b, b + 1);
    for (const char* axis : {"t", "s"})
      if (const int position = Component::axis_position(c.fields[i], axis); position >= 0) from = from.slice(position, begin, end);
    copy(from, alone.views()[i]);
  }
  return alone;
}

TEST(Attention, PackedDocumentsEqualDocumentsAlone) {
  for (const char* axes : {"b=2 t=31 h=4 hk=2 d=3 dv=2 docs=5", "b=2 t=31 h=2 d=3 docs=4 causal=0"}) {
    const Problem packed = run(filled("attention", axes));
    const Component& c = packed.component();
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t begin = 0, end = 0; begin < 31; begin = end) {
        while (end < 31 && at(packed["q_document"], {b, end}) == at(packed["q_document"], {b, begin})) ++end;
        const Problem alone = run(document_alone(packed, b, begin, end));
        for (const char* field : {"o", "lse", "dq", "dk", "dv"}) {
          TensorView part = packed[field].slice(0, b, b + 1);
          for (const char* axis : {"t", "s"})
            if (const int position = Component::axis_position(c.fields[c.index(field)], axis); position >= 0) part = part.slice(position, begin, end);
          EXPECT_LT(relative_rms(clone(part), alone[field]), 1e-13) << axes << " " << field << " of document at " << begin;
        }
      }
  }
}

TEST(Attention, DocumentsMayComeInAnyOrder) {
  const std::string axes = "b=1 t=24 h=2 hk=1 d=3 docs=4";
  const Problem a = run(filled("attention", axes));
  Problem b = with_inputs_of(a, axes);
  std::vector<int64_t> order;  // documents back to front
  for (int64_t document = 3; document >= 0; --document)
    for (int64_t i = 0; i < 24; ++i)
      if (at(a["q_document"], {0, i}) == document) order.push_back(i);
  for (const char* field : {"q", "k", "v", "do", "q_document", "k_document"}) copy(gather_rows(a[field], 1, order), b[field]);
  copy(gather_rows(a["dlse"], 2, order), b["dlse"]);
  run_variant(cpu(), b, Phase::Both);
  for (const char* field : {"o", "dq", "dk", "dv"}) EXPECT_LT(relative_rms(b[field], gather_rows(a[field], 1, order)), 1e-13) << field;
  EXPECT_LT(relative_rms(b["lse"], gather_rows(a["lse"], 2, order)), 1e-14);
}

TEST(Attention, KeysMayComeInAnyOrderWithTheirPositions) {
  const std::string axes = "b=1 t=15 h=2 d=3";
  const Problem a = run(filled("attention", axes));
  Problem b = with_inputs_of(a, axes);
  std::vector<int64_t> order(15);
  std::iota(order.rbegin(), order.rend(), 0);
  for (const char* field : {"k", "v", "k_document"}) copy(gather_rows(a[field], 1, order), b[field]);
  copy(gather_rows(a["k_position"], 0, order), b["k_position"]);
  run_variant(cpu(), b, Phase::Both);
  for (const char* field : {"o", "lse", "dq"}) EXPECT_LT(relative_rms(b[field], a[field]), 1e-13) << field;
  for (const char* field : {"dk", "dv"}) EXPECT_LT(relative_rms(b[field], gather_rows(a[field], 1, order)), 1e-13) << field;
}

/// Keys [begin, end) only; the forward outputs are those of the whole row.
Problem key_block(const Problem& whole, int64_t begin, int64_t end) {
  const Component& c = whole.component();
  Axes axes = whole.axes();
  axes.set("s", static_cast<double>(end - begin));
  Problem part(c, axes, whole.dtype());
  for (size_t i = 0; i < c.fields.size(); ++i) {
    const int position = Component::axis_position(c.fields[i], "s");
    if (c.fields[i].role != Role::InputGrad) copy(position < 0 ? whole.views()[i] : whole.views()[i].slice(position, begin, end), part.views()[i]);
  }
  return part;
}

TEST(Attention, GradientsOfKeyBlocksAddUp) {
  const Problem whole = run(filled("attention", "b=2 t=14 h=4 hk=2 d=3 docs=2"));
  Tensor dq = Tensor::zeros(DType::F64, whole["dq"].shape);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, 6}, {6, 14}}) {
    Problem part = key_block(whole, begin, end);
    run_variant(cpu(), part, Phase::Backward);
    for (int64_t i = 0; i < dq->size(); ++i) set_value(dq, i, value_at(dq, i) + value_at(part["dq"], i));
    for (const char* field : {"dk", "dv"}) EXPECT_LT(relative_rms(part[field], clone(whole[field].slice(1, begin, end))), 1e-13) << field;
  }
  EXPECT_LT(relative_rms(dq, whole["dq"]), 1e-13);
}

TEST(Attention, GroupedHeadsEqualRepeatedHeads) {
  const Problem grouped = run(filled("attention", "b=1 t=10 h=6 hk=2 d=3 dv=4"));
  Problem repeated = filled("attention", "b=1 t=10 h=6 hk=6 d=3 dv=4");
  const std::vector<int64_t> owner{0, 0, 0, 1, 1, 1};
  for (const char* field : {"q", "do", "dlse"}) copy(grouped[field], repeated[field]);
  for (const char* field : {"k", "v"}) copy(gather_rows(grouped[field], 2, owner), repeated[field]);
  run_variant(cpu(), repeated, Phase::Both);
  for (const char* field : {"o", "lse", "dq"}) EXPECT_LT(relative_rms(repeated[field], grouped[field]), 1e-14) << field;
  for (const char* field : {"dk", "dv"}) {
    Tensor sum = Tensor::zeros(DType::F64, grouped[field].shape);
    for (int64_t i = 0; i < 10; ++i)
      for (int64_t h = 0; h < 6; ++h)
        for (int64_t d = 0, width = sum->shape[3]; d < width; ++d) {
          const int64_t to = (i * 2 + owner[static_cast<size_t>(h)]) * width + d;
          set_value(sum, to, value_at(sum, to) + at(repeated[field], {0, i, h, d}));
        }
    EXPECT_LT(relative_rms(sum, grouped[field]), 1e-13) << field;
  }
}

TEST(Attention, NarrowTypesComeCloseToFp64) {
  for (const auto& [dtype, limit] : {std::pair{DType::F32, 1e-5}, {DType::F16, 5e-3}, {DType::BF16, 4e-2}})
    for (const char* distribution : {"normal", "aimed", "tokens"}) {
      const Problem narrow = run(filled("attention", "b=2 t=70 h=4 hk=2 d=8 docs=3", dtype, distribution));
      Problem wide = narrow.converted(DType::F64);
      run_variant(cpu(), wide, Phase::Both);
      const double difference = worst_difference(narrow, wide);
      EXPECT_LT(difference, limit) << to_string(dtype) << " " << distribution;
      EXPECT_GT(difference, 0) << "the narrow type left no trace";
    }
}

TEST(Attention, WideResultsAreRoundedToTheAccumulatorOnly) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    const std::string axes = "b=1 t=21 h=2 hk=1 d=4 docs=2";
    const Problem narrow = run(filled("attention", axes, dtype));
    Problem wide = with_inputs_of(narrow, axes);
    for (const char* field : {"o", "dq", "dk", "dv"}) wide.replace(field, Tensor(DType::F32, narrow[field].shape));
    run_variant(cpu(), wide, Phase::Forward);
    EXPECT_EQ(relative_rms(convert(wide["o"], dtype), narrow["o"]), 0);
    copy(narrow["o"], wide["o"]);  // backward from the same o
    run_variant(cpu(), wide, Phase::Backward);
    for (const char* field : {"dq", "dk", "dv"}) EXPECT_EQ(relative_rms(convert(wide[field], dtype), narrow[field]), 0) << field;
    EXPECT_GT(relative_rms(wide["dk"], narrow["dk"]), 0);
  }
}

TEST(Attention, ThreadsDoNotChangeBits) {
  const std::string axes = "b=2 t=40 h=4 hk=2 d=8 docs=3";
  Problem a = filled("attention", axes, DType::F32), b = with_inputs_of(a, axes);
  run_variant(cpu(), a, Phase::Both, 1);
  run_variant(cpu(), b, Phase::Both, 5);
  EXPECT_EQ(worst_difference(b, a), 0);
}

TEST(Attention, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(test::message_of([] { filled("attention", "h=6 hk=4"); }), "attention: h=6 query heads cannot share hk=4 key/value heads; hk must divide h");
}

TEST(Attention, CountsVisiblePairs) {
  const Component& c = find_component("attention");
  const auto flops = [&](const char* axes, Phase phase = Phase::Forward) { return c.cost(c.complete(Axes::parse(axes)), DType::F32, phase).flops; };
  EXPECT_EQ(flops("b=3 t=10 h=2 d=4"), 3 * 2 * 55 * 16);
  EXPECT_EQ(flops("b=1 t=10 h=1 d=4 causal=0"), 100 * 16);
  EXPECT_EQ(flops("b=1 t=10 h=1 d=4", Phase::Backward), 55 * 40);
  EXPECT_EQ(flops("b=1 t=10 h=1 d=4 padding=4"), 21 * 16);
  EXPECT_EQ(flops("b=1 t=10 h=1 d=4 padding=12"), 0);
  EXPECT_EQ(flops("b=1 t=0 h=1 d=4"), 0);
  const Problem packed = filled("attention", "b=1 t=30 h=1 d=1 docs=4", DType::F32, "normal", 0);  // borders of seed 0, as the cost assumes
  int64_t pairs = 0;
  for (int64_t i = 0; i < 30; ++i)
    for (int64_t j = 0; j <= i; ++j) pairs += at(packed["q_document"], {0, i}) == at(packed["k_document"], {0, j});
  EXPECT_EQ(flops("b=1 t=30 h=1 d=1 docs=4"), static_cast<double>(4 * pairs));
}

TEST(Attention, AimedRowsPutAboutAThirdOfTheirMassOnOneKey) {
  for (const char* axes : {"b=1 t=300 h=2 d=32", "b=1 t=300 h=2 d=32 causal=0"}) {
    Problem p = filled("attention", axes, DType::F64, "aimed");
    const attention::Shape shape(p.axes());
    run_variant(cpu(), p, Phase::Forward, 2);
    double mean = 0;
    for (int64_t i = 100; i < 300; ++i) {
      double largest = 0;
      for (int64_t j = 0; j < 300; ++j) {
        if (shape.causal && j > i) continue;
        double score = 0;
        for (int64_t d = 0; d < 32; ++d) score += at(p["q"], {0, i, 1, d}) * at(p["k"], {0, j, 1, d});
        largest = std::max(largest, std::exp(shape.scale * score - at(p["lse"], {0, 1, i})));
      }
      mean += largest / 200;
    }
    EXPECT_GT(mean, 0.15) << axes;
    EXPECT_LT(mean, 0.5) << axes;
  }
}

TEST(Attention, ExactInputsGiveExactSums) {
  const std::string axes = "b=1 t=48 h=2 hk=1 d=16 docs=2";
  const Problem narrow = run(filled("attention", axes, DType::BF16, "exact"));
  Problem wide = narrow.converted(DType::F64);
  run_variant(cpu(), wide, Phase::Both);
  EXPECT_EQ(worst_difference(narrow, wide), 0);
  for (int64_t i = 0; i < wide["o"].size(); ++i) ASSERT_EQ(value_at(wide["o"], i), std::round(value_at(wide["o"], i)));
}

}  // namespace
}  // namespace megatoken
