// Names typed by people, and the errors that answer them.
#include "reference/core/names.hpp"

#include <gtest/gtest.h>

#include "reference/core/error.hpp"
#include "reference/core/format.hpp"

namespace megatoken {
namespace {

using Names = std::vector<std::string>;
const Names kVariants{"cpu", "gpu", "online_softmax", "split_kv", "flash_sm90"};

TEST(NearestNames, FindTyposAndParts) {
  EXPECT_EQ(nearest_names("onlin_softmax", kVariants), Names({"online_softmax"}));
  EXPECT_EQ(nearest_names("softmax", kVariants), Names({"online_softmax"}));
  EXPECT_EQ(nearest_names("gpu", kVariants).front(), "gpu");
  EXPECT_EQ(nearest_names("zzzzzzzz", kVariants), Names());
  EXPECT_LE(nearest_names("a", {"aa", "ab", "ac", "ad", "ae"}).size(), 3u);
}

TEST(UnknownName, OffersTheNearestOrAll) {
  const auto message = [](const char* word) {
    try {
      throw_unknown_name("variant", word, kVariants);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Usage);
      return std::string(e.what());
    }
  };
  EXPECT_EQ(message("cqu"), "unknown variant 'cqu'; did you mean cpu, gpu?");
  EXPECT_EQ(message("zzzzzzzz"), "unknown variant 'zzzzzzzz'; valid: cpu, gpu, online_softmax, split_kv, flash_sm90");
}

TEST(Glob, MatchesAsInAShell) {
  EXPECT_TRUE(matches_glob("attention/cpu", "attention/*"));
  EXPECT_TRUE(matches_glob("attention/cpu", "*/cpu"));
  EXPECT_TRUE(matches_glob("attention/cpu", "a*t*n/?pu"));
  EXPECT_TRUE(matches_glob("", "*"));
  EXPECT_TRUE(matches_glob("abcabd", "*ab?"));
  EXPECT_TRUE(matches_glob("aaa", "***"));
  EXPECT_FALSE(matches_glob("attention/cpu", "attention"));
  EXPECT_FALSE(matches_glob("attention/cpu", "*gpu"));
  EXPECT_FALSE(matches_glob("cpu", "cpu?"));
  EXPECT_FALSE(matches_glob("a", ""));
  EXPECT_TRUE(matches_glob("a*b", "a*b"));
}

TEST(Split, KeepsEmptyPartsAndJoinUndoesIt) {
  EXPECT_EQ(split("a,,b", ','), Names({"a", "", "b"}));
  EXPECT_EQ(split("", ','), Names({""}));
  EXPECT_EQ(split(",", ','), Names({"", ""}));
  EXPECT_EQ(join(split("x,y,,z", ','), ","), "x,y,,z");
  EXPECT_EQ(join({}, ","), "");
}

TEST(Error, CarriesMessageHintPlaceAndExitCode) {
  const Error error(ErrorKind::Timeout, "rank 3 said nothing for 5 s", "look at its log");
  EXPECT_STREQ(error.what(), "rank 3 said nothing for 5 s; look at its log");
  EXPECT_EQ(error.message(), "rank 3 said nothing for 5 s");
  EXPECT_EQ(error.hint(), "look at its log");
  EXPECT_EQ(error.place().rfind("names_test.cpp:", 0), 0u) << error.place();
  EXPECT_EQ(error.exit_code(), 6);
  EXPECT_EQ(Error(ErrorKind::Usage, "x").exit_code(), 2);
  EXPECT_EQ(Error(ErrorKind::Environment, "x").exit_code(), 5);
  EXPECT_STREQ(Error(ErrorKind::Usage, "no hint").what(), "no hint");
}

TEST(Check, ThrowsAUsageErrorWithTheValues) {
  const auto check = [](int n) { MEGATOKEN_CHECK(n < 3, "n={} is too large, at most {}", n, 2); };
  EXPECT_NO_THROW(check(2));
  try {
    check(7);
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "n=7 is too large, at most 2");
    EXPECT_EQ(e.kind(), ErrorKind::Usage);
  }
}

TEST(Format, ShortensCountsBytesAndSeconds) {
  EXPECT_EQ(format_count(65536), "64Ki");
  EXPECT_EQ(format_count(1000), "1000");
  EXPECT_EQ(format_count(1 << 20), "1Mi");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_bytes(1610612736), "1.5 GiB");
  EXPECT_EQ(format_seconds(0.00123), "1.23 ms");
}

}  // namespace
}  // namespace megatoken
