// Liveness on tapes small enough to follow by hand.
#include "harness/plan/tape.hpp"

#include <gtest/gtest.h>

#include "reference/core/error.hpp"

namespace megatoken::plan {
namespace {

/// input 10 → a 20 (saves the input) → b 30 (saves a) → c 10.
Tape chain() {
  Tape tape(10);
  const int a = tape.add({.name = "a", .reads = {tape.input()}, .saves = {tape.input()}, .bytes = 20});
  const int b = tape.add({.name = "b", .reads = {a}, .saves = {a}, .bytes = 30});
  tape.add({.name = "c", .reads = {b}, .bytes = 10});
  return tape;
}

TEST(Tape, ForwardDropsATensorAfterItsLastReader) {
  const Mark mark = chain().forward_mark();
  EXPECT_EQ(mark.bytes, 10 + 20 + 30);  // b is made while a and the input are alive; c sees b alone
  EXPECT_EQ(mark.where, "forward of b");
}

TEST(Tape, SavedIsWhatSomeBackwardNeeds) {
  EXPECT_EQ(chain().saved_bytes(), 20);
  EXPECT_EQ(chain().output_bytes(), 10);
  EXPECT_EQ(chain().keeping_forward_mark().bytes, 10 + 20 + 30 + 10);
}

TEST(Tape, BackwardMakesGradientsOfWhatWasRead) {
  // Starts with input 10, a 20 and dc 10. c: + db 30 = 70. b: dc is gone, + da 20 = 80. a: db and a are gone, + dx 10 = 40.
  const Mark mark = chain().backward_mark();
  EXPECT_EQ(mark.bytes, 80);
  EXPECT_EQ(mark.where, "backward of b");
}

TEST(Tape, HeldEndsStayUntilTheLayerIsDone) {
  EXPECT_EQ(chain().recompute_mark(false).bytes, 80);
  EXPECT_EQ(chain().recompute_mark(true).bytes, 80 + 10 + 10);  // output and its gradient
}

TEST(Tape, ScratchCountsOnlyWhileItsOperationRuns) {
  Tape tape(10);
  const int a = tape.add({.name = "a", .reads = {tape.input()}, .bytes = 5, .scratch = 100, .backward_scratch = 7});
  tape.add({.name = "b", .reads = {a}, .bytes = 5});
  EXPECT_EQ(tape.forward_mark().bytes, 115);
  EXPECT_EQ(tape.forward_mark().where, "forward of a");
  EXPECT_EQ(tape.backward_mark().bytes, 10 + 5 + 10 + 7);  // input, da, dx, scratch
}

TEST(Tape, ASecondContributionLivesUntilItIsAdded) {
  Tape tape(10);
  const int a = tape.add({.name = "a", .reads = {tape.input()}, .bytes = 10});
  const int b = tape.add({.name = "b", .reads = {a}, .bytes = 10});
  tape.add({.name = "sum", .reads = {a, b}, .bytes = 5});
  // At b: input, da from the sum, db, and b's own contribution to da.
  EXPECT_EQ(tape.backward_mark().bytes, 40);
  EXPECT_EQ(tape.backward_mark().where, "backward of b");
}

TEST(Tape, NothingFlowsBackThroughASelection) {
  Tape tape(10);
  const int ids = tape.add({.name = "select", .reads = {tape.input()}, .bytes = 50, .backward_scratch = 1000, .differentiable = false});
  tape.add({.name = "use", .reads = {tape.input(), ids}, .saves = {ids}, .bytes = 10});
  EXPECT_EQ(tape.backward_mark().bytes, 10 + 50 + 10 + 10);  // input, ids, d(out), dx; no gradient of ids, no scratch
}

TEST(Tape, ARecomputedSegmentKeepsOnlyWhatEntersIt) {
  for (bool recompute : {false, true}) {
    Tape tape(10);
    const int segment = recompute ? tape.next_segment() : 0;
    const int a = tape.add({.name = "a", .reads = {tape.input()}, .bytes = 20});
    const int b = tape.add({.name = "b", .reads = {a}, .saves = {a, kSelf}, .bytes = 100, .segment = segment});
    const int c = tape.add({.name = "c", .reads = {b}, .saves = {b}, .bytes = 30, .segment = segment});
    tape.add({.name = "d", .reads = {c}, .saves = {c}, .bytes = 10});
    EXPECT_EQ(tape.saved_bytes(), recompute ? 20 + 30 : 20 + 100 + 30);
    // Running the segment again brings b back, so the backward reaches the same mark.
    EXPECT_EQ(tape.backward_mark().bytes, 10 + 20 + 100 + 30 + 100) << recompute;
  }
}

TEST(Tape, PartsAddUpToTheMark) {
  Tape tape(10);
  const int a = tape.add({.name = "a", .part = Part::Mixer, .reads = {tape.input()}, .saves = {kSelf}, .bytes = 20, .scratch = 3});
  tape.add({.name = "b", .part = Part::Mlp, .reads = {a}, .saves = {a}, .bytes = 30});
  for (const Mark& mark : {tape.forward_mark(), tape.keeping_forward_mark(), tape.backward_mark(), tape.recompute_mark(true)}) {
    int64_t sum = 0;
    for (int64_t part : mark.parts) sum += part;
    EXPECT_EQ(sum, mark.bytes) << mark.where;
  }
}

TEST(Tape, TheTimelineHoldsTheMark) {
  std::vector<Moment> timeline;
  const Mark mark = chain().recompute_mark(false, &timeline);
  ASSERT_EQ(timeline.size(), 6u);
  int64_t highest = 0;
  for (const auto& moment : timeline) highest = std::max(highest, moment.bytes);
  EXPECT_EQ(highest, mark.bytes);
  EXPECT_EQ(timeline.front().where, "forward of a");
  EXPECT_EQ(timeline.back().where, "backward of a");
}

TEST(Tape, RefusesATensorThatDoesNotExistYet) {
  Tape tape(10);
  EXPECT_THROW(tape.add({.name = "a", .reads = {1}, .bytes = 1}), Error);
}

}  // namespace
}  // namespace megatoken::plan
