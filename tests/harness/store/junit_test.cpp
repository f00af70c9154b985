#include "harness/store/junit.hpp"

#include <cmath>
#include <cstdlib>

#include "tests/harness/store/expect.hpp"
#include "tests/harness/store/scratch.hpp"

namespace megatoken {
namespace {

constexpr const char* kNasty = "a<b> & \"c\" 'd' \x01 \xff ]]> \xef\xbf\xbf";

/// One row of every kind, and rows whose words need escaping.
ResultData all_kinds() {
  ResultData data = ResultData::empty();
  data.attributes = {{"run_id", "run-1"}, {"status", "complete"}};
  data.provenance = {{"git_commit", "abc"}};
  for (const auto* name : {"H200", "H200", "CPU"}) data.table("devices").append({{"name", name}});
  auto& results = data.table("results");
  const auto add = [&](const std::string& component, const std::string& key, const std::string& status, const std::string& reason = "") {
    return results.append({{"component", component}, {"key", key}, {"status", status}, {"reason", reason}, {"duration", 0.25},
                           {"repro", "repeat " + key}});
  };
  add("attention", "k-pass", "pass");
  const int64_t fail = add("attention", "k-fail", "fail");
  add("attention", "k-skip", "skipped", "no sm_100 device");
  add("attention", "k-not-run", "not_run");
  add("attention", "k-implausible", "implausible", "faster than the roof");
  for (const std::string status : {"oom", "timeout", "crash", "error"}) add("kda", "k-" + status, status, "because of " + status);
  const int64_t liar = add("kda", "k-liar", "pass");
  add("kda", "k-twice", "error", "first attempt");
  add("kda", "k-twice", "pass");
  add(kNasty, kNasty, "error", std::string(kNasty) + "\nsecond line");

  auto& checks = data.table("checks");
  checks.append({{"result", fail}, {"output", "o"}, {"metric", "rel_rms"}, {"value", 1e-3}, {"limit", 8e-3}, {"passed", true}});
  checks.append({{"result", fail}, {"output", "dk"}, {"strategy", "rows"}, {"metric", "rel_rms"}, {"value", 3.1e-2}, {"limit", 8e-3},
                 {"passed", false}, {"worst_index", "b=0,t=524289,h=3,d=7"}});
  checks.append({{"result", fail}, {"output", "dv"}, {"metric", "rel_rms"}, {"value", std::nan("")}, {"limit", 8e-3},
                 {"passed", false}, {"n_nonfinite", 3}});
  checks.append({{"result", liar}, {"output", "o"}, {"strategy", "canary"}, {"passed", false}, {"reason", "wrote past the end"}});
  return data;
}

TEST(JUnit, CountsEveryKindAndSaysWhatFailed) {
  const auto xml = junit_xml(all_kinds());
  EXPECT_TRUE(contains(xml, R"(<testsuites name="megatoken" tests="12" failures="3" errors="5" skipped="2" time="3.000">)"));
  EXPECT_TRUE(contains(xml, R"(<testsuite name="attention" tests="5" failures="2" errors="0" skipped="2" time="1.250">)"));
  EXPECT_TRUE(contains(xml, R"(<testcase classname="check.attention" name="k-pass" time="0.250"/>)"));
  EXPECT_TRUE(contains(xml, R"(<failure message="dk [rows] rel_rms 0.031 &gt; 0.008 at b=0,t=524289,h=3,d=7" type="fail">dk [rows])"));
  EXPECT_TRUE(contains(xml, "\ndv rel_rms nan &gt; 0.008, 3 not finite\nrepeat k-fail</failure>"));
  EXPECT_TRUE(contains(xml, R"(<skipped message="no sm_100 device"/>)"));
  EXPECT_TRUE(contains(xml, R"(<error message="because of oom" type="oom">repeat k-oom</error>)"));
  EXPECT_TRUE(contains(xml, R"(<property name="device" value="CPU"/>)"));
  EXPECT_FALSE(contains(xml, "first attempt"));
}

TEST(JUnit, DoesNotBelieveAPassWhoseCheckFailed) {
  EXPECT_TRUE(contains(junit_xml(all_kinds()), R"(<failure message="o [canary]: wrote past the end" type="fail">)"));
}

TEST(JUnit, IsParsedBackByPython) {
  const Scratch scratch;
  write_junit(scratch.file("a.xml"), all_kinds());
  const std::string script = R"(
import sys, xml.etree.ElementTree as tree
for suite in tree.parse(sys.argv[1]).getroot():
    kinds = [child.tag for case in suite.iter("testcase") for child in case]
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    found = [len(suite.findall("testcase")), *map(kinds.count, ("failure", "error", "skipped"))]
    assert counts == [str(n) for n in found], found
    print(ascii(suite.get("name")), *counts, [p.get("name") for p in suite.iter("property")])
    if "<" in suite.get("name"):
        print(ascii(suite.find("testcase").get("name")), ascii(suite.find("testcase/error").get("message")))
)";
  put_bytes(scratch.file("read.py"), script);
  const auto command = format("python3 {} {} > {} 2>&1", scratch.file("read.py"), scratch.file("a.xml"), scratch.file("out"));
  const int status = std::system(command.c_str());
  const auto output = file_bytes(scratch.file("out"));
  if (WEXITSTATUS(status) == 127) GTEST_SKIP() << "no python3";
  ASSERT_EQ(status, 0) << output;
  const std::string nasty = R"(a<b> & "c" \'d\' \ufffd \ufffd ]]> \ufffd)";
  const std::string properties = "['run_id', 'status', 'git_commit', 'device', 'device']";
  EXPECT_TRUE(contains(output, format("'attention' 5 2 0 2 {}\n'kda' 6 1 4 0 {}\n", properties, properties))) << output;
  EXPECT_TRUE(contains(output, format("'{}' '{}\\nsecond line'\n", nasty, nasty))) << output;
}

TEST(JUnit, OfAnEmptyRunIsAnEmptyReport) {
  EXPECT_TRUE(contains(junit_xml(ResultData::empty()), R"(tests="0" failures="0" errors="0" skipped="0" time="0.000")"));
}

}  // namespace
}  // namespace megatoken
