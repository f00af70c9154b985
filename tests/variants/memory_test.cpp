// What a variant may touch and what it may not depend on: bytes beside its tensors, what results and workspace held before, how often and
// with how many threads it ran, whether a backward follows. Behind it: reads past a buffer (flash-linear-attention #913, PaddleFleet#1836),
// results taken from uninitialised memory (vllm #53906, #55201), run-to-run differences (flash-linear-attention #945, flashinfer #3529,
// sglang #31115), and selections that differ between the paths with and without gradients (Megatron #7169, #7441).
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/variants/every_variant.hpp"

namespace megatoken::test {
namespace {

class EveryMemory : public testing::TestWithParam<const Variant*> {};

std::vector<const Field*> results_of(const Variant& variant) {
  std::vector<const Field*> found;
  for (const Field& field : find_component(variant.component).fields)
    if (is_result(field) && (field.role == Role::Output || variant.backward)) found.push_back(&field);
  return found;
}

void expect_equal(const Variant& variant, const Problem& got, const Problem& want, const std::string& what) {
  for (const Field* field : results_of(variant)) {
    if (!want[field->name]) continue;
    EXPECT_TRUE(same_result(variant, got[field->name], want[field->name])) << field->name << " " << what;
  }
}

/// Fills results with bytes that no one wrote.
void stain(const Problem& problem, unsigned char byte) {
  for (size_t i = 0; i < problem.views().size(); ++i)
    if (const TensorView& view = problem.views()[i]; view && is_result(problem.component().fields[i])) std::memset(view.data, byte, static_cast<size_t>(view.bytes()));
}

TEST_P(EveryMemory, FiftyRunsOnAnyThreadsInAnyGarbageGiveTheSameBits) {
  const Variant& variant = *GetParam();
  const Problem first = judging_problem(variant), again = first.converted(first.dtype());
  stain(first, 0);
  call(variant, first.axes(), first.dtype(), first.views(), phases_of(variant), 1, 0);
  for (int run = 1; run < 50; ++run) {
    const unsigned char garbage[] = {0xff, 0x00, 0x7f, 0x3c};
    stain(again, garbage[run % 4]);
    call(variant, again.axes(), again.dtype(), again.views(), phases_of(variant), 1 + run % 5, garbage[(run + 1) % 4]);
    expect_equal(variant, again, first, format("in run {}", run + 1));
    if (HasFailure()) break;
  }
}

TEST_P(EveryMemory, ABackwardThatFollowsChangesNoOutputAndNeedsNothingButTheOutputs) {
  const Variant& variant = *GetParam();
  const Problem both = judging_problem(variant), apart = both.converted(both.dtype());
  run_variant(variant, both, phases_of(variant), 2);
  run_variant(variant, apart, Phase::Forward, 2);
  if (variant.backward) {
    const Problem later = apart.converted(apart.dtype(), true);
    call(variant, later.axes(), later.dtype(), later.views(), Phase::Backward);
    expect_equal(variant, later, both, "with forward and backward apart");
  }
  for (const Field* field : results_of(variant)) {
    if (field->role != Role::Output || !both[field->name]) continue;
    EXPECT_TRUE(same_result(variant, apart[field->name], both[field->name])) << field->name << " without a backward";
  }
}

/// Bytes that begin, or end, where memory may not be touched.
class Fenced {
 public:
  Fenced(int64_t bytes, int64_t alignment, bool at_end) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    inner_ = (bytes + page - 1) / page * page;
    total_ = inner_ + 2 * page;
    memory_ = static_cast<std::byte*>(mmap(nullptr, static_cast<size_t>(total_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    MEGATOKEN_CHECK(memory_ != MAP_FAILED && mprotect(memory_ + page, static_cast<size_t>(inner_), PROT_READ | PROT_WRITE) == 0, "no pages to fence {} bytes", bytes);
    data = memory_ + page + (at_end ? (inner_ - bytes) / alignment * alignment : 0);
  }
  ~Fenced() { munmap(memory_, static_cast<size_t>(total_)); }

  std::byte* data;

 private:
  std::byte* memory_;
  int64_t inner_, total_;
};

/// Runs on tensors and a workspace between fences; a step over one ends the process.
void run_fenced(const Variant& variant, const Problem& inputs, bool at_end) {
  std::vector<std::unique_ptr<Fenced>> fences;
  std::vector<TensorView> views(inputs.views().begin(), inputs.views().end());
  for (TensorView& view : views) {
    if (!view) continue;
    fences.push_back(std::make_unique<Fenced>(view.bytes(), size_of(view.dtype), at_end));
    const TensorView from = view;
    view.data = fences.back()->data;
    copy(from, view);
  }
  for (const Phase phase : {Phase::Forward, Phase::Backward}) {
    if (phase == Phase::Backward && !variant.backward) continue;
    const int64_t bytes = variant.workspace ? variant.workspace(inputs.axes(), inputs.dtype(), phase) : 0;
    const Fenced workspace(bytes, 256, at_end);
    Context context{.threads = 2, .workspace = {workspace.data, static_cast<size_t>(bytes)}};
    const Call arguments{inputs.axes(), inputs.dtype(), views, context};
    phase == Phase::Forward ? variant.forward(arguments) : variant.backward(arguments);
  }
}

TEST_P(EveryMemory, NothingBesideTheTensorsIsTouched) {
  const Variant& variant = *GetParam();
  const Component& component = find_component(variant.component);
  auto shapes = component.examples;
  shapes.push_back(component.judging);
  for (const DType dtype : variant.dtypes)
    for (const bool at_end : {false, true})
      EXPECT_EXIT({
        for (const auto& axes : shapes) run_fenced(variant, filled(component.name, axes, dtype), at_end);
        std::_Exit(0);
      }, testing::ExitedWithCode(0), "") << (at_end ? "behind" : "in front of") << " a tensor of " << to_string(dtype);
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryMemory, testing::ValuesIn(cpu_variants()), variant_name);

}  // namespace
}  // namespace megatoken::test
