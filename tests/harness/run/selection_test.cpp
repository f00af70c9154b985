#include "harness/run/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/suite.hpp"

namespace megatoken {
namespace {

std::vector<std::string> keys(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const auto& test : expand(parse_words(words))) result.push_back(test.key());
  return result;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Selection, AKeySelectsExactlyItself) {
  for (const std::string key : {"attention/cpu fwd bf16 b=2 t=33 h=4 hk=2 d=8 docs=3 causal=0 dist=aimed seed=5",
                                "attention/cpu@gather fwd_bwd fp32 ranks=3 b=1 t=64 h=2 d=8 dist=normal seed=0"})
    EXPECT_THAT(keys({key}), testing::ElementsAre(key));
}

TEST(Selection, GlobsAndExclusionsChooseVariantsAndSchemes) {
  EXPECT_TRUE(selected({"attention"}, "attention", "cpu", ""));
  EXPECT_FALSE(selected({"attention"}, "attention", "cpu", "ring"));
  EXPECT_TRUE(selected({"attention@ring"}, "attention", "cpu", "ring"));
  EXPECT_TRUE(selected({"attention/*@z*"}, "attention", "cpu", "zigzag"));
  EXPECT_FALSE(selected({"attention/!cpu"}, "attention", "cpu", ""));
  EXPECT_TRUE(selected({"attention/!cpu"}, "attention", "gpu", ""));
  EXPECT_FALSE(selected({"*", "!attention"}, "attention", "cpu", ""));
  EXPECT_FALSE(selected({"*@*", "!attention"}, "attention", "cpu", "ring"));
}

TEST(Selection, ExpandsEveryAxisValueDtypeAndDistribution) {
  const auto all = keys({"attention/cpu", "t=16:64:x2", "h=1,2", "fp32", "bf16", "dist=normal,aimed,tokens"});
  EXPECT_EQ(all.size(), 3u * 2 * 2 * 3);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST(Selection, RanksOnlyMultiplySchemes) {
  EXPECT_EQ(keys({"attention/cpu", "ranks=1,2,4", "dist=normal"}).size(), 1u);
  EXPECT_EQ(keys({"attention/cpu@gather", "ranks=1,2,4", "dist=normal"}).size(), 3u);
}

TEST(Selection, NamesTheNearestWhenAWordIsUnknown) {
  EXPECT_THAT(error_of([] { keys({"atention"}); }), testing::HasSubstr("did you mean attention"));
  EXPECT_THAT(error_of([] { keys({"attention/cpuu"}); }), testing::HasSubstr("attention/cpu"));
  EXPECT_THAT(error_of([] { keys({"attention/cpu@gathr"}); }), testing::HasSubstr("attention@gather"));
  EXPECT_THAT(error_of([] { keys({"attention", "docz=2"}); }), testing::HasSubstr("did you mean docs"));
  EXPECT_THAT(error_of([] { keys({"attention", "dist=aimd"}); }), testing::HasSubstr("did you mean aimed"));
  EXPECT_THAT(error_of([] { keys({"attention", "dtype=bf61"}); }), testing::HasSubstr("did you mean"));
  EXPECT_THAT(error_of([] { keys({"attention", "h=4", "hk=3"}); }), testing::HasSubstr("hk must divide h"));
  EXPECT_THAT(error_of([] { keys({"attention", "t=4:2:x2"}); }), testing::HasSubstr("start:stop:xF"));
  EXPECT_THAT(error_of([] { keys({"attention/cpu@gather", "ranks=0"}); }), testing::HasSubstr("from 1 to 4096"));
  EXPECT_THAT(error_of([] { keys({}); }), testing::HasSubstr("nothing selected"));
}

TEST(Suite, BuiltInSuitesExpand) {
  for (const auto& name : suite_names()) {
    const Suite suite = load_suite(name);
    EXPECT_FALSE(suite.about.empty()) << name;
    for (const auto& block : suite.blocks) EXPECT_FALSE(expand(block.selection).empty()) << name;
  }
}

TEST(Suite, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(error_of([] { parse_suite("version = 1\n[[case]]\nselcet = [\"*\"]\n", "my.toml"); }), testing::HasSubstr("did you mean select"));
  EXPECT_THAT(error_of([] { parse_suite("version = 2\nplanted = [\"*\"]\n", "my.toml"); }), testing::HasSubstr("version = 1"));
  EXPECT_THAT(error_of([] { parse_suite("version = 1\n", "my.toml"); }), testing::HasSubstr("my.toml"));
  EXPECT_THAT(error_of([] { parse_suite("version = \n", "my.toml"); }), testing::HasSubstr("my.toml:1"));
  EXPECT_THAT(error_of([] { load_suite("demmo"); }), testing::HasSubstr("did you mean demo"));
  EXPECT_THAT(error_of([] { load_suite("/nowhere/x.toml"); }), testing::HasSubstr("/nowhere/x.toml"));
}

}  // namespace
}  // namespace megatoken
