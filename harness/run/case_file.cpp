#include "harness/run/case_file.hpp"

#include <algorithm>

#include "harness/check/oracle.hpp"
#include "harness/check/strategies.hpp"
#include "harness/store/tensor_file.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

constexpr const char* kOracle = "oracle.";

bool is_given(const Field& field) { return field.role == Role::Input || field.role == Role::OutputGrad; }

/// The tensor `name` of a file, of the shape of `view`, into `view`.
void take(const TensorFile& file, const std::string& path, const std::string& name, const TensorView& view) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) throw Error(ErrorKind::Usage, format("{} has no tensor '{}'", path, name), "add it, or dump the case again");
  const TensorView& tensor = found->second.view();
  MEGATOKEN_CHECK(tensor.shape == view.shape, "{}: {} has shape {}, expected {}", path, name, tensor.shape.to_string(), view.shape.to_string());
  copy(tensor, view);
}

Problem read_problem(const std::string& path, const TensorFile& file, const Case& test) {
  Problem problem(find_component(test.component), test.axes, test.dtype);
  for (const Field& field : problem.component().fields)
    if (is_given(field) && problem[field.name] && (field.role == Role::Input || test.phase != Phase::Forward)) take(file, path, field.name, problem[field.name]);
  return problem;
}

/// The outputs that a file claims for the problem; narrows the phase to forward when it has no gradient.
Problem read_outputs(const std::string& path, const Problem& problem, Case& test) {
  const TensorFile file = read_tensor_file(path);
  const Component& component = problem.component();
  std::vector<std::string> names;
  bool gradients = false;
  for (const Field& field : component.fields) {
    if (is_given(field) || !problem[field.name]) continue;
    names.push_back(field.name);
    gradients |= field.role == Role::InputGrad && file.tensors.contains(field.name);
  }
  for (const auto& [name, tensor] : file.tensors)
    if (std::find(names.begin(), names.end(), name) == names.end()) throw_unknown_name("output in " + path, name, names);
  if (!gradients) test.phase = Phase::Forward;
  Problem outputs = problem.converted(test.dtype);
  for (const Field& field : component.fields)
    if (!is_given(field) && outputs[field.name] && (field.role == Role::Output || test.phase != Phase::Forward)) take(file, path, field.name, outputs[field.name]);
  return outputs;
}

}  // namespace

void write_case(const std::string& path, const Case& test, const CheckOptions& options, bool with_oracle) {
  Problem problem(find_component(test.component), test.axes, test.dtype);
  problem.fill(test.distribution, test.seed, options.tokens);
  std::optional<Truth> truth;
  if (with_oracle) truth = find_truth(problem, test.phase, options.threads);
  std::map<std::string, TensorView> tensors;
  for (const Field& field : problem.component().fields) {
    if (!problem[field.name]) continue;
    const bool needed = field.role == Role::Input || field.role == Role::Output || test.phase != Phase::Forward;
    if (is_given(field) && needed) tensors[field.name] = problem[field.name];
    else if (truth && needed) tensors[kOracle + field.name] = truth->oracle[field.name];
  }
  std::vector<std::string> axes;
  for (const auto& [name, value] : test.axes.values()) axes.push_back(name + "=" + format_number(value));
  write_tensor_file(path, tensors, {{"case", test.key()}, {"component", test.component}, {"axes", join(axes, " ")}});
}

CaseReport judge_outputs(const std::string& case_path, const std::string& output_path, const CheckOptions& options) {
  const TensorFile file = read_tensor_file(case_path);
  const auto key = file.metadata.find("case");
  if (key == file.metadata.end()) throw Error(ErrorKind::Usage, case_path + " is no case: it has no text 'case'", "make one with megatoken dump");
  Case test = Case::parse(key->second);
  const Problem problem = read_problem(case_path, file, test);
  const SubjectRun run{read_outputs(output_path, problem, test), {}, {}};
  const Subject subject = Subject::of(test, options.threads);
  const Evidence evidence{subject, test, problem, run, options.tolerances, options.threads, options.tokens};
  const Component& component = problem.component();
  CaseReport report;
  if (!component.cost || component.cost(test.axes, test.dtype, test.phase).flops <= options.full_flops) report.checks = check_full(evidence);
  else
    for (const Slice& slice : component.slices)
      for (Check& check : check_slice(evidence, slice, options.samples, options.full_flops)) report.checks.push_back(std::move(check));
  const bool good = std::all_of(report.checks.begin(), report.checks.end(), [](const Check& c) { return c.passed; });
  report.status = report.checks.empty() ? "skipped" : good ? "pass" : "fail";
  return report;
}

}  // namespace megatoken
