#include "harness/check/subject.hpp"

#include <algorithm>
#include <cstring>

#include "harness/check/metrics.hpp"
#include "reference/core/device.hpp"

namespace megatoken {
namespace {

constexpr unsigned char kCanaryByte = 0xC5;
constexpr unsigned char kPoisonByte = 0xFF;  // NaN in every float format, −1 in integers

bool computed(Role role, Phase phase) {
  if (role == Role::Output) return phase != Phase::Backward;
  return role == Role::InputGrad;
}

std::vector<unsigned char> bytes_at(const std::byte* memory, Device device, int64_t offset, int64_t count) {
  std::vector<unsigned char> bytes(static_cast<size_t>(count));
  copy_bytes(bytes.data(), Device::Cpu, memory + offset, device, count);
  return bytes;
}

bool intact(const std::vector<unsigned char>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == kCanaryByte; });
}

}  // namespace

Subject Subject::of(const Case& test, int threads) {
  Subject subject{&find_component(test.component), find_variant(test.component, test.variant), nullptr, test.ranks, threads};
  if (!test.scheme.empty()) subject.scheme = &find_scheme(test.component, test.scheme);
  return subject;
}

std::string Subject::unsupported(const Axes& axes, DType dtype, Phase phase) const {
  if (std::string reason = variant.unsupported(axes, dtype, phase); !reason.empty()) return reason;
  if (!scheme) return "";
  if (phase != Phase::Forward && !scheme->backward) return format("unsupported: scheme {} has no backward", scheme->name);
  if (variant.device == Device::Gpu) return "unsupported: the local communicator moves host tensors";
  const std::string reason = scheme->refuse ? scheme->refuse(*component, axes, ranks) : "";
  return reason.empty() ? "" : "unsupported: " + reason;
}

GuardedProblem::GuardedProblem(const Problem& problem, const Variant& variant, Phase phase) : source_(&problem), variant_(&variant), phase_(phase) {
  const auto add = [&](int64_t bytes) {
    Buffer buffer{allocate(variant.device, bytes + 2 * kCanaryBytes), bytes};
    fill_bytes(buffer.memory.get(), variant.device, kCanaryByte, kCanaryBytes);
    fill_bytes(buffer.memory.get() + kCanaryBytes + bytes, variant.device, kCanaryByte, kCanaryBytes);
    buffers_.push_back(std::move(buffer));
    return buffers_.back().memory.get() + kCanaryBytes;
  };
  for (const TensorView& host : problem.views()) {
    TensorView view = host;
    view.device = variant.device;
    view.data = add(host ? host.bytes() : 0);
    if (host) view.strides = contiguous_strides(host.shape), copy(host, view);
    views_.push_back(view);
  }
  workspace_bytes_ = variant.workspace ? variant.workspace(problem.axes(), problem.dtype(), phase) : 0;
  add(workspace_bytes_);
}

void GuardedProblem::poison() {
  const auto& fields = source_->component().fields;
  for (size_t i = 0; i < views_.size(); ++i)
    if (views_[i] && computed(fields[i].role, phase_)) fill_bytes(views_[i].data, device(), kPoisonByte, views_[i].bytes());
  fill_bytes(buffers_.back().memory.get() + kCanaryBytes, device(), kPoisonByte, workspace_bytes_);
}

void GuardedProblem::call(Phase phase, int threads, void* stream) {
  Context context;
  context.threads = threads;
  context.stream = stream;
  context.workspace = {buffers_.back().memory.get() + kCanaryBytes, static_cast<size_t>(workspace_bytes_)};
  const Call call{source_->axes(), source_->dtype(), views_, context};
  if (phase != Phase::Backward) variant_->forward(call);
  if (phase != Phase::Forward) variant_->backward(call);
}

std::vector<std::string> GuardedProblem::violations() const {
  const auto& fields = source_->component().fields;
  std::vector<std::string> found;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const std::string name = i < fields.size() ? fields[i].name : "workspace";
    const std::byte* memory = buffers_[i].memory.get();
    if (!intact(bytes_at(memory, device(), 0, kCanaryBytes))) found.push_back("memory before " + name + " was overwritten");
    if (!intact(bytes_at(memory, device(), kCanaryBytes + buffers_[i].bytes, kCanaryBytes))) found.push_back("memory after " + name + " was overwritten");
    if (i >= fields.size() || !views_[i] || computed(fields[i].role, phase_) || fields[i].role == Role::Output || fields[i].role == Role::InputGrad) continue;
    const Tensor now = to_device(views_[i], Device::Cpu);
    if (!same_bits(now, source_->views()[i].contiguous() ? source_->views()[i] : clone(source_->views()[i]).view())) found.push_back("input " + name + " was changed");
  }
  return found;
}

Problem GuardedProblem::result() const {
  Problem host(source_->component(), source_->axes(), source_->dtype());
  for (size_t i = 0; i < views_.size(); ++i)
    if (views_[i]) copy(views_[i], host.views()[i]);
  return host;
}

SubjectRun run_subject(const Subject& subject, const Problem& problem, Phase phase) {
  if (subject.scheme) {
    auto run = run_scheme(*subject.scheme, subject.variant, problem, subject.ranks, phase, std::max(1, subject.threads / subject.ranks));
    return {std::move(run.result), {}, std::move(run.ledgers)};
  }
  GuardedProblem guarded(problem, subject.variant, phase);
  guarded.poison();
  guarded.call(phase, subject.threads);
  synchronize(subject.variant.device);
  return {guarded.result(), guarded.violations(), {}};
}

}  // namespace megatoken
