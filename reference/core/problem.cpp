#include "reference/core/problem.hpp"

#include <cmath>

#include "reference/core/device.hpp"
#include "reference/core/random.hpp"

namespace megatoken {
namespace {

/// Rows of equal token get equal values: what an embedding does to text.
void fill_by_token(const TensorView& view, int token_axis, const std::vector<int32_t>& tokens, uint64_t seed, const std::string& name) {
  const RandomStream stream(seed, name);
  int64_t before = 1, after = 1;
  for (int i = 0; i < token_axis; ++i) before *= view.shape[i];
  for (int i = token_axis + 1; i < view.shape.rank(); ++i) after *= view.shape[i];
  const int64_t t = view.shape[token_axis];
  for (int64_t i = 0; i < before; ++i)
    for (int64_t j = 0; j < t; ++j)
      for (int64_t k = 0; k < after; ++k) {
        const int64_t token = tokens[static_cast<size_t>(i * t + j) % tokens.size()];
        set_value(view, (i * t + j) * after + k, stream.normal(token * after + k));
      }
}

}  // namespace

void fill_normal(const TensorView& view, uint64_t seed, const std::string& name, double scale, double shift) {
  const RandomStream stream(seed, name);
  const int64_t n = view.size();
  if (!view.contiguous()) {
    for (int64_t i = 0; i < n; ++i) set_value(view, i, shift + scale * stream.normal(i));
    return;
  }
  dispatch_float(view.dtype, [&]<class T>() {
    T* data = view.as<T>();
    parallel_for((n + 65535) / 65536, hardware_threads(), [&](int64_t block) {
      for (int64_t i = block * 65536, end = std::min(n, i + 65536); i < end; ++i) data[i] = static_cast<T>(shift + scale * stream.normal(i));
    });
  });
}

std::vector<int32_t> synthetic_tokens(int64_t count, uint64_t seed, int32_t vocabulary) {
  const RandomStream stream(seed, "synthetic tokens");
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)  // density 1/(1+x): low ids are common
    tokens[static_cast<size_t>(i)] = static_cast<int32_t>(std::pow(static_cast<double>(vocabulary), stream.uniform(i))) - 1;
  return tokens;
}

Problem::Problem(const Component& component, Axes axes, DType dtype, Device device) : component_(&component), axes_(std::move(axes)), dtype_(dtype) {
  for (const Field& field : component.fields) {
    tensors_.push_back(component.present(field, axes_) ? Tensor(dtype_of(field, dtype), component.shape(field, axes_), device) : Tensor());
    views_.push_back(tensors_.back().view());
  }
}

void Problem::replace(const std::string& field, Tensor tensor) {
  const size_t i = component_->index(field);
  views_[i] = tensor.view();
  tensors_[i] = std::move(tensor);
}

void Problem::fill(const std::string& distribution, uint64_t seed, const TokenSource& token_source) {
  const auto source = [&](int64_t count) { return token_source ? token_source(count, seed) : synthetic_tokens(count, seed); };
  for (size_t i = 0; i < views_.size(); ++i) {
    const Field& field = component_->fields[i];
    const bool given = field.role == Role::Input || field.role == Role::OutputGrad;
    if (!given || !views_[i] || field.kind == Kind::Index) continue;
    const std::string name = component_->name + "." + field.name;
    int token_axis = -1;
    if (distribution == "tokens" && field.role == Role::Input)
      for (const auto& axis : component_->token_axes)
        if (const int position = Component::axis_position(field, axis); position >= 0) token_axis = position;
    if (token_axis >= 0) {
      int64_t rows = 1;
      for (int axis = 0; axis <= token_axis; ++axis) rows *= views_[i].shape[axis];
      if (rows > 0) fill_by_token(views_[i], token_axis, source(rows), seed, name);
    } else {
      fill_normal(views_[i], seed, name);
    }
  }
  if (component_->fill) component_->fill({axes_, dtype_, distribution, seed, views_, source});
}

Problem Problem::converted(DType dtype, bool outputs) const {
  Problem result(*component_, axes_, dtype);
  for (size_t i = 0; i < views_.size(); ++i) {
    const Role role = component_->fields[i].role;
    if (views_[i] && (outputs || role == Role::Input || role == Role::OutputGrad)) copy(views_[i], result.views_[i]);
  }
  return result;
}

Problem Problem::on(Device device) const {
  Problem result(*component_, axes_, dtype_, device);
  for (size_t i = 0; i < views_.size(); ++i)
    if (views_[i]) copy(views_[i], result.views_[i]);
  return result;
}

void run_variant(const Variant& variant, const Problem& problem, Phase phase, int threads) {
  Context context;
  context.threads = threads;
  std::shared_ptr<std::byte> memory;
  if (const int64_t bytes = variant.workspace ? variant.workspace(problem.axes(), problem.dtype(), phase) : 0; bytes > 0) {
    memory = allocate(variant.device, bytes);
    context.workspace = {memory.get(), static_cast<size_t>(bytes)};
  }
  const Call call{problem.axes(), problem.dtype(), problem.views(), context};
  if (phase != Phase::Backward) variant.forward(call);
  if (phase != Phase::Forward) variant.backward(call);
  synchronize(variant.device);
}

}  // namespace megatoken
