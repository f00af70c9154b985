// Tensors that do not lie row behind row: views into wider buffers, other orders of memory, and rows so far apart that their offsets leave
// 32 bits. Public kernels took declared strides for granted or multiplied them in 32 bits (cudnn-frontend #1056, xLLM #2311,
// flash-linear-attention #871, #1080, Liger #803, mamba #1015, flashinfer #2937, ik_llama.cpp 2376, aiter #5114).
#include <sys/mman.h>

#include "reference/schemes/scheme.hpp"
#include "tests/variants/every_variant.hpp"

namespace megatoken::test {
namespace {

class EveryLayout : public testing::TestWithParam<const Variant*> {};

/// Results of the variant on contiguous tensors.
Problem expected(const Variant& variant, const Problem& inputs) {
  Problem problem = inputs.converted(inputs.dtype());
  call(variant, problem.axes(), problem.dtype(), problem.views(), phases_of(variant));
  return problem;
}

/// The same numbers up to the rounding of another order of sums.
void expect_results(const Variant& variant, const std::vector<TensorView>& views, const Problem& want, const std::string& layout) {
  const auto& fields = want.component().fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!is_result(fields[i]) || !want.views()[i] || (fields[i].role == Role::InputGrad && !variant.backward)) continue;
    EXPECT_LE(relative_rms(views[i], want.views()[i]), 1e-6) << fields[i].name << " " << layout;
  }
}

/// The same shape in a larger buffer of bytes 0xff, elements of the innermost axis `step` apart, axes in memory in reverse order or not.
struct Spread {
  Tensor memory;
  TensorView view;

  Spread(const TensorView& from, bool reversed, int64_t step) : view(from) {
    const int rank = from.shape.rank();
    int64_t stride = step;
    for (int i = 0; i < rank; ++i) {
      const int axis = reversed ? i : rank - 1 - i;
      view.strides[axis] = stride;
      stride *= from.shape[axis] + 2;
    }
    memory = Tensor(from.dtype, {stride + 1});
    std::memset(memory->data, 0xff, static_cast<size_t>(memory->bytes()));
    view.data = static_cast<std::byte*>(memory->data) + size_of(from.dtype);
    copy(from, view);
  }

  /// True while every element outside the view is what it was.
  bool gaps_are_untouched() const {
    const Tensor wiped = clone(memory);
    TensorView inside = view;
    inside.data = static_cast<std::byte*>(wiped->data) + size_of(view.dtype);
    for (int64_t i = 0; i < inside.size(); ++i) {
      int64_t offset = 0, flat = i;
      for (int axis = inside.shape.rank() - 1; axis >= 0; --axis) offset += flat % inside.shape[axis] * inside.strides[axis], flat /= inside.shape[axis];
      std::memset(static_cast<std::byte*>(inside.data) + offset * size_of(view.dtype), 0xff, static_cast<size_t>(size_of(view.dtype)));
    }
    const auto* bytes = static_cast<const unsigned char*>(wiped->data);
    return std::all_of(bytes, bytes + wiped->bytes(), [](unsigned char b) { return b == 0xff; });
  }
};

bool message_names_layout(const std::string& message) { return message.find("stride") != std::string::npos || message.find("contiguous") != std::string::npos; }

/// Runs the variant on views of `layout`. A variant may refuse a layout, if it says so and which tensor it means.
void expect_same_or_refused(const Variant& variant, const Problem& inputs, const std::vector<TensorView>& views, const Problem& want, bool may_refuse, const std::string& layout) {
  try {
    call(variant, inputs.axes(), inputs.dtype(), views, phases_of(variant));
  } catch (const Error& error) {
    EXPECT_TRUE(may_refuse) << error.what() << " " << layout;
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_TRUE(message_names_layout(error.what())) << error.what();
    return;
  }
  expect_results(variant, views, want, layout);
}

