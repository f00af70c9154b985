// The program as people use it: exit codes, one-line errors, files that are never overwritten.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "harness/store/result_file.hpp"

namespace megatoken {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / (std::string("megatoken_cli_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string text(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& content) const { std::ofstream(path(name), std::ios::binary) << content; }

  Outcome megatoken(const std::string& arguments) const {
    const std::string command = "cd " + folder_.string() + " && MEGATOKEN_DATA= " MEGATOKEN_BINARY_DIR "/megatoken " + arguments + " >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out.txt"), text("err.txt")};
  }
  /// Bad input: exit code, one line on stderr that holds every given word, and nothing left behind.
  void expect_refusal(const std::string& arguments, int code, const std::vector<std::string>& words) const {
    const Outcome o = megatoken(arguments);
    EXPECT_EQ(o.code, code) << arguments << "\n" << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << arguments << "\n" << o.err;
    for (const auto& word : words) EXPECT_THAT(o.err, testing::HasSubstr(word)) << arguments;
    EXPECT_FALSE(fs::exists(folder_ / "results")) << arguments;
  }

  fs::path folder_;
};

const std::string kSmall = "attention/cpu t=24 h=2 d=8 dist=normal ";

TEST_F(Cli, EveryVerbRefusesUnknownWordsWithTheNearestNames) {
  expect_refusal("chek", 2, {"unknown verb 'chek'", "check"});
  expect_refusal("check attentoin", 2, {"attention"});
  for (const std::string verb : {"check", "bench", "sweep"}) {
    expect_refusal(verb + " attention/cpuu", 2, {"attention/cpu"});
    expect_refusal(verb + " attention causl=1", 2, {"did you mean causal"});
    expect_refusal(verb + " attention -a hh=2", 2, {"axis 'hh'"});
    expect_refusal(verb + " --suite demmo", 2, {"did you mean demo"});
    expect_refusal(verb + " attention --outptu x.h5", 2, {"--output"});
    expect_refusal(verb + " attention h=4 hk=3", 2, {"hk must divide h"});
    expect_refusal(verb + " attention t=-5", 2, {"t=-5"});
    expect_refusal(verb + " attention --shard 3/2", 2, {"--shard"});
    expect_refusal(verb + " attention --timeout soon", 2, {"--timeout"});
    expect_refusal(verb + " attention --strategy ful", 2, {"did you mean full"});
    expect_refusal(verb + " attention --resume", 2, {"-o FILE.h5"});
    expect_refusal(verb, 2, {"nothing selected"});
  }
  expect_refusal("list atention", 2, {"attention"});
  expect_refusal("list --abi atention", 2, {"attention"});
  expect_refusal("replay", 2, {"one result file"});
  expect_refusal("report", 2, {"at least one result file"});
  expect_refusal("dump attention t=8", 2, {"-o FILE.h5"});
  expect_refusal("dump attention t=8 -o case.txt", 2, {"case.txt", "NAME.safetensors"});
  expect_refusal("dump attention t=8,9 -o case.h5", 2, {"one case", "t=9"});
  expect_refusal("dump attentoin -o case.h5", 2, {"attention"});
  expect_refusal("judge case.h5", 2, {"two files"});
  expect_refusal("judge absent.h5 absent.safetensors", 2, {"absent.h5"});
  expect_refusal("data ftch", 2, {"fetch"});
}

TEST_F(Cli, HelpOfEveryVerbExitsZero) {
  for (const char* verb : {"check", "bench", "sweep", "list", "replay", "report", "dump", "judge"}) {
    const Outcome o = megatoken(std::string(verb) + " --help");
    EXPECT_EQ(o.code, 0) << verb;
    EXPECT_THAT(o.out, testing::HasSubstr("--help")) << verb;
  }
  EXPECT_THAT(megatoken("").out, testing::HasSubstr("check"));
}

TEST_F(Cli, ACheckWritesRowsThatRepeatThemselves) {
  ASSERT_EQ(megatoken("check " + kSmall + "-o a.h5 --junit a.xml --json a.json --tag host=x").code, 0);
  const ResultReader reader(path("a.h5"));
  ASSERT_EQ(reader.table("results").rows(), 1);
  EXPECT_EQ(reader.table("results").strings("status")[0], "pass");
  EXPECT_GT(reader.table("checks").rows(), 5);
  const std::string repro = reader.table("results").strings("repro")[0];
  ASSERT_TRUE(repro.starts_with("megatoken "));
  ASSERT_EQ(megatoken(repro.substr(10) + " -o b.h5").code, 0);
  EXPECT_EQ(ResultReader(path("b.h5")).table("results").strings("key"), reader.table("results").strings("key"));
  EXPECT_EQ(ResultReader(path("b.h5")).table("checks").floats("value"), reader.table("checks").floats("value"));
  EXPECT_THAT(text("a.xml"), testing::HasSubstr("check.attention"));
  EXPECT_THAT(text("a.json"), testing::HasSubstr("\"status\": \"pass\""));
}

TEST_F(Cli, NothingIsOverwritten) {
  write("mine.h5", "precious");
  expect_refusal("check " + kSmall + "-o mine.h5", 2, {"mine.h5"});
  EXPECT_EQ(text("mine.h5"), "precious");
}

TEST_F(Cli, DamagedFilesAreRefusedByName) {
  ASSERT_EQ(megatoken("check " + kSmall + "-o a.h5").code, 0);
  const std::string whole = text("a.h5");
  write("cut.h5", whole.substr(0, whole.size() / 2));
  write("text.h5", "not HDF5");
  for (const std::string verb : {"replay", "report"})
    for (const std::string file : {"cut.h5", "text.h5", "absent.h5"}) expect_refusal(verb + " " + file, 2, {file});
  expect_refusal("check " + kSmall + "-o cut.h5 --resume", 2, {"cut.h5"});
}

