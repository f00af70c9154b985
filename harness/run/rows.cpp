#include "harness/run/rows.hpp"

#include <algorithm>

#include "reference/core/host_memory.hpp"

namespace megatoken {
namespace {

std::string accumulator_name(DType dtype) { return to_string(accumulator_of(dtype)); }

void append_check(ResultFile& file, int64_t result, const Check& check) {
  const Comparison& c = check.comparison;
  const bool numbers = check.metric != "rule";
  Fields row{{"result", result}, {"output", check.output}, {"strategy", check.strategy}, {"oracle", check.oracle}, {"metric", check.metric}, {"value", check.value},
             {"passed", check.passed}, {"reason", check.reason}};
  if (numbers) {
    row.insert(row.end(), {{"yardstick", check.yardstick}, {"floor", check.floor}, {"factor", check.factor}, {"limit", check.limit}, {"rel_rms", c.rel_rms},
                           {"max_error", c.max_error}, {"cosine_distance", c.cosine_distance}, {"outlier_fraction", c.outlier_fraction}, {"n_compared", c.compared},
                           {"n_nonfinite", c.nonfinite}, {"n_wrong", c.wrong}, {"worst_index", check.worst_index}, {"worst_got", c.worst_got}, {"worst_want", c.worst_want}});
  }
  file.table("checks").append(row);
}

Fields timing_fields(const Case& test, const Timing& timing) {
  const Summary& s = timing.summary;
  Fields row{{"stop_reason", timing.stop_reason}, {"time_median", s.median}, {"time_q25", s.q25}, {"time_q75", s.q75}, {"time_min", s.min}, {"time_ci_lo", s.low},
             {"time_ci_hi", s.high}, {"n_samples", s.samples}, {"n_discarded", 0}, {"memory_peak", timing.peak_bytes}};
  const Component& component = find_component(test.component);
  if (!component.token_axes.empty() && test.axes.has("b"))
    row.push_back({"tokens_per_second", static_cast<double>(test.axes["b"] * test.axes[component.token_axes[0]]) / s.median});
  return row;
}

}  // namespace

Prediction predict(const Case& test) {
  const Component& component = find_component(test.component);
  const Variant& variant = find_variant(test.component, test.variant);
  Prediction result;
  if (component.cost) {
    const Cost cost = component.cost(test.axes, test.dtype, test.phase);
    result.flops = cost.flops;
    result.bytes = static_cast<int64_t>(cost.bytes);
  }
  const auto add = [&](int64_t bytes) {
    result.memory += variant.device == Device::Cpu ? static_cast<int64_t>(host_allocation(bytes + 2 * kCanaryBytes)) : bytes + 2 * kCanaryBytes;
  };
  for (const Field& field : component.fields)
    if (component.present(field, test.axes)) add(component.shape(field, test.axes).product() * size_of(dtype_of(field, test.dtype)));
  if (variant.workspace) add(variant.workspace(test.axes, test.dtype, test.phase));
  if (!test.scheme.empty()) {
    const Scheme& scheme = find_scheme(test.component, test.scheme);
    const bool possible = scheme.bytes_sent && (!scheme.refuse || scheme.refuse(component, test.axes, test.ranks).empty());
    if (possible) {
      result.sent = 0;
      for (Phase phase : {Phase::Forward, Phase::Backward})
        if (test.phase == Phase::Both || test.phase == phase) result.sent += test.ranks * scheme.bytes_sent(component, test.axes, test.dtype, test.ranks, phase);
    }
  }
  return result;
}

int64_t append_result(ResultFile& file, const Case& test, const CaseReport& report, const Timing* timing, const std::string& started, const std::string& repro) {
  const Prediction predicted = predict(test);
  const Variant& variant = find_variant(test.component, test.variant);
  Fields row{{"key", test.key()},
             {"component", test.component},
             {"variant", test.variant},
             {"scheme", test.scheme},
             {"phase", to_string(test.phase)},
             {"dtype", to_string(test.dtype)},
             {"accum", accumulator_name(test.dtype)},
             {"distribution", test.distribution},
             {"tokens", report.tokens},
             {"seed", static_cast<int64_t>(test.seed)},
             {"ranks", test.ranks},
             {"communicator", test.scheme.empty() ? "" : "local"},
             {"device", variant.device == Device::Gpu ? "gpu" : "cpu"},
             {"status", report.status},
             {"reason", report.reason},
             {"attempt", 1},
             {"flops", predicted.flops},
             {"bytes_min", predicted.bytes},
             {"memory_predicted", predicted.memory},
             {"comm_bytes", report.sent_bytes},
             {"comm_predicted", report.predicted_bytes},
             {"comm_predicted", report.predicted_bytes},
             {"started", started},
             {"duration", report.seconds},
             {"repro", repro}};
  if (report.deterministic >= 0) row.push_back({"deterministic", report.deterministic == 1});
  if (timing) {
    const Fields times = timing_fields(test, *timing);
    row.insert(row.end(), times.begin(), times.end());
  }
  Fields axes;
  for (const auto& spec : find_component(test.component).axes) {
    if (spec.real) axes.push_back({spec.name, test.axes.real(spec.name)});
    else axes.push_back({spec.name, test.axes[spec.name]});
  }
  const int64_t result = file.table("results").append(row, axes);
  for (const Check& check : report.checks) append_check(file, result, check);
  if (timing)
    for (size_t i = 0; i < timing->samples.size(); ++i)
      file.table("samples").append({{"result", result}, {"rank", 0}, {"iteration", static_cast<int64_t>(i)}, {"time", timing->samples[i]}, {"discarded", false}});
  return result;
}

void append_faults(ResultFile& file, const FaultReport& report) {
  for (const Trial& trial : report.trials)
    file.table("faults").append({{"fault", trial.fault->name}, {"component", trial.fault->component}, {"variant", trial.variant}, {"scheme", trial.fault->scheme},
                                 {"strategy", trial.strategy}, {"distribution", trial.distribution}, {"key", trial.key}, {"rejected", trial.rejected},
                                 {"output", trial.worst.output}, {"metric", trial.worst.metric}, {"value", trial.worst.value}, {"limit", trial.worst.limit},
                                 {"reason", trial.reason.empty() ? trial.worst.reason : trial.reason}});
}

void merge_rows(ResultFile& file, const ResultReader& other) {
  const int64_t first = file.table("results").rows();
  for (const char* name : {"results", "checks", "samples", "memory"}) {
    const Table& from = other.table(name);
    Table& to = file.table(name);
    for (int64_t row = 0; row < from.rows(); ++row) {
      Fields fields, axes;
      for (const Column& column : from.columns()) {
        const bool known = std::any_of(to.schema().columns.begin(), to.schema().columns.end(), [&](const ColumnSchema& c) { return c.name == column.schema.name; });
        std::visit(
            [&](const auto& values) {
              auto value = values[static_cast<size_t>(row)];
              if constexpr (std::is_same_v<decltype(value), int64_t>)
                if (column.schema.name == "result") value += first;
              (known ? fields : axes).push_back({column.schema.name, value});
            },
            column.data);
      }
      to.append(fields, axes);
    }
  }
}

}  // namespace megatoken
