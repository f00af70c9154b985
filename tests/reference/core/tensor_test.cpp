// Tensors and views: strides, slices, copies between dtypes and layouts, rows gathered and scattered.
#include "reference/core/tensor.hpp"

#include <gtest/gtest.h>

#include "reference/core/device.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::message_of;

/// Value = flat index.
Tensor counting(DType dtype, Dims shape) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor->size(); ++i) set_value(tensor, i, static_cast<double>(i));
  return tensor;
}

/// The same values with the first two axes swapped: a view that is not contiguous.
TensorView swapped(TensorView view) {
  std::swap(view.shape[0], view.shape[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

TEST(Tensor, LiesRowMajor) {
  const Tensor x = counting(DType::F32, {2, 3, 4});
  EXPECT_EQ(x->strides, Dims({12, 4, 1}));
  EXPECT_EQ(x->size(), 24);
  EXPECT_EQ(x->bytes(), 96);
  const auto at = x->elements<float, 3>();
  EXPECT_EQ(at(1, 2, 3), 23);
  EXPECT_EQ(at(0, 2, 1), 9);
  EXPECT_EQ(x.span<float>()[17], 17);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x->data) % 256, 0u);
}

TEST(Tensor, MayBeEmptyButNotNegative) {
  const Tensor none(DType::F32, {2, 0, 3});
  EXPECT_EQ(none->size(), 0);
  EXPECT_TRUE(none);
  EXPECT_FALSE(Tensor());
  EXPECT_FALSE(TensorView());
  EXPECT_NE(message_of([] { Tensor(DType::F32, {2, -1}); }).find("[2, -1]"), std::string::npos);
}

TEST(Tensor, ZerosAreZerosInEveryDType) {
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::E4M3, DType::I32, DType::I64, DType::U8}) {
    const Tensor x = Tensor::zeros(dtype, {5});
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(value_at(x, i), 0);
  }
}

TEST(Tensor, LargeOnesAreAlignedToo) {
  const Tensor x(DType::U8, {(int64_t{1} << 24) + 1});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x->data) % 256, 0u);
  set_value(x, x->size() - 1, 7);
  EXPECT_EQ(value_at(x, x->size() - 1), 7);
}

TEST(Tensor, RefusesToBeReadAsAnotherType) {
  const Tensor x(DType::BF16, {2, 3});
  EXPECT_EQ(message_of([&] { x.as<float>(); }), "tensor is bf16, read as fp32");
  EXPECT_EQ(message_of([&] { x->elements<BFloat16, 3>(); }), "tensor of shape [2, 3] used with 3 indices");
}

TEST(Dims, HoldUpToSixExtents) {
  EXPECT_EQ(Dims({1, 2, 3, 4, 5, 6}).product(), 720);
  EXPECT_EQ(Dims().product(), 1);
  EXPECT_EQ(Dims({int64_t{1} << 20, int64_t{1} << 20}).product(), int64_t{1} << 40);
  EXPECT_NE(message_of([] { Dims({1, 2, 3, 4, 5, 6, 7}); }), "");
}

TEST(Slice, SharesMemoryAlongAnyAxis) {
  const Tensor x = counting(DType::F64, {3, 4, 5});
  const TensorView middle = x->slice(1, 1, 3);
  EXPECT_EQ(middle.shape, Dims({3, 2, 5}));
  EXPECT_FALSE(middle.contiguous());
  EXPECT_EQ(value_at(middle, 0), 5);
  EXPECT_EQ(value_at(middle, 10), 25) << "first element of the second outer row";
  EXPECT_EQ(value_at(middle.slice(2, 4, 5).slice(0, 2, 3), 1), 54) << "slices of slices";
  set_value(middle, 0, -1);
  EXPECT_EQ(value_at(x, 5), -1);
  EXPECT_TRUE(x->slice(0, 1, 2).contiguous());
  EXPECT_EQ(x->slice(2, 3, 3).size(), 0);
}

TEST(Slice, RefusesWhatLiesOutside) {
  const Tensor x(DType::F32, {3, 4});
  for (auto [axis, begin, end] : {std::tuple{0, 0, 4}, {0, 2, 1}, {1, -1, 2}, {2, 0, 1}, {-1, 0, 1}})
    EXPECT_NE(message_of([&] { x->slice(axis, begin, end); }).find("[3, 4]"), std::string::npos) << axis << " " << begin << " " << end;
}

TEST(Reshape, KeepsMemoryAndSize) {
  const Tensor x = counting(DType::I32, {4, 6});
  EXPECT_EQ(value_at(x->reshape({2, 2, 6}), 13), 13);
  EXPECT_NE(message_of([&] { x->reshape({5, 5}); }), "");
  EXPECT_NE(message_of([&] { x->slice(1, 0, 3).reshape({12}); }), "") << "not contiguous";
}

TEST(Copy, FollowsStridesOnBothSides) {
  const Tensor x = counting(DType::F64, {3, 4, 2});
  Tensor turned(DType::F64, {4, 3, 2});
  copy(swapped(x), turned);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(value_at(turned, (j * 3 + i) * 2 + 1), value_at(x, (i * 4 + j) * 2 + 1));
  Tensor back(DType::F64, {3, 4, 2});
  copy(turned, swapped(back));
  EXPECT_EQ(test::relative_rms(back, x), 0);
}

