// Axes as people type them: numbers with units, ranges, choices, defaults, and what is said about mistakes.
#include "reference/core/axes.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/core/random.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::message_of;

const AxisSpec kTokens{.name = "t", .about = "tokens", .fallback = 1024, .min = 0, .max = 1 << 30};
const AxisSpec kScale{.name = "scale", .about = "factor", .fallback = 0, .min = -10, .max = 10, .real = true, .option = true};
const AxisSpec kMode{.name = "mode", .about = "which way", .fallback = 0, .option = true, .choices = {"plain", "turned", "folded"}};
const std::vector<AxisSpec> kSpecs{{.name = "b", .about = "batch", .min = 1}, kTokens, {.name = "s", .about = "keys", .same_as = "t"}, kScale, kMode};

TEST(Axes, ParseWordsWithUnits) {
  const Axes axes = Axes::parse("t=64Ki  h=8 scale=-0.125 s=1M n=2Gi k=3k");
  EXPECT_EQ(axes["t"], 65536);
  EXPECT_EQ(axes["h"], 8);
  EXPECT_EQ(axes.real("scale"), -0.125);
  EXPECT_EQ(axes["s"], 1 << 20);
  EXPECT_EQ(axes["n"], int64_t{2} << 30);
  EXPECT_EQ(axes["k"], 3072);
  EXPECT_FALSE(axes.has("d"));
  EXPECT_EQ(message_of([&] { axes.real("d"); }), "no axis 'd' here");
}

TEST(Axes, LaterWordsReplaceEarlierOnes) { EXPECT_EQ(Axes::parse("t=1 t=2")["t"], 2); }

TEST(Axes, RefuseWhatIsNoPair) {
  for (const char* text : {"t", "=4", "t=", "t=x", "t=4q", "t=4Ki4", "t=--4", "t=1e999"}) EXPECT_NE(message_of([&] { Axes::parse(text); }).find(text), std::string::npos) << text;
}

TEST(Axes, CompleteFillsDefaultsInTheOrderOfTheContract) {
  const Axes axes = complete_axes(kSpecs, Axes::parse("t=7 b=2"), "thing");
  const std::vector<std::pair<std::string, double>> want{{"b", 2}, {"t", 7}, {"s", 7}, {"scale", 0}, {"mode", 0}};
  EXPECT_EQ(axes.values(), want);
}

TEST(Axes, CompleteNamesWhatIsWrong) {
  const auto complaint = [](const char* text) { return message_of([&] { complete_axes(kSpecs, Axes::parse(text), "thing"); }); };
  EXPECT_EQ(complaint("t=5"), "thing: axis 'b' (batch) must be given; add b=N");
  EXPECT_EQ(complaint("b=1 scael=2"), "unknown thing axis 'scael'; did you mean scale?");
  EXPECT_EQ(complaint("b=0"), "thing: axis b=0 is not valid; b takes a whole number from 1 to 1000000000000000");
  EXPECT_EQ(complaint("b=1 t=2.5"), "thing: axis t=2.5 is not valid; t takes a whole number from 0 to 1073741824");
  EXPECT_EQ(complaint("b=1 scale=11"), "thing: axis scale=11 is not valid; scale takes a number from -10 to 10");
  EXPECT_EQ(complaint("b=1 mode=3"), "thing: axis mode=3 is not valid; mode takes a whole number from 0 to 2");
  for (const char* text : {"b=nan", "b=inf", "b=1 scale=nan"}) EXPECT_NE(complaint(text).find("is not valid"), std::string::npos) << text;
}

TEST(Axes, FormatLeavesOutOptionsAtTheirDefault) {
  const auto formatted = [](const char* text) { return format_axes(kSpecs, complete_axes(kSpecs, Axes::parse(text), "thing")); };
  EXPECT_EQ(formatted("b=1"), "b=1 t=1024");
  EXPECT_EQ(formatted("b=1 t=5 s=6"), "b=1 t=5 s=6");
  EXPECT_EQ(formatted("b=1 t=5 s=5 scale=0.1 mode=2"), "b=1 t=5 scale=0.1 mode=folded");
}

TEST(AxisValue, ChoicesGoByNameOrNumber) {
  EXPECT_EQ(parse_axis_value(kMode, "turned"), 1);
  EXPECT_EQ(parse_axis_value(kMode, "2"), 2);
  EXPECT_EQ(message_of([] { parse_axis_value(kMode, "fodled"); }), "unknown value of axis mode 'fodled'; did you mean folded?");
}

TEST(AxisRange, ListsStepsAndFactors) {
  using Values = std::vector<double>;
  EXPECT_EQ(parse_axis_range(kTokens, "5"), Values({5}));
  EXPECT_EQ(parse_axis_range(kTokens, "1,2Ki,3"), Values({1, 2048, 3}));
  EXPECT_EQ(parse_axis_range(kTokens, "1Ki:8Ki:x2"), Values({1024, 2048, 4096, 8192}));
  EXPECT_EQ(parse_axis_range(kTokens, "1Ki:9000:x2"), Values({1024, 2048, 4096, 8192}));
  EXPECT_EQ(parse_axis_range(kTokens, "0:64:+16,7"), Values({0, 16, 32, 48, 64, 7}));
  EXPECT_EQ(parse_axis_range(kTokens, "4:4:x2"), Values({4}));
  EXPECT_EQ(parse_axis_range(kScale, "0.1:0.3:+0.1").size(), 3u) << "the end is reached in spite of rounding";
  EXPECT_EQ(parse_axis_range(kMode, "plain,folded"), Values({0, 2}));
}

TEST(AxisRange, MalformedRangesSayHowToWriteThem) {
  for (const char* text : {"1:2", "1:2:3", "1:2:x", "1:2:x1", "1:2:+0", "1:2:*2", "8:4:x2", "0:8:x2", "1:2:x2:3", "0:1G:+1"}) {
    const std::string message = message_of([&] { parse_axis_range(kTokens, text); });
    EXPECT_EQ(message, "range 't=" + std::string(text) + "' is malformed; write start:stop:xF or start:stop:+S, as in 64Ki:1Mi:x2") << text;
  }
  for (const char* text : {"1,,2", "", "1:b:x2", "1:8:xx"}) EXPECT_NE(message_of([&] { parse_axis_range(kTokens, text); }), "") << text;
}

TEST(FormatNumber, ReadsBackEqual) {
  EXPECT_EQ(format_number(65536), "65536");
  EXPECT_EQ(format_number(-3), "-3");
  EXPECT_EQ(format_number(0.125), "0.125");
  EXPECT_EQ(format_number(1e-6), "1e-06");
  const RandomStream stream(1, "numbers");
  for (int64_t i = 0; i < 2000; ++i) {
    const double x = std::ldexp(stream.normal(i), static_cast<int>(stream.integer(i + 5000, 200)) - 100);
    ASSERT_EQ(parse_number(format_number(x), "x"), x);
  }
  for (double x : {9007199254740992.0, 1e15, 1e16, 1e300, -1e16}) EXPECT_EQ(parse_number(format_number(x), "x"), x);
}

}  // namespace
}  // namespace megatoken
