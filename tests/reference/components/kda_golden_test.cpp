// The KDA mixer of the public reference model, from `input_layernorm` to `self_attn`, composed from short_conv and kda at fp64
// with the projections and the output norm as plain loops.
#include <gtest/gtest.h>

#include "tests/compare.hpp"
#include "tests/golden.hpp"

namespace megatoken {
namespace {

using test::Golden;

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

/// Values in row-major order, whatever the shapes.
void copy_flat(const TensorView& from, const TensorView& to) { copy(from.reshape(to.shape), to); }

struct Mixer {
  const Golden& golden;
  std::string layer, variant;
  Tensor weight(const std::string& name) const { return golden("weights/" + layer + ".self_attn." + name); }

  Tensor run(const TensorView& x) const {
    const int64_t b = x.shape[0], t = x.shape[1], rows = b * t;
    const int64_t h = weight("forget_gate.A_log")->size(), d = weight("o_norm.weight")->size(), width = h * d;

    Problem conv = test::filled("short_conv", format("b={} t={} c={}", b, t, 3 * width));
    const Tensor parts[] = {project(x, weight("q_proj.weight")), project(x, weight("k_proj.weight")), project(x, weight("v_proj.weight"))};
    for (int64_t i = 0; i < 3 * rows * width; ++i) set_value(conv["x"], i, value_at(parts[i / width % 3], i / (3 * width) * width + i % width));
    copy_flat(weight("conv1d.weight"), conv["w"]);
    run_variant(find_variant("short_conv", "cpu"), conv, Phase::Forward);

    Problem kda = test::filled("kda", format("b={} t={} h={} d={} gate=2 beta=1 lower_bound=-5", b, t, h, d));
    const char* names[] = {"q", "k", "v"};
    for (int64_t i = 0; i < 3 * rows * width; ++i) set_value(kda[names[i / width % 3]], i / (3 * width) * width + i % width, value_at(conv["y"], i));
    copy_flat(project(project(x, weight("forget_gate.f_a_proj.weight")), weight("forget_gate.f_b_proj.weight")), kda["g"]);
    copy_flat(project(x, weight("b_proj.weight")), kda["beta"]);
    copy_flat(weight("forget_gate.A_log"), kda["A_log"]);
    copy_flat(weight("forget_gate.dt_bias"), kda["dt_bias"]);
    run_variant(find_variant("kda", variant), kda, Phase::Forward);

    const Tensor gate = project(project(x, weight("g_a_proj.weight")), weight("g_b_proj.weight")), norm = weight("o_norm.weight");
    Tensor gated(DType::F64, {rows, width});
    for (int64_t head = 0; head < rows * h; ++head) {
      double squares = 0;
      for (int64_t c = 0; c < d; ++c) squares += std::pow(value_at(kda["o"], head * d + c), 2);
      for (int64_t c = 0; c < d; ++c) {
        const double o = value_at(kda["o"], head * d + c), g = value_at(gate, head * d + c);
        set_value(gated, head * d + c, value_at(norm, c) * o / std::sqrt(squares / static_cast<double>(d) + 1e-5) / (1 + std::exp(-g)));
      }
    }
    return project(gated, weight("o_proj.weight"));
  }
};

TEST(KdaGolden, MixerOfEveryKdaLayerEqualsThePublicReference) {
  if (!Golden::exists("nano.h5")) GTEST_SKIP() << Golden::missing("nano.h5");
  const Golden golden("nano.h5");
  for (int layer : {0, 1, 2, 4})
    for (const char* variant : {"cpu", "cpu_chunk"}) {
      const std::string name = format("layers.{}", layer);
      const Tensor x = golden("captured/" + name + ".input_layernorm/out0"), want = golden("captured/" + name + ".self_attn/out0");
      const Tensor got = Mixer{golden, name, variant}.run(x);
      EXPECT_LE(test::relative_rms(got->reshape(want->shape), want), 1e-10) << name << " " << variant;
    }
}

}  // namespace
}  // namespace megatoken
