#include "reference/core/tensor.hpp"

#include <cstring>

#include "reference/core/device.hpp"

namespace megatoken {
namespace {

/// Offset in elements of a flat row-major index.
int64_t offset_of(const TensorView& view, int64_t flat) {
  int64_t offset = 0;
  for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
    offset += flat % view.shape[axis] * view.strides[axis];
    flat /= view.shape[axis];
  }
  return offset;
}

template <class F>
decltype(auto) dispatch_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::I32: return f.template operator()<int32_t>();
    case DType::I64: return f.template operator()<int64_t>();
    case DType::U8: return f.template operator()<uint8_t>();
    default: return dispatch_float(dtype, f);
  }
}

/// Visits two tensors of one shape in row-major order: body(a, b) for every innermost row's first elements, its length and strides.
template <class A, class B, class F>
void for_each_row(A* a, const int64_t* a_stride, B* b, const int64_t* b_stride, const int64_t* shape, int rank, const F& body) {
  if (rank == 1) return body(a, *a_stride, b, *b_stride, *shape);
  for (int64_t i = 0; i < *shape; ++i) for_each_row(a + i * *a_stride, a_stride + 1, b + i * *b_stride, b_stride + 1, shape + 1, rank - 1, body);
}

}  // namespace

int64_t Dims::product() const {
  int64_t n = 1;
  for (int64_t v : *this) n *= v;
  return n;
}

std::string Dims::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += format("{}{}", i ? ", " : "", (*this)[i]);
  return text + "]";
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

TensorView TensorView::slice(int axis, int64_t begin, int64_t end) const {
  MEGATOKEN_CHECK(axis >= 0 && axis < shape.rank() && 0 <= begin && begin <= end && end <= shape[axis], "slice [{}, {}) of axis {} of a tensor of shape {}",
                  begin, end, axis, shape.to_string());
  TensorView result = *this;
  result.data = static_cast<std::byte*>(data) + begin * strides[axis] * size_of(dtype);
  result.shape[axis] = end - begin;
  return result;
}

TensorView TensorView::reshape(Dims other) const {
  MEGATOKEN_CHECK(contiguous() && other.product() == size(), "a tensor of shape {} cannot be seen as {}", shape.to_string(), other.to_string());
  return {data, dtype, other, device};
}

Tensor::Tensor(DType dtype, Dims shape, Device device) {
  for (int64_t extent : shape) MEGATOKEN_CHECK(extent >= 0, "negative extent in shape {}", shape.to_string());
  memory_ = allocate(device, shape.product() * size_of(dtype));
  view_ = TensorView(memory_.get(), dtype, shape, device);
}

Tensor Tensor::zeros(DType dtype, Dims shape, Device device) {
  Tensor tensor(dtype, shape, device);
  fill_bytes(tensor.view_.data, device, 0, tensor.view_.bytes());
  return tensor;
}

double value_at(const TensorView& view, int64_t flat) {
  return dispatch_any(view.dtype, [&]<class T>() { return static_cast<double>(static_cast<const T*>(view.data)[offset_of(view, flat)]); });
}

void set_value(const TensorView& view, int64_t flat, double value) {
  dispatch_any(view.dtype, [&]<class T>() { static_cast<T*>(view.data)[offset_of(view, flat)] = static_cast<T>(value); });
}

void fill(const TensorView& view, double value) {
  dispatch_any(view.dtype, [&]<class T>() {
    T* data = static_cast<T*>(view.data);
    const auto x = static_cast<T>(value);
    const auto fill_row = [x](T* row, int64_t stride, T*, int64_t, int64_t n) {
      for (int64_t i = 0; i < n; ++i) row[i * stride] = x;
    };
    for_each_row(data, view.strides.begin(), data, view.strides.begin(), view.shape.begin(), view.shape.rank(), fill_row);
  });
}

void copy(const TensorView& from, const TensorView& to) {
  MEGATOKEN_CHECK(from.shape == to.shape, "copy of shape {} into shape {}", from.shape.to_string(), to.shape.to_string());
  if (from.dtype == to.dtype && from.contiguous() && to.contiguous()) {
    copy_bytes(to.data, to.device, from.data, from.device, from.bytes());
    return;
  }
  MEGATOKEN_CHECK(from.device == Device::Cpu && to.device == Device::Cpu, "only contiguous tensors of one dtype are copied between devices");
  dispatch_any(from.dtype, [&]<class A>() {
    dispatch_any(to.dtype, [&]<class B>() {
      const auto copy_row = [](const A* a, int64_t a_stride, B* b, int64_t b_stride, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          if constexpr (std::is_same_v<A, B>) b[i * b_stride] = a[i * a_stride];
          else b[i * b_stride] = static_cast<B>(static_cast<double>(a[i * a_stride]));
        }
      };
      const A* a = static_cast<const A*>(from.data);
      B* b = static_cast<B*>(to.data);
      if (from.contiguous() && to.contiguous()) copy_row(a, 1, b, 1, from.size());
      else for_each_row(a, from.strides.begin(), b, to.strides.begin(), from.shape.begin(), from.shape.rank(), copy_row);
    });
  });
}

Tensor clone(const TensorView& from) {
  Tensor to(from.dtype, from.shape, from.device);
  copy(from, to);
  return to;
}

Tensor convert(const TensorView& from, DType dtype) {
  Tensor to(dtype, from.shape);
  copy(from, to);
  return to;
}

Tensor to_device(const TensorView& from, Device device) {
  Tensor to(from.dtype, from.shape, device);
  copy(from.contiguous() ? from : clone(from).view(), to);
  return to;
}

Tensor gather_rows(const TensorView& from, int axis, std::span<const int64_t> index, double padding) {
  Dims shape = from.shape;
  shape[axis] = static_cast<int64_t>(index.size());
  Tensor to(from.dtype, shape);
  for (int64_t i = 0; i < shape[axis]; ++i) {
    const int64_t row = index[static_cast<size_t>(i)];
    const TensorView target = to->slice(axis, i, i + 1);
    if (row < 0) fill(target, padding);
    else copy(from.slice(axis, row, row + 1), target);
  }
  return to;
}

void scatter_rows(const TensorView& from, const TensorView& to, int axis, std::span<const int64_t> index) {
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0) continue;
    const int64_t row = static_cast<int64_t>(i);
    copy(from.slice(axis, row, row + 1), to.slice(axis, index[i], index[i] + 1));
  }
}

}  // namespace megatoken
