// The registry as a Google Benchmark program: every CPU variant, forward and (where it has one) backward, over tokens.
//   megatoken_bench --benchmark_filter=attention
// For people who like that tool's flags and its JSON; `megatoken bench` is the harness's own, which checks before it times.
#include <benchmark/benchmark.h>

#include "reference/core/problem.hpp"

namespace megatoken {
namespace {

constexpr int64_t kFirstTokens = 256, kMostTokens = 65536;
constexpr double kNaiveFlops = 2e9, kMostFlops = 4e10;  // a call then takes seconds, of naive loops and of the variants beside them

void time_variant(benchmark::State& state, const Variant* variant, Axes axes, Phase phase) {
  Problem problem(find_component(variant->component), axes, DType::F32);
  problem.fill("normal", 0);
  const int threads = hardware_threads();
  run_variant(*variant, problem, Phase::Forward, threads);  // backward reads its results
  for (auto _ : state) run_variant(*variant, problem, phase, threads);
  const Component& component = problem.component();
  if (component.cost) state.counters["FLOP/s"] = benchmark::Counter(component.cost(axes, DType::F32, phase).flops, benchmark::Counter::kIsIterationInvariantRate);
  state.SetItemsProcessed(state.iterations() * axes[component.token_axes.front()]);
}

void register_all() {
  for (const Variant* variant : Registry<Variant>::instance().all()) {
    const Component& component = find_component(variant->component);
    if (variant->device != Device::Cpu || component.token_axes.empty()) continue;
    for (int64_t tokens = kFirstTokens; tokens <= kMostTokens; tokens *= 4)
      for (Phase phase : {Phase::Forward, Phase::Backward}) {
        const Axes axes = component.complete({{component.token_axes.front(), static_cast<double>(tokens)}});
        const bool too_much = component.cost && component.cost(axes, DType::F32, phase).flops > (variant->name == "cpu" ? kNaiveFlops : kMostFlops);
        if (too_much || !variant->unsupported(axes, DType::F32, phase).empty()) continue;
        const std::string name = format("{} {} fp32 t={}", variant->label(), to_string(phase), tokens);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { time_variant(state, variant, axes, phase); })->Unit(benchmark::kMillisecond)->UseRealTime();
      }
  }
}

}  // namespace
}  // namespace megatoken

int main(int count, char** values) {
  megatoken::register_all();
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
