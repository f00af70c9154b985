#include "harness/store/value.hpp"

#include <algorithm>

namespace megatoken {

const Value* find_field(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &NamedValue::name);
  return found == fields.end() ? nullptr : &found->value;
}

void set_field(Fields& fields, std::string_view name, Value value) {
  const auto found = std::ranges::find(fields, name, &NamedValue::name);
  if (found == fields.end()) {
    fields.push_back({std::string(name), std::move(value)});
  } else {
    found->value = std::move(value);
  }
}

std::string text_field(const Fields& fields, std::string_view name) {
  const Value* value = find_field(fields, name);
  const auto* text = value ? value->if_is<std::string>() : nullptr;
  return text ? *text : "";
}

}  // namespace megatoken
