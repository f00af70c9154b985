// The key of a case: complete, canonical, and readable back.
#include "reference/core/case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/core/names.hpp"
#include "reference/core/random.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::message_of;

TEST(CaseKey, IsTheDocumentedOne) {
  const Case c = Case::parse("attention/online_softmax@zigzag fwd_bwd bf16 ranks=4 b=1 t=64Ki h=8 hk=2 d=64 dist=aimed seed=0");
  EXPECT_EQ(c.key(), "attention/online_softmax@zigzag fwd_bwd bf16 ranks=4 b=1 t=65536 h=8 hk=2 d=64 dist=aimed seed=0");
  EXPECT_EQ(c.problem(), "attention bf16 b=1 t=65536 h=8 hk=2 d=64 dist=aimed seed=0");
}

TEST(CaseKey, WordsMayComeInAnyOrderAndBeLeftOut) {
  EXPECT_EQ(Case::parse("attention/cpu seed=3 t=4 fp64 dist=extreme fwd").key(), "attention/cpu fwd fp64 b=1 t=4 h=2 d=64 dist=extreme seed=3");
  EXPECT_EQ(Case::parse("attention/cpu").key(), "attention/cpu fwd_bwd fp32 b=1 t=1024 h=2 d=64 dist=normal seed=0");
}

TEST(CaseKey, SaysWhatIsWrong) {
  const auto complaint = [](const char* text) { return message_of([&] { Case::parse(text); }); };
  EXPECT_EQ(complaint("atention/cpu"), "unknown component 'atention'; did you mean attention?");
  EXPECT_EQ(complaint("attention"), "'attention' is not of the form component/variant[@scheme]");
  EXPECT_NE(complaint(""), "");
  EXPECT_EQ(complaint("attention/cpu dist=aimd"), "unknown distribution 'aimd'; did you mean aimed?");
  EXPECT_EQ(complaint("attention/cpu causl=0"), "unknown attention axis 'causl'; did you mean causal?");
  EXPECT_EQ(complaint("attention/cpu bf61"), "unknown word 'bf61'; did you mean bf16?");
  EXPECT_EQ(complaint("attention/cpu h=3 hk=2"), "attention: h=3 query heads cannot share hk=2 key/value heads; hk must divide h");
}

TEST(CaseKey, RefusesRanksAndSeedsThatAreNoWholeNumbers) {
  for (const char* word : {"ranks=0", "ranks=-1", "ranks=2.5", "ranks=1e10", "ranks=nan", "seed=-1", "seed=1.5", "seed=nan", "seed=1e30", "seed=", "seed=18446744073709551616"})
    EXPECT_NE(message_of([&] { Case::parse("attention/cpu " + std::string(word)); }).find(word), std::string::npos) << word;
}

TEST(CaseKey, SeedsKeepAll64Bits) {
  for (uint64_t seed : {uint64_t{0}, (uint64_t{1} << 53) + 1, ~uint64_t{0}}) {
    Case c = Case::parse("attention/cpu");
    c.seed = seed;
    EXPECT_EQ(Case::parse(c.key()).seed, seed);
  }
  EXPECT_EQ(Case::parse("attention/cpu seed=2Ki").seed, 2048u);
}

/// A random value of an axis: its default, a border, or something between.
double random_value(const AxisSpec& spec, const RandomStream& stream, int64_t i) {
  const double low = std::max(spec.min, -1e6), high = spec.choices.empty() ? std::min(spec.max, 4096.0) : static_cast<double>(spec.choices.size() - 1);
  const double value = low + (high - low) * stream.uniform(i);
  return spec.real ? value : std::floor(value);
}

TEST(CaseKey, ReadsBackForRandomCasesOfEveryComponent) {
  const RandomStream stream(11, "cases");
  int64_t draw = 0;
  for (const Component* component : Registry<Component>::instance().all()) {
    int valid = 0;
    for (int trial = 0; trial < 400; ++trial) {
      Case c;
      c.component = component->name;
      c.variant = "cpu";
      for (const auto& spec : component->axes)
        if ((spec.same_as.empty() && !spec.fallback) || stream.integer(draw++, 3) == 0) c.axes.set(spec.name, random_value(spec, stream, draw++));
      if (message_of([&] { c.axes = component->complete(c.axes); }) != "") continue;  // axes that do not fit together
      ++valid;
      c.phase = std::vector{Phase::Forward, Phase::Backward, Phase::Both}[static_cast<size_t>(stream.integer(draw++, 3))];
      c.dtype = std::vector{DType::F64, DType::F32, DType::F16, DType::BF16}[static_cast<size_t>(stream.integer(draw++, 4))];
      c.distribution = component->distributions[static_cast<size_t>(stream.integer(draw++, static_cast<int64_t>(component->distributions.size())))];
      c.seed = stream.words(draw++).word[0];
      if (stream.integer(draw++, 2)) c.scheme = "gather", c.ranks = static_cast<int>(1 + stream.integer(draw++, 8));
      const Case back = Case::parse(c.key());
      ASSERT_EQ(back.key(), c.key());
      ASSERT_EQ(back.axes, c.axes) << c.key();
      ASSERT_EQ(back.ranks, c.ranks);
      std::vector<std::string> words = split(c.key(), ' ');
      std::reverse(words.begin() + 1, words.end());
      ASSERT_EQ(Case::parse(words).key(), c.key()) << "words backwards";
    }
    EXPECT_GT(valid, 20) << component->name << ": too few of the random axes fit together for this to say anything";
  }
}

}  // namespace
}  // namespace megatoken