// Activations whose rows have gaps are what a fused projection leaves behind: every variant must take them. Any other layout gives the same
// numbers or is refused.
TEST_P(EveryLayout, WiderBuffersAndOtherOrdersOfMemoryGiveTheSameNumbers) {
  const Variant& variant = *GetParam();
  const Problem inputs = judging_problem(variant);
  const Problem want = expected(variant, inputs);
  const auto& fields = inputs.component().fields;
  for (const bool activations_only : {true, false})
    for (const bool reversed : {false, true})
      for (const int64_t step : {1, 3}) {
        const std::string layout = format("in {} order, elements {} apart, {}", reversed ? "reverse" : "row-major", step, activations_only ? "activations only" : "all tensors");
        std::vector<Spread> spread;
        std::vector<TensorView> views(inputs.views().begin(), inputs.views().end());
        for (size_t i = 0; i < views.size(); ++i) {
          if (!views[i] || (activations_only && (token_axis(inputs.component(), fields[i]) < 0 || fields[i].kind == Kind::Index))) continue;
          spread.emplace_back(views[i], reversed, step);
          views[i] = spread.back().view;
        }
        expect_same_or_refused(variant, inputs, views, want, !activations_only || reversed || step > 1, layout);
        for (const Spread& one : spread) EXPECT_TRUE(one.gaps_are_untouched()) << "a tensor of shape " << one.view.shape.to_string() << " " << layout;
      }
}

/// Address space without memory behind it: pages exist once they are touched, and only small ones.
class Reserved {
 public:
  explicit Reserved(size_t bytes) : bytes_(bytes), memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (memory_ != MAP_FAILED) madvise(memory_, bytes_, MADV_NOHUGEPAGE);
  }
  Reserved(Reserved&& other) noexcept : bytes_(other.bytes_), memory_(std::exchange(other.memory_, MAP_FAILED)) {}
  ~Reserved() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  void* data() const { return memory_ == MAP_FAILED ? nullptr : memory_; }

 private:
  size_t bytes_;
  void* memory_;
};

/// The view with index 1 of `axis` so far from index 0 that the last one lies beyond 2³² elements; the other axes as before.
TensorView far_along(const TensorView& from, int axis, std::vector<Reserved>& far) {
  TensorView view = from;
  int64_t others = 1;
  for (int i = from.shape.rank() - 1; i >= 0; --i) {
    if (i == axis) continue;
    view.strides[i] = others;
    others *= from.shape[i];
  }
  view.strides[axis] = ((int64_t{1} << 32) / (from.shape[axis] - 1) + others) | 1;
  far.emplace_back(static_cast<size_t>((view.strides[axis] * (from.shape[axis] - 1) + others) * size_of(from.dtype)));
  view.data = far.back().data();
  if (view.data) copy(from, view);
  return view;
}

// All tensors along one axis after the other: neither an int nor an unsigned reaches the last element. Only a far innermost axis, or far
// weights, may be refused.
TEST_P(EveryLayout, ElementsBeyondTwoToThe32AreReached) {
  const Variant& variant = *GetParam();
  const Problem inputs = judging_problem(variant);
  const Problem want = expected(variant, inputs);
  const auto& fields = inputs.component().fields;
  for (const bool activations_only : {true, false})
    for (int from_the_end = 1; from_the_end <= Dims::kMax; ++from_the_end) {
      std::vector<Reserved> far;
      std::vector<TensorView> views(inputs.views().begin(), inputs.views().end());
      for (size_t i = 0; i < views.size(); ++i) {
        const int axis = views[i].shape.rank() - from_the_end;
        if (axis < 0 || views[i].shape[axis] < 2 || (activations_only && token_axis(inputs.component(), fields[i]) < 0)) continue;
        views[i] = far_along(views[i], axis, far);
        if (!views[i].data) GTEST_SKIP() << "no address space for 2^32 elements";
      }
      const std::string layout = format("with far elements along axis {} from the end, {}", from_the_end, activations_only ? "activations only" : "all tensors");
      if (!far.empty()) expect_same_or_refused(variant, inputs, views, want, !activations_only || from_the_end == 1, layout);
    }
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryLayout, testing::ValuesIn(cpu_variants()), variant_name);

}  // namespace
}  // namespace megatoken::test
