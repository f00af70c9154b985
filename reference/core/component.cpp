#include "reference/core/component.hpp"

#include "reference/core/names.hpp"

namespace megatoken {

std::string to_string(Phase phase) { return phase == Phase::Forward ? "fwd" : phase == Phase::Backward ? "bwd" : "fwd_bwd"; }

Phase parse_phase(const std::string& name) {
  for (Phase phase : {Phase::Forward, Phase::Backward, Phase::Both})
    if (name == to_string(phase)) return phase;
  throw_unknown_name("phase", name, {"fwd", "bwd", "fwd_bwd"});
}

DType dtype_of(const Field& field, DType case_dtype) {
  switch (field.kind) {
    case Kind::Data: return case_dtype;
    case Kind::Accum: return accumulator_of(case_dtype);
    default: return DType::I32;
  }
}

namespace {

/// One word of a layout: a number, an axis, or a sum, difference, product or quotient (rounded down) of them, written without
/// blanks and read from left to right with the usual precedence: "s/pool", "topk*pool+pool-1".
int64_t extent(const std::string& word, const Axes& values) {
  for (const char* operators : {"+-", "*/"})
    if (const size_t at = word.find_last_of(operators); at != std::string::npos) {
      const int64_t left = extent(word.substr(0, at), values), right = extent(word.substr(at + 1), values);
      switch (word[at]) {
        case '+': return left + right;
        case '-': return left - right;
        case '*': return left * right;
        default: return left / right;
      }
    }
  return std::isdigit(static_cast<unsigned char>(word[0])) ? std::stoll(word) : values[word];
}

}  // namespace

bool Component::has_gradients() const {
  return std::any_of(fields.begin(), fields.end(), [](const Field& field) { return field.role == Role::InputGrad; });
}

size_t Component::index(const std::string& field) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == field) return i;
    names.push_back(fields[i].name);
  }
  throw_unknown_name("tensor of " + name, field, names);
}

Axes Component::complete(const Axes& given) const {
  Axes full = complete_axes(axes, given, name);
  if (validate) validate(full);
  return full;
}

bool Component::present(const Field& field, const Axes& values) const {
  if (field.when.empty()) return true;
  const bool negated = field.when[0] == '!';
  return (values.real(negated ? field.when.substr(1) : field.when) != 0) != negated;
}

Axes Component::shortened(const Axes& values, int64_t tokens) const {
  if (shorten) return shorten(values, tokens);
  Axes result = values;
  for (const auto& axis : token_axes) result.set(axis, static_cast<double>(std::min(values[axis], tokens)));
  return result;
}

Dims Component::shape(const Field& field, const Axes& values) const {
  Dims dims;
  for (const auto& word : split(field.axes, ' '))
    if (!word.empty()) dims.push_back(extent(word, values));
  return dims;
}

int Component::axis_position(const Field& field, const std::string& axis) {
  const auto words = split(field.axes, ' ');
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == axis) return static_cast<int>(i);
  return -1;
}

const Component& find_component(const std::string& name) {
  if (const auto* component = Registry<Component>::instance().find(name)) return *component;
  std::vector<std::string> names;
  for (const auto* c : Registry<Component>::instance().all()) names.push_back(c->name);
  throw_unknown_name("component", name, names);
}

}  // namespace megatoken
