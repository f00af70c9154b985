#include "harness/measure/timer.hpp"

#include <algorithm>
#include <chrono>

#include "reference/core/device.hpp"

namespace megatoken {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <class F>
void sample(const StopRule& rule, Timing& timing, F&& call) {
  const auto warm_up = Clock::now();
  for (int i = 0; i < 3 && (i == 0 || seconds_since(warm_up) < 0.5); ++i) call();
  const auto start = Clock::now();
  while ((timing.stop_reason = rule.stop(timing.samples, seconds_since(start))).empty()) timing.samples.push_back(call());
  timing.summary = summarise(timing.samples);
}

}  // namespace

#ifndef MEGATOKEN_WITH_CUDA
double gpu_call_seconds(const std::function<void(void*)>&) { throw Error(ErrorKind::Environment, "GPU timing in a build without CUDA", "build with ./run build cuda"); }
#endif

Timing time_subject(const Subject& subject, const Problem& problem, Phase phase, const StopRule& rule) {
  Timing timing;
  if (subject.scheme) {  // run_scheme reports the slowest rank's time between two barriers
    sample(rule, timing, [&] { return run_scheme(*subject.scheme, subject.variant, problem, subject.ranks, phase, std::max(1, subject.threads / subject.ranks)).seconds; });
    return timing;
  }
  const bool gpu = subject.variant.device == Device::Gpu;
  if (!gpu) reset_peak_memory();
  const int64_t before = resident_memory();
  GuardedProblem guarded(problem, subject.variant, phase == Phase::Forward ? Phase::Forward : Phase::Both);
  guarded.poison();  // also touches the pages, so that no sample pays for them
  if (phase == Phase::Backward) guarded.call(Phase::Forward, subject.threads), synchronize(guarded.device());
  sample(rule, timing, [&]() -> double {
    if (gpu) return gpu_call_seconds([&](void* stream) { guarded.call(phase, subject.threads, stream); });
    const auto start = Clock::now();
    guarded.call(phase, subject.threads);
    return seconds_since(start);
  });
  if (!gpu) timing.peak_bytes = std::max<int64_t>(0, peak_memory() - before);
  return timing;
}

}  // namespace megatoken
