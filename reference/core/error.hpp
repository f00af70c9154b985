// The one error type. A message says what is wrong and where; the hint says what to do.
#pragma once
#include <exception>
#include <source_location>
#include <string>

#include "reference/core/format.hpp"

namespace megatoken {

/// Why a call failed; the value is the process exit code it leads to.
enum class ErrorKind {
  Usage = 2,        // the caller asked for something impossible: shapes, flags, names, input files
  Environment = 5,  // the machine failed: disk, memory, driver, a dead rank
  Timeout = 6,
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, std::string hint = "", std::source_location place = std::source_location::current());
  const char* what() const noexcept override { return text_.c_str(); }  // "message; hint"
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  const std::string& place() const { return place_; }                   // "file:line"
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
  std::string message_, hint_, place_, text_;
};

}  // namespace megatoken

/// Throws a usage Error with a formatted message unless `condition` holds.
#define MEGATOKEN_CHECK(condition, ...) \
  do {                                  \
    if (!(condition)) throw ::megatoken::Error(::megatoken::ErrorKind::Usage, ::megatoken::format(__VA_ARGS__)); \
  } while (false)
