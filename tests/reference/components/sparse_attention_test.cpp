#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;

const Variant& cpu() { return find_variant("sparse_attention", "cpu"); }

/// Rows without keys have lse = −∞, the same in both; made 0 so that the others can be compared.
void compare_lse(const Problem& got, const Problem& want, double limit) {
  Tensor a = clone(got["lse"]), b = clone(want["lse"]);
  for (int64_t i = 0; i < b->size(); ++i)
    if (value_at(b, i) == -INFINITY) {
      EXPECT_EQ(value_at(a, i), -INFINITY) << "lse " << i;
      set_value(a, i, 0), set_value(b, i, 0);
    }
  EXPECT_LE(relative_rms(a, b), limit);
}

/// Slots of every query: all tokens up to itself.
void select_all(const Problem& p) {
  const auto id = p["id"].elements<int32_t, 3>();
  for (int64_t b = 0; b < p["id"].shape[0]; ++b)
    for (int64_t i = 0; i < p["id"].shape[1]; ++i)
      for (int64_t j = 0; j < p["id"].shape[2]; ++j) id(b, i, j) = j <= i ? static_cast<int32_t>(j) : -1;
}

void expect_dense(const Problem& sparse, const Problem& dense, double limit) {
  for (const char* name : {"o", "lse", "dq", "dk", "dv"}) EXPECT_LE(relative_rms(sparse[name], dense[name]), limit) << name;
}

TEST(SparseAttention, AllKeysSelectedEqualDenseAttention) {
  for (int64_t t : {1, 2, 3, 17, 64, 90}) {
    Problem sparse = filled("sparse_attention", format("b=2 t={} h=4 hk=2 d=6 dv=5 n={} direct=1", t, t)), dense = filled("attention", format("b=2 t={} h=4 hk=2 d=6 dv=5", t));
    for (const char* name : {"q", "k", "v", "do", "dlse"}) copy(sparse[name], dense[name]);
    select_all(sparse);
    run_variant(cpu(), sparse, Phase::Both), run_variant(find_variant("attention", "cpu"), dense, Phase::Both);
    expect_dense(sparse, dense, 1e-13);
  }
}

TEST(SparseAttention, EqualsDenseAttentionUpTo2051Tokens) {  // as many slots as the model has: 512 pools of 4 and a tail of 3
  Problem sparse = filled("sparse_attention", "t=2051 h=1 d=2 n=2051 direct=1"), dense = filled("attention", "t=2051 h=1 d=2");
  for (const char* name : {"q", "k", "v", "do", "dlse"}) copy(sparse[name], dense[name]);
  select_all(sparse);
  run_variant(cpu(), sparse, Phase::Both, 2), run_variant(find_variant("attention", "cpu"), dense, Phase::Both, 2);
  expect_dense(sparse, dense, 1e-12);
}

TEST(SparseAttention, SelectedByTheIndexerEqualsDenseAttentionWhileNothingIsDropped) {
  Problem index = filled("index_topk", "b=2 t=47 h=2 d=4 topk=11 docs=2"), sparse = filled("sparse_attention", "b=2 t=47 h=2 d=5 n=47");
  Problem dense = filled("attention", "b=2 t=47 h=2 hk=1 d=5 docs=2");
  run_variant(find_variant("index_topk", "cpu"), index, Phase::Forward);
  copy(index["id"], sparse["id"]);
  for (const char* name : {"q", "k", "do", "dlse"}) copy(sparse[name], dense[name]);
  copy(sparse["k"], dense["v"]);
  for (const char* name : {"q_document", "k_document"}) copy(index["document"], dense[name]);
  run_variant(cpu(), sparse, Phase::Both), run_variant(find_variant("attention", "cpu"), dense, Phase::Both);
  for (const char* name : {"o", "lse", "dq"}) EXPECT_LE(relative_rms(sparse[name], dense[name]), 1e-13) << name;
  for (int64_t i = 0; i < dense["dk"].size(); ++i) EXPECT_NEAR(value_at(sparse["dk"], i), value_at(dense["dk"], i) + value_at(dense["dv"], i), 1e-12);
}

