// kda over cuts between ranks. ISEEKYAN/Megatron-LM #107: with chunk grids that restart at every cut, reinforcement learning saw another model
// in training than in sampling. Cuts at multiples of the chunk length keep the grid, and then they may not change a bit.
#include <gtest/gtest.h>

#include "tests/variants/every_variant.hpp"

namespace megatoken {
namespace {

/// Tokens [begin, end) of `whole`, starting from `state`.
Problem part(const Problem& whole, int64_t begin, int64_t end, const TensorView& state) {
  const Component& component = whole.component();
  Axes axes = whole.axes();
  axes.set("t", static_cast<double>(end - begin));
  const Problem piece(component, axes, whole.dtype());
  for (size_t i = 0; i < component.fields.size(); ++i) {
    if (!test::is_given(component.fields[i]) || !whole.views()[i]) continue;
    const int axis = Component::axis_position(component.fields[i], "t");
    copy(axis < 0 ? whole.views()[i] : whole.views()[i].slice(axis, begin, end), piece.views()[i]);
  }
  copy(state, piece["initial_state"]);
  return piece;
}

// cpu_chunk is left out: it carries states in fp64, and a cut rounds them.
TEST(KdaCuts, AtMultiplesOfAChunkChangeNoBit) {
  for (const char* name : {"cpu", "chunk_wy"})
    for (const char* distribution : {"normal", "aimed"}) {
      const Variant& variant = find_variant("kda", name);
      const Problem whole = test::filled("kda", "b=1 t=448 h=1 group=2 d=16 dv=8 carry=1", DType::F32, distribution);
      run_variant(variant, whole, Phase::Forward, 2);
      Tensor state = clone(whole["initial_state"]);
      for (const auto& [begin, end] : {std::pair{0, 64}, {64, 256}, {256, 448}}) {
        const Problem piece = part(whole, begin, end, state);
        run_variant(variant, piece, Phase::Forward, 2);
        EXPECT_TRUE(test::equal(piece["o"], whole["o"].slice(1, begin, end))) << name << " " << distribution << " tokens from " << begin;
        state = clone(piece["final_state"]);
      }
      EXPECT_TRUE(test::equal(state, whole["final_state"])) << name << " " << distribution;
    }
}

}  // namespace
}  // namespace megatoken
