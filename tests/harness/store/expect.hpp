// Expectations about errors: their kind and what their one line says.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "reference/core/error.hpp"

namespace megatoken {

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

/// The text of the Error that `call` throws, which must be one line of the given kind; "no error" when it throws none.
template <class F>
std::string error_of(ErrorKind kind, F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace megatoken
