// Tensors: TensorView is a pointer with dtype, shape, strides and device; Tensor owns its memory.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "reference/core/dtype.hpp"
#include "reference/core/error.hpp"

namespace megatoken {

enum class Device : uint8_t { Cpu, Gpu };

/// Up to six extents or strides.
class Dims {
 public:
  static constexpr int kMax = 6;
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) {
    for (int64_t v : values) push_back(v);
  }
  void push_back(int64_t value) {
    MEGATOKEN_CHECK(rank_ < kMax, "a tensor has at most {} dimensions", kMax);
    values_[static_cast<size_t>(rank_++)] = value;
  }
  int rank() const { return rank_; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  bool operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  int64_t product() const;
  std::string to_string() const;  // "[2, 64, 4]"

 private:
  std::array<int64_t, kMax> values_{};
  int rank_ = 0;
};

/// Row-major strides, in elements.
Dims contiguous_strides(const Dims& shape);

/// Element access by index for loops that read like the formula: x(b, t, h, d).
template <class T, int kRank>
struct Elements {
  T* data = nullptr;
  int64_t stride[kRank] = {};

  template <class... Index>
  MEGATOKEN_HD T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == kRank, "one index per dimension");
    int64_t offset = 0;
    int axis = 0;
    ((offset += static_cast<int64_t>(index) * stride[axis++]), ...);
    return data[offset];
  }
};

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::F32;
  Device device = Device::Cpu;
  Dims shape, strides;  // strides in elements

  TensorView() = default;
  TensorView(void* data, DType dtype, Dims shape, Device device = Device::Cpu)
      : data(data), dtype(dtype), device(device), shape(shape), strides(contiguous_strides(shape)) {}

  explicit operator bool() const { return shape.rank() > 0; }  // an absent optional tensor is false
  int64_t size() const { return shape.product(); }
  int64_t bytes() const { return size() * size_of(dtype); }
  bool contiguous() const { return strides == contiguous_strides(shape); }

  /// Typed pointer; throws when T is not the dtype.
  template <class T>
  T* as() const {
    MEGATOKEN_CHECK(DTypeOf<std::remove_const_t<T>>::kValue == dtype, "tensor is {}, read as {}", megatoken::to_string(dtype),
                    megatoken::to_string(DTypeOf<std::remove_const_t<T>>::kValue));
    return static_cast<T*>(data);
  }
  template <class T, int kRank>
  Elements<T, kRank> elements() const {
    MEGATOKEN_CHECK(shape.rank() == kRank, "tensor of shape {} used with {} indices", shape.to_string(), kRank);
    Elements<T, kRank> result{as<T>(), {}};
    for (int i = 0; i < kRank; ++i) result.stride[i] = strides[i];
    return result;
  }
  /// Rows [begin, end) along one axis; shares memory.
  TensorView slice(int axis, int64_t begin, int64_t end) const;
  /// Same memory, other shape of equal size; contiguous views only.
  TensorView reshape(Dims shape) const;
};

/// Owns aligned memory on one device. Uninitialised unless zeros() is asked for.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Dims shape, Device device = Device::Cpu);
  static Tensor zeros(DType dtype, Dims shape, Device device = Device::Cpu);

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }
  const TensorView* operator->() const { return &view_; }
  explicit operator bool() const { return static_cast<bool>(view_); }
  template <class T> T* as() const { return view_.as<T>(); }
  template <class T> std::span<T> span() const { return {view_.as<T>(), static_cast<size_t>(view_.size())}; }

 private:
  std::shared_ptr<std::byte> memory_;
  TensorView view_;
};

/// Copies values between tensors of one shape, converting dtypes (host only) and strides (host only), or bytes between devices.
void copy(const TensorView& from, const TensorView& to);
Tensor clone(const TensorView& from);
/// The same values in another dtype, contiguous, on the host.
Tensor convert(const TensorView& from, DType dtype);
/// Element by flat row-major index of a host tensor, as a double; integers too.
double value_at(const TensorView& view, int64_t flat);
void set_value(const TensorView& view, int64_t flat, double value);
void fill(const TensorView& view, double value);
/// Row `index[i]` of `from` along `axis` becomes row i; host, contiguous result. A negative index gives `padding`.
Tensor gather_rows(const TensorView& from, int axis, std::span<const int64_t> index, double padding = 0);
/// The inverse: row i of `from` goes to row index[i] of `to`; negative indices are dropped.
void scatter_rows(const TensorView& from, const TensorView& to, int axis, std::span<const int64_t> index);
Tensor to_device(const TensorView& from, Device device);

}  // namespace megatoken
