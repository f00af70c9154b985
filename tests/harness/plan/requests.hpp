// Requests that the planner's tests share.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "harness/plan/request.hpp"
#include "reference/core/error.hpp"

namespace megatoken::plan {

/// GLM-5.3-Flash on 64 B200: experts over 32 ranks in halves, dp takes what tp and cp leave.
inline Request glm(int64_t tokens, int64_t tp = 8, int64_t cp = 1) {
  Request r;
  r.model = load_model_config("glm53_flash");
  r.gpu = load_gpu("b200");
  r.tokens = tokens;
  r.layout = {.tp = tp, .cp = cp, .dp = 64 / (tp * cp), .ep = 32, .etp = 2};
  return r;
}

inline Request dense(const std::string& model, int64_t tokens, Layout layout = {}) {
  Request r;
  r.model = load_model_config(model);
  r.gpu = load_gpu("h100");
  r.tokens = tokens;
  r.layout = layout;
  return r;
}

inline testing::AssertionResult holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

/// What the usage Error of `call` says; "no error" when there is none.
template <class F>
std::string usage_error(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "no error";
}

}  // namespace megatoken::plan
