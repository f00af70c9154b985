// Named values: what a row of a table and the attributes of a result file are made of.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace megatoken {

/// One value: int64, double, bool, text or (attributes only) a list of texts. Converts from every C++ type that means one of these.
class Value {
 public:
  using Variant = std::variant<int64_t, double, bool, std::string, std::vector<std::string>>;

  template <std::integral T>
  Value(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      value_ = value;
    } else {
      value_ = static_cast<int64_t>(value);
    }
  }
  template <std::floating_point T>
  Value(T value) : value_(static_cast<double>(value)) {}
  Value(const char* text) : value_(std::string(text)) {}
  Value(std::string_view text) : value_(std::string(text)) {}
  Value(std::string text) : value_(std::move(text)) {}
  Value(std::vector<std::string> texts) : value_(std::move(texts)) {}

  template <class T>
  const T* if_is() const { return std::get_if<T>(&value_); }
  const Variant& variant() const { return value_; }
  bool operator==(const Value&) const = default;

 private:
  Variant value_;
};

struct NamedValue {
  std::string name;
  Value value;
  bool operator==(const NamedValue&) const = default;
};

/// In the order they were written.
using Fields = std::vector<NamedValue>;

/// The value called `name`, or nullptr.
const Value* find_field(const Fields& fields, std::string_view name);
/// Replaces the value called `name`, or appends it.
void set_field(Fields& fields, std::string_view name, Value value);
/// The text called `name`; "" when it is absent or no text.
std::string text_field(const Fields& fields, std::string_view name);

}  // namespace megatoken