TEST(SparseAttention, AbsorbedFormEqualsKeysAndValuesOfEachHead) {
  const int64_t h = 3, latent = 7, width = 4, dv = 5, t = 20;
  Problem absorbed = filled("sparse_attention", "t=20 h=3 d=7 n=6 scale=0.5"), direct = filled("sparse_attention", "t=20 h=3 hk=3 d=4 dv=5 n=6 direct=1 scale=0.5");
  Tensor uk(DType::F64, {h, width, latent}), uv(DType::F64, {h, dv, latent});
  fill_normal(uk, 1, "uk"), fill_normal(uv, 1, "uv");
  const auto wk = uk.view().elements<double, 3>(), wv = uv.view().elements<double, 3>();
  const auto c = absorbed["k"].elements<double, 4>(), q = absorbed["q"].elements<double, 4>(), k = direct["k"].elements<double, 4>(), v = direct["v"].elements<double, 4>(),
             qh = direct["q"].elements<double, 4>();
  copy(absorbed["id"], direct["id"]);
  for (int64_t i = 0; i < t; ++i)
    for (int64_t head = 0; head < h; ++head) {
      for (int64_t l = 0; l < latent; ++l) q(0, i, head, l) = 0;
      for (int64_t e = 0; e < width; ++e) {
        k(0, i, head, e) = 0;
        for (int64_t l = 0; l < latent; ++l) k(0, i, head, e) += wk(head, e, l) * c(0, i, 0, l), q(0, i, head, l) += wk(head, e, l) * qh(0, i, head, e);
      }
      for (int64_t e = 0; e < dv; ++e) {
        v(0, i, head, e) = 0;
        for (int64_t l = 0; l < latent; ++l) v(0, i, head, e) += wv(head, e, l) * c(0, i, 0, l);
      }
    }
  // Upstream of the latent output is W_uv^T of that of the head's.
  const auto d_o = direct["do"].elements<double, 4>(), d_latent = absorbed["do"].elements<double, 4>();
  for (int64_t i = 0; i < t; ++i)
    for (int64_t head = 0; head < h; ++head)
      for (int64_t l = 0; l < latent; ++l) {
        d_latent(0, i, head, l) = 0;
        for (int64_t e = 0; e < dv; ++e) d_latent(0, i, head, l) += wv(head, e, l) * d_o(0, i, head, e);
      }
  copy(absorbed["dlse"], direct["dlse"]);
  run_variant(cpu(), absorbed, Phase::Both), run_variant(cpu(), direct, Phase::Both);
  compare_lse(absorbed, direct, 1e-13);
  Tensor o = clone(direct["o"]), dq = clone(direct["dq"]), dc = clone(absorbed["dk"]);
  const auto o_latent = absorbed["o"].elements<double, 4>(), dq_latent = absorbed["dq"].elements<double, 4>(), dk = direct["dk"].elements<double, 4>(), dv_head = direct["dv"].elements<double, 4>();
  const auto oo = o->elements<double, 4>(), qq = dq->elements<double, 4>(), cc = dc->elements<double, 4>();
  fill(o, 0), fill(dq, 0), fill(dc, 0);
  for (int64_t i = 0; i < t; ++i)
    for (int64_t head = 0; head < h; ++head)
      for (int64_t l = 0; l < latent; ++l) {
        for (int64_t e = 0; e < dv; ++e) oo(0, i, head, e) += wv(head, e, l) * o_latent(0, i, head, l), cc(0, i, 0, l) += wv(head, e, l) * dv_head(0, i, head, e);
        for (int64_t e = 0; e < width; ++e) qq(0, i, head, e) += wk(head, e, l) * dq_latent(0, i, head, l), cc(0, i, 0, l) += wk(head, e, l) * dk(0, i, head, e);
      }
  EXPECT_LE(relative_rms(o, direct["o"]), 1e-13);
  EXPECT_LE(relative_rms(dq, direct["dq"]), 1e-12);
  EXPECT_LE(relative_rms(dc, absorbed["dk"]), 1e-12);
}

TEST(SparseAttention, RowsWithoutKeysGiveZeroAndNoGradient) {  // cudnn-frontend #785, miles #2079
  for (DType dtype : {DType::F64, DType::BF16}) {
    Problem p = filled("sparse_attention", "t=5 h=2 d=3 n=4", dtype);
    fill(p["id"].slice(1, 1, 3), -1);
    run_variant(cpu(), p, Phase::Both);
    for (int64_t i = 6; i < 18; ++i) EXPECT_EQ(value_at(p["o"], i), 0);
    for (int64_t i = 6; i < 18; ++i) EXPECT_EQ(value_at(p["dq"], i), 0);
    for (int64_t i : {1, 2, 6, 7}) EXPECT_EQ(value_at(p["lse"], i), -INFINITY);
    for (int64_t i = 0; i < p["dk"].size(); ++i) EXPECT_TRUE(std::isfinite(value_at(p["dk"], i)));
  }
}