TEST(Copy, ConvertsAndRoundsOnce) {
  Tensor x(DType::F64, {3});
  set_value(x, 0, 1 + 0x1p-8 + 0x1p-40), set_value(x, 1, -3), set_value(x, 2, 1e30);
  const Tensor bf16 = convert(x, DType::BF16), half = convert(x, DType::F16);
  EXPECT_EQ(value_at(bf16, 0), 1 + 0x1p-7);
  EXPECT_EQ(value_at(bf16, 1), -3);
  EXPECT_TRUE(std::isinf(value_at(half, 2)));
  EXPECT_EQ(value_at(convert(bf16, DType::F64), 0), 1 + 0x1p-7);
  EXPECT_EQ(value_at(convert(counting(DType::I64, {9}), DType::F32), 8), 8);
}

TEST(Copy, RefusesOtherShapes) {
  const Tensor a(DType::F32, {2, 3}), b(DType::F32, {3, 2});
  EXPECT_EQ(message_of([&] { copy(a, b); }), "copy of shape [2, 3] into shape [3, 2]");
}

TEST(Copy, KeepsLargeIntegersExact) {
  Tensor x(DType::I64, {3, 2}), y(DType::I64, {3, 1});
  for (int64_t i = 0; i < 6; ++i) x.as<int64_t>()[i] = (int64_t{1} << 60) + i;
  copy(x->slice(1, 1, 2), y);
  EXPECT_EQ(y.as<int64_t>()[2], (int64_t{1} << 60) + 5) << "a detour through double would lose the 5";
}

TEST(Copy, ConvertsBetweenStrides) {
  const Tensor x = counting(DType::F32, {3, 4, 2});
  Tensor all = Tensor::zeros(DType::F64, {4, 5, 4});
  copy(swapped(x), all->slice(1, 1, 4).slice(2, 2, 4));  // shape [4, 3, 2], a gap behind every row
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 5; ++j)
      for (int64_t k = 0; k < 4; ++k) {
        const bool inside = j >= 1 && j < 4 && k >= 2;
        EXPECT_EQ(value_at(all, (i * 5 + j) * 4 + k), inside ? value_at(x, ((j - 1) * 4 + i) * 2 + k - 2) : 0);
      }
}

TEST(Fill, WritesEveryElementOfASliceAndNoOther) {
  const Tensor x = Tensor::zeros(DType::BF16, {3, 4, 2});
  fill(x->slice(0, 1, 3).slice(2, 1, 2), 7);
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(value_at(x, i), i >= 8 && i % 2 == 1 ? 7 : 0) << i;
}

TEST(Clone, IsContiguousAndApart) {
  const Tensor x = counting(DType::F32, {3, 4, 2});
  const Tensor y = clone(swapped(x));
  EXPECT_TRUE(y->contiguous());
  EXPECT_EQ(y->shape, Dims({4, 3, 2}));
  set_value(x, 0, 100);
  EXPECT_EQ(value_at(y, 0), 0);
  const Tensor z = to_device(swapped(x), Device::Cpu);
  EXPECT_EQ(value_at(z, 2), 8) << "second row of the swapped view";
}

TEST(Rows, GatherTakesAnyOrderAndPads) {
  const Tensor x = counting(DType::F32, {2, 4, 3});
  const std::vector<int64_t> index{3, -1, 0, 3};
  const Tensor y = gather_rows(x, 1, index, -7);
  EXPECT_EQ(y->shape, Dims({2, 4, 3}));
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_EQ(value_at(y, (b * 4 + 0) * 3 + c), (b * 4 + 3) * 3 + c);
      EXPECT_EQ(value_at(y, (b * 4 + 1) * 3 + c), -7);
      EXPECT_EQ(value_at(y, (b * 4 + 2) * 3 + c), (b * 4 + 0) * 3 + c);
      EXPECT_EQ(value_at(y, (b * 4 + 3) * 3 + c), (b * 4 + 3) * 3 + c);
    }
}

TEST(Rows, ScatterUndoesGather) {
  const Tensor x = counting(DType::BF16, {5, 2});
  const std::vector<int64_t> order{4, 0, -1, 2, 1, 3};
  Tensor back = Tensor::zeros(DType::BF16, {5, 2});
  scatter_rows(gather_rows(x, 0, order, 99), back, 0, order);
  EXPECT_EQ(test::relative_rms(back, x), 0);
}

TEST(Rows, RefuseIndicesBeyondTheTensor) {
  const Tensor x(DType::F32, {3, 2});
  const std::vector<int64_t> index{3};
  EXPECT_NE(message_of([&] { gather_rows(x, 0, index); }).find("[3, 2]"), std::string::npos);
}

TEST(HostMemory, SaysHowMuchItCouldNotGet) {
  EXPECT_NE(message_of([] { Tensor(DType::F64, {int64_t{1} << 55}); }).find("out of memory"), std::string::npos);
}

}  // namespace
}  // namespace megatoken
