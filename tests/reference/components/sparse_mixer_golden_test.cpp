// The sparse-attention mixer of the public reference model, from `input_layernorm` to `self_attn`, composed from rms_norm, pool_keys,
// index_topk and sparse_attention at fp64 with the projections as plain loops.
#include <gtest/gtest.h>

#include <set>

#include "tests/compare.hpp"
#include "tests/golden.hpp"

namespace megatoken {
namespace {

using test::Golden;

constexpr int64_t kHeads = 4, kKey = 16, kValue = 12, kIndexHeads = 16, kIndexWidth = 16, kPool = 4, kPools = 4;  // of nano.h5

/// x [rows, in] times W [out, in] transposed.
Tensor project(const TensorView& x, const TensorView& w) {
  const int64_t in = w.shape[1], out = w.shape[0], rows = x.size() / in;
  Tensor y(DType::F64, {rows, out});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < in; ++i) sum += value_at(x, r * in + i) * value_at(w, o * in + i);
      set_value(y, r * out + o, sum);
    }
  return y;
}

void copy_flat(const TensorView& from, const TensorView& to) { copy(from.reshape(to.shape), to); }

Tensor normalise(const TensorView& x, const TensorView& w) {
  Problem p = test::filled("rms_norm", format("t={} c={}", x.shape[0], x.shape[1]));
  copy_flat(x, p["x"]), copy(w, p["w"]);
  run_variant(find_variant("rms_norm", "cpu"), p, Phase::Forward);
  return clone(p["y"].reshape(x.shape));
}

struct Mixer {
  const Golden& golden;
  int64_t b, t;
  Tensor weight(const std::string& name) const { return golden("weights/layers.3.self_attn." + name); }

  /// The ids that index_topk chooses, [b, t, width].
  Tensor select(const TensorView& x, const TensorView& q_latent) const {
    Problem pooled = test::filled("pool_keys", format("b={} t={} d={}", b, t, kIndexWidth));
    copy_flat(project(x, weight("indexer.wk.weight")), pooled["k"]);
    copy_flat(project(x, weight("indexer.index_kpool_compress_gate")), pooled["gate"]);
    copy_flat(weight("indexer.index_kpool_compress_ape"), pooled["ape"]);
    copy(weight("indexer.k_norm.weight"), pooled["weight"]), copy(weight("indexer.k_norm.bias"), pooled["bias"]);
    run_variant(find_variant("pool_keys", "cpu"), pooled, Phase::Forward);

    Problem index = test::filled("index_topk", format("b={} t={} h={} d={} topk={}", b, t, kIndexHeads, kIndexWidth, kPools));
    copy_flat(project(q_latent, weight("indexer.wq_b.weight")), index["q"]);
    const Tensor w = project(x, weight("indexer.weights_proj.weight"));
    for (int64_t i = 0; i < w->size(); ++i) set_value(index["w"], i, value_at(w, i) / std::sqrt(static_cast<double>(kIndexHeads)));
    copy(pooled["y"], index["k"]);
    run_variant(find_variant("index_topk", "cpu"), index, Phase::Forward);
    return clone(index["id"]);
  }

  /// Absorbed attention over the selected latent rows, then W_uv of each head and the output projection.
  Tensor attend(const TensorView& q_latent, const TensorView& latent, const TensorView& ids) const {
    const Tensor q = project(q_latent, weight("q_b_proj.weight")), kv_b = weight("kv_b_proj.weight");
    const int64_t width = latent.shape[1], rows = b * t;
    const auto up = [&](int64_t head, int64_t row, int64_t c) { return value_at(kv_b, (head * (kKey + kValue) + row) * width + c); };
    Problem p = test::filled("sparse_attention", format("b={} t={} h={} d={} n={} scale={}", b, t, kHeads, width, ids.shape[2], 1 / std::sqrt(static_cast<double>(kKey))));
    copy(ids, p["id"]);
    copy_flat(latent, p["k"]);
    for (int64_t i = 0; i < rows * kHeads * width; ++i) {
      double sum = 0;
      for (int64_t e = 0; e < kKey; ++e) sum += up(i / width % kHeads, e, i % width) * value_at(q, i / width * kKey + e);
      set_value(p["q"], i, sum);
    }
    run_variant(find_variant("sparse_attention", "cpu"), p, Phase::Forward);
    Tensor o(DType::F64, {rows, kHeads * kValue});
    for (int64_t i = 0; i < o->size(); ++i) {
      double sum = 0;
      for (int64_t c = 0; c < width; ++c) sum += up(i / kValue % kHeads, kKey + i % kValue, c) * value_at(p["o"], i / kValue * width + c);
      set_value(o, i, sum);
    }
    return project(o, weight("o_proj.weight"));
  }
};

std::set<int64_t> set_of(const TensorView& ids, int64_t query) {
  std::set<int64_t> result;
  const int64_t width = ids.shape[2];
  for (int64_t j = 0; j < width; ++j)
    if (const auto id = static_cast<int64_t>(value_at(ids, query * width + j)); id >= 0) result.insert(id);
  return result;
}

TEST(SparseMixerGolden, SelectionAndOutputEqualThePublicReference) {
  if (!Golden::exists("nano.h5")) GTEST_SKIP() << Golden::missing("nano.h5");
  const Golden golden("nano.h5");
  const Tensor x = golden("captured/layers.3.input_layernorm/out0"), want = golden("captured/layers.3.self_attn/out0"), want_ids = golden("captured/layers.3.indexer/out0");
  const Mixer mixer{golden, x->shape[0], x->shape[1]};
  const TensorView rows = x->reshape({mixer.b * mixer.t, x->shape[2]});
  const Tensor q_latent = normalise(project(rows, mixer.weight("q_a_proj.weight")), mixer.weight("q_a_layernorm.weight"));
  const Tensor latent = normalise(project(rows, mixer.weight("kv_a_proj_with_mqa.weight")), mixer.weight("kv_a_layernorm.weight"));
  const Tensor ids = mixer.select(rows, q_latent);
  int64_t dropping = 0;
  for (int64_t query = 0; query < mixer.b * mixer.t; ++query) {
    EXPECT_EQ(set_of(ids, query), set_of(want_ids, query)) << "query " << query;
    dropping += static_cast<int64_t>(set_of(ids, query).size()) < query % mixer.t + 1;
  }
  EXPECT_GT(dropping, 100) << "most queries must see more tokens than they may select";
  EXPECT_LE(test::relative_rms(mixer.attend(q_latent, latent, ids)->reshape(want->shape), want), 1e-10);
}

}  // namespace
}  // namespace megatoken