TEST(SparseAttention, EmptySlotsMayStandAnywhere) {  // vllm #48364: 64 leading empty slots; Megatron #6166: nothing reaches row 0
  Problem packed = filled("sparse_attention", "t=1 s=90 h=2 d=4 n=70"), spread = test::with_inputs_of(packed, "t=1 s=90 h=2 d=4 n=70");
  auto* ids = packed["id"].as<int32_t>();
  std::fill(ids, ids + 70, -1);
  for (int j = 0; j < 5; ++j) ids[j] = 10 + 7 * j;
  auto* moved = spread["id"].as<int32_t>();
  std::fill(moved, moved + 70, -1);
  for (int j = 0; j < 5; ++j) moved[65 + j] = 10 + 7 * j;
  run_variant(cpu(), packed, Phase::Both), run_variant(cpu(), spread, Phase::Both);
  EXPECT_EQ(test::worst_difference(spread, packed), 0);
  for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(value_at(spread["dk"], c), 0);
}

TEST(SparseAttention, KeysFarBelowZeroStayFinite) {  // cudnn-frontend #1048: q·k near −10⁴ for every key
  Problem p = filled("sparse_attention", "t=6 h=1 d=2 n=6 scale=1", DType::F32);
  for (int64_t i = 0; i < 6; ++i) set_value(p["k"], 2 * i, 100), set_value(p["q"], 2 * i, -100 - static_cast<double>(i));
  run_variant(cpu(), p, Phase::Both);
  Problem wide = p.converted(DType::F64);
  run_variant(cpu(), wide, Phase::Both);
  for (const char* name : {"o", "lse"}) EXPECT_LE(relative_rms(p[name], wide[name]), 2e-3) << name;
  for (const char* name : {"dq", "dk"}) EXPECT_LE(relative_rms(p[name], wide[name]), 0.1) << name << ": an lse of 10^4 has an absolute error of 10^-3 in fp32";
}

TEST(SparseAttention, ScoreGradientsOfARowSumToZeroWithoutLse) {
  Problem p = filled("sparse_attention", "t=30 h=2 d=3 n=8 direct=1");
  fill(p["dlse"], 0);
  const auto k = p["k"].elements<double, 4>();
  for (int64_t i = 0; i < 30; ++i) k(0, i, 0, 2) = 1;  // then dq of that channel is scale-free Σ dS
  run_variant(cpu(), p, Phase::Both);
  for (int64_t row = 0; row < 60; ++row) EXPECT_NEAR(value_at(p["dq"], row * 3 + 2), 0, 1e-13);
}

TEST(SparseAttention, ThreadsDoNotChangeABit) {
  Problem one = filled("sparse_attention", "b=2 t=70 h=4 hk=2 d=5 n=20 direct=1 dv=3", DType::F32), three = test::with_inputs_of(one, "b=2 t=70 h=4 hk=2 d=5 n=20 direct=1 dv=3");
  run_variant(cpu(), one, Phase::Both, 1), run_variant(cpu(), three, Phase::Both, 3);
  for (const char* name : {"o", "dq", "dk", "dv"}) EXPECT_EQ(relative_rms(three[name], one[name]), 0) << name;
  compare_lse(three, one, 0);
}

TEST(SparseAttention, RefusesIdsBeyondTheKeysAndWidthsThatDoNotFit) {
  Problem p = filled("sparse_attention", "t=3 h=1 d=2 n=2");
  for (int32_t bad : {3, -2, 2147483647}) {
    p["id"].as<int32_t>()[3] = bad;
    EXPECT_NE(test::message_of([&] { run_variant(cpu(), p, Phase::Forward); }).find(format("id of query 1, slot 1 in batch row 0 is {}, expected -1 or a key token below 3", bad)), std::string::npos);
  }
  EXPECT_NE(test::message_of([] { filled("sparse_attention", "h=3 hk=2"); }).find("h=3 query heads cannot share hk=2"), std::string::npos);
  EXPECT_NE(test::message_of([] { filled("sparse_attention", "d=8 dv=4"); }).find("dv=4"), std::string::npos);
}

}  // namespace
}  // namespace megatoken
