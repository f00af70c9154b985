// linear/cublaslt: the three products of linear.hpp by the vendor's library. y = x Wᵀ + bias, dx = dy W, dW = dyᵀ x.
// Operands in the case's dtype, sums in fp32 (fp64 for fp64), dW and dbias written in fp32. The library is looked for when a case
// asks for it, so programs start on machines without it.
#include <cublasLt.h>
#include <dlfcn.h>

#include "reference/components/linear/linear.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::linear {
namespace {

constexpr int64_t kWorkspace = 32 << 20;  // what the library asks for on Hopper to use its best kernels

/// The calls used here, from the shared library.
struct Library {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::string missing;

  static const Library& get() {
    static const Library library;
    return library;
  }

 private:
  Library() {
    void* file = nullptr;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if (!file) file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
      missing = "libcublasLt.so is not on this machine";
      return;
    }
    load(file, create, "cublasLtCreate");
    load(file, matmul, "cublasLtMatmul");
    load(file, desc_create, "cublasLtMatmulDescCreate");
    load(file, desc_destroy, "cublasLtMatmulDescDestroy");
    load(file, desc_set, "cublasLtMatmulDescSetAttribute");
    load(file, layout_create, "cublasLtMatrixLayoutCreate");
    load(file, layout_destroy, "cublasLtMatrixLayoutDestroy");
    load(file, preference_create, "cublasLtMatmulPreferenceCreate");
    load(file, preference_destroy, "cublasLtMatmulPreferenceDestroy");
    load(file, preference_set, "cublasLtMatmulPreferenceSetAttribute");
    load(file, heuristic, "cublasLtMatmulAlgoGetHeuristic");
    if (missing.empty() && create(&handle) != CUBLAS_STATUS_SUCCESS) missing = "cublasLtCreate failed";
  }
  template <class F>
  void load(void* file, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(file, name));
    if (!function) missing = std::string("libcublasLt.so lacks ") + name;
  }
};

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw Error(ErrorKind::Environment, format("{} failed with cublas status {}", call, static_cast<int>(status)));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return CUDA_R_64F;
    case DType::F16: return CUDA_R_16F;
    case DType::BF16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

/// A row-major matrix as the library sees it: column-major, transposed.
struct Matrix {
  void* data;
  DType dtype;
  int64_t rows, columns;  // row-major
};

/// out = op(a) op(b) (+ bias per column), row-major. The library computes outᵀ = op(b)ᵀ op(a)ᵀ, so a and b change places.
void multiply(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b, const Matrix& out, const void* bias, DType bias_dtype, Context& context) {
  if (out.rows == 0 || out.columns == 0) return;
  const int64_t inner = transpose_a ? a.rows : a.columns;
  if (inner == 0) {
    MEGATOKEN_CUDA(cudaMemsetAsync(out.data, 0, static_cast<size_t>(out.rows * out.columns * size_of(out.dtype)), static_cast<cudaStream_t>(context.stream)));
    return;
  }
  const Library& lt = Library::get();
  const bool wide = a.dtype == DType::F64;
  cublasLtMatmulDesc_t desc{};
  check(lt.desc_create(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t first = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "transpose");
  check(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second), "transpose");
  if (bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cudaDataType_t type = type_of(bias_dtype);
    check(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "epilogue");
    check(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "bias pointer");
    check(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), "bias type");
  }
  const auto layout = [&](const Matrix& m) {
    cublasLtMatrixLayout_t result{};
    check(lt.layout_create(&result, type_of(m.dtype), static_cast<uint64_t>(m.columns), static_cast<uint64_t>(m.rows), m.columns), "cublasLtMatrixLayoutCreate");
    return result;
  };
  const auto lb = layout(b), la = layout(a), lo = layout(out);
  cublasLtMatmulPreference_t preference{};
  check(lt.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const uint64_t bytes = context.workspace.size();
  check(lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes), "workspace limit");
  cublasLtMatmulHeuristicResult_t choice{};
  int found = 0;
  const cublasStatus_t searched = lt.heuristic(lt.handle, desc, lb, la, lo, lo, preference, 1, &choice, &found);
  const double one64 = 1, zero64 = 0;
  const float one = 1, zero = 0;
  cublasStatus_t status = found > 0 ? CUBLAS_STATUS_SUCCESS : searched == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : searched;
  if (found > 0)
    status = lt.matmul(lt.handle, desc, wide ? static_cast<const void*>(&one64) : &one, b.data, lb, a.data, la, wide ? static_cast<const void*>(&zero64) : &zero, out.data, lo, out.data, lo,
                       &choice.algo, context.workspace.data(), context.workspace.size(), static_cast<cudaStream_t>(context.stream));
  lt.preference_destroy(preference);
  for (auto l : {lb, la, lo}) lt.layout_destroy(l);
  lt.desc_destroy(desc);
  check(status, "cublasLtMatmul");
}

Matrix rows_of(const TensorView& view, int64_t rows, int64_t columns) { return {view.data, view.dtype, rows, columns}; }

void forward(const Shape& s, const Tensors& v, Context& context) {
  multiply(rows_of(v.x, s.rows(), s.c), false, rows_of(v.w, s.o, s.c), true, rows_of(v.y, s.rows(), s.o), s.bias ? v.bias.data : nullptr, v.x.dtype, context);
}

template <class T>
void bias_gradient(const Shape& s, const Tensors& v, Context& context) {
  using Acc = Accumulator<T>;
  const T* d_y = v.d_y.as<const T>();
  Acc* dbias = v.dbias.as<Acc>();
  const int64_t rows = s.rows(), o = s.o;
  launch(o, context.stream, "linear dbias", [=] __device__(int64_t k) {
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += static_cast<Acc>(d_y[row * o + k]);
    dbias[k] = sum;
  });
}

void backward(const Shape& s, const Tensors& v, Context& context) {
  const Matrix d_y = rows_of(v.d_y, s.rows(), s.o);
  multiply(d_y, false, rows_of(v.w, s.o, s.c), false, rows_of(v.dx, s.rows(), s.c), nullptr, v.x.dtype, context);
  multiply(d_y, true, rows_of(v.x, s.rows(), s.c), false, rows_of(v.dw, s.o, s.c), nullptr, v.x.dtype, context);
  if (s.bias) dispatch_float(v.x.dtype, [&]<class T>() { bias_gradient<T>(s, v, context); });
}

/// The library wants 16-byte rows for its tensor-core kernels, and has no e4m3 here.
std::string refuse(const Shape& s, DType dtype) {
  if (!Library::get().missing.empty()) return Library::get().missing;
  const int64_t unit = 16 / size_of(dtype);
  return s.c % unit || s.o % unit ? format("widths must be multiples of {} at {}", unit, to_string(dtype)) : "";
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cublaslt",
    .about = "the vendor's matrix products",
    .device = Device::Gpu,
    .dtypes = {DType::F64, DType::F32, DType::BF16, DType::F16},
    .refuse = refuse,
    .workspace = [](const Shape&, DType, Phase) -> int64_t { return kWorkspace; },
    .forward = forward,
    .backward = backward,
})};

}  // namespace
}  // namespace megatoken::linear