TEST_F(Cli, AReadOnlyPlaceForResultsIsAnEnvironmentError) { expect_refusal("check " + kSmall + "-o /proc/a.h5", 5, {"/proc/a.h5"}); }

TEST_F(Cli, BadTokenFilesAreRefusedByName) {
  write("protein.fa", ">p\nMKWVTFISLLFLFSSAYSRGVFRRDAHKSEVAHRFKDLGEENFKALVLIAFAQYLQQCPFEDHVKLVNEVTEFAKTCVADESAENCDKSLHTLFGDKLCTVATLRE\n");
  write("empty.fa", "");
  write("binary.txt", std::string("\x00\x01\x02\xff\xfe", 5) + std::string(4000, '\0'));
  write("cut.txt.gz", std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b", 11));
  for (const std::string file : {"protein.fa", "empty.fa", "binary.txt", "cut.txt.gz", "absent.txt"}) expect_refusal("check " + kSmall + "--tokens " + file, 2, {file});
}

TEST_F(Cli, TimeoutsAndCrashesAreRows) {
  const Outcome o = megatoken("sweep attention/cpu t=16,4Ki h=2 d=64 dist=normal --timeout 2s -o a.h5");
  const ResultReader reader(path("a.h5"));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(reader.table("results").strings("status"), testing::ElementsAre("pass", "timeout"));
  EXPECT_GT(reader.table("results").floats("time_median")[0], 0);
  EXPECT_GT(reader.table("samples").rows(), 0);
}

TEST_F(Cli, NothingLongerIsTriedAfterATimeout) {
  const Outcome o = megatoken("sweep attention/cpu t=4Ki,8Ki,16 h=2 d=64 dist=normal --timeout 1s -o a.h5");
  const ResultReader reader(path("a.h5"));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(reader.table("results").strings("status"), testing::ElementsAre("timeout", "not_run", "pass"));
  EXPECT_EQ(reader.table("results").strings("reason")[1], "timeout at 4096 tokens already");
}

TEST_F(Cli, ASuiteLimitsItsCases) {
  write("my.toml", "version = 1\nabout = \"x\"\ntimeout = \"1s\"\nsampling_time = 0.01\n[[case]]\nselect = [\"attention/cpu\"]\nset = [\"t=16,4Ki\", \"d=64\", \"dist=normal\"]\ntime = true\n");
  EXPECT_EQ(megatoken("sweep --suite my.toml -o a.h5").code, 0);
  EXPECT_THAT(ResultReader(path("a.h5")).table("results").strings("status"), testing::ElementsAre("pass", "timeout"));
  EXPECT_THAT(ResultReader(path("a.h5")).table("results").strings("stop_reason")[0], testing::AnyOf("timeout", "precise"));
  write("bad.toml", "version = 1\ntimeout = \"soon\"\n[[case]]\nselect = [\"attention/cpu\"]\n");
  expect_refusal("check --suite bad.toml", 2, {"bad.toml", "soon"});
}

TEST_F(Cli, ResumeRunsOnlyWhatIsMissing) {
  ASSERT_EQ(megatoken("check attention/cpu t=8,16 h=1 d=4 dist=normal -o a.h5 --budget 1e-9s").code, 0);
  const auto statuses = [&] { return ResultReader(path("a.h5")).table("results").strings("status"); };
  const auto passed = [&] { const auto s = statuses(); return std::count(s.begin(), s.end(), "pass"); };
  ASSERT_LT(passed(), 2);
  ASSERT_EQ(megatoken("check attention/cpu t=8,16 h=1 d=4 dist=normal -o a.h5 --resume").code, 0);
  EXPECT_EQ(passed(), 2);
  EXPECT_THAT(megatoken("check attention/cpu t=8,16 h=1 d=4 dist=normal -o a.h5 --resume").out, testing::HasSubstr("0 passed"));
}

TEST_F(Cli, ShardsTogetherAreTheWhole) {
  std::multiset<std::string> keys;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(megatoken(format("check attention/cpu t=8,9,10,11 h=1 d=4 dist=normal --shard {}/3 -o s{}.h5", i, i)).code, 0);
    const ResultReader reader(path(format("s{}.h5", i)));
    for (const auto& key : reader.table("results").strings("key")) keys.insert(key);
  }
  EXPECT_EQ(keys.size(), 4u);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 4u);
}

TEST_F(Cli, ADryRunWritesNothing) {
  const Outcome o = megatoken("check attention/cpu t=64Ki --dry-run");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, testing::HasSubstr("FLOP"));
  EXPECT_FALSE(fs::exists(folder_ / "results"));
}

TEST_F(Cli, WithoutATerminalThereIsNoProgressBar) {
  EXPECT_EQ(megatoken("check " + kSmall + "-o a.h5").err, "");
}

TEST_F(Cli, AllSkippedIsSeventySevenUnlessAllowed) {
  const std::string skipped = "attention/cpu t=8 h=1 d=4 e4m3 dist=normal ";
  EXPECT_EQ(megatoken("check " + skipped + "-o a.h5").code, 77);
  EXPECT_EQ(megatoken("check " + skipped + "-o b.h5 --allow-skip-all").code, 0);
}

TEST_F(Cli, ReplayRepeatsWhatDidNotPass) {
  ASSERT_EQ(megatoken("check attention/cpu t=8 h=1 d=4 dist=normal -o a.h5").code, 0);
  expect_refusal("replay a.h5", 2, {"--all"});
  EXPECT_EQ(megatoken("replay a.h5 --all -o b.h5").code, 0);
  EXPECT_EQ(ResultReader(path("b.h5")).table("results").rows(), 1);
}

}  // namespace
}  // namespace megatoken
