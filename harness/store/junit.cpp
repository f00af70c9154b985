#include "harness/store/junit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "harness/store/files.hpp"
#include "harness/store/text.hpp"
#include "reference/core/format.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

/// Text for an attribute or an element: markup escaped, what XML 1.0 forbids replaced by U+FFFD. Attributes would lose plain line ends.
std::string escape(std::string_view text, bool in_attribute = true) {
  std::string valid = valid_utf8(text), escaped;
  for (const char* forbidden : {"\xef\xbf\xbe", "\xef\xbf\xbf"})  // U+FFFE, U+FFFF
    for (size_t at; (at = valid.find(forbidden)) != valid.npos;) valid.replace(at, 3, "\xef\xbf\xbd");
  for (const char c : valid) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\t': case '\n': case '\r': escaped += in_attribute ? format("&#{};", static_cast<int>(c)) : std::string(1, c); break;
      default: escaped += static_cast<unsigned char>(c) < 0x20 ? "\xef\xbf\xbd" : std::string(1, c);
    }
  }
  return escaped;
}

struct Outcome {
  enum Kind { Pass, Failure, Error, Skipped } kind = Pass;
  std::string message, type, details;
};

/// "dk rel_rms 0.031 > 0.008 at b=0,t=524289,h=3,d=7": what a check that did not pass found.
std::string describe_check(const Table& checks, int64_t row) {
  const auto i = static_cast<size_t>(row);
  const auto text = [&](std::string_view column) -> const std::string& { return checks.strings(column)[i]; };
  std::string line = text("output");
  if (!text("strategy").empty()) line += format(" [{}]", text("strategy"));
  const double value = checks.floats("value")[i], limit = checks.floats("limit")[i];
  if (!std::isnan(limit)) line += format(" {} {:.2g} > {:.2g}", text("metric"), value, limit);
  if (const int64_t count = checks.ints("n_nonfinite")[i]; count > 0) line += format(", {} not finite", count);
  if (!text("worst_index").empty()) line += " at " + text("worst_index");
  if (!text("reason").empty()) line += ": " + text("reason");
  return line;
}

class Report {
 public:
  explicit Report(const ResultData& data) : results_(data.table("results")), checks_(data.table("checks")) {
    for (int64_t row = 0; row < checks_.rows(); ++row)
      if (checks_.ints("passed")[static_cast<size_t>(row)] == 0)
        failed_checks_[checks_.ints("result")[static_cast<size_t>(row)]].push_back(row);
    std::map<std::string, int64_t> last;
    for (int64_t row = 0; row < results_.rows(); ++row) last[text(row, "key")] = row;
    for (int64_t row = 0; row < results_.rows(); ++row)
      if (last[text(row, "key")] == row) suites_[text(row, "component")].push_back(row);
    add_property("run_id", text_field(data.attributes, "run_id"));
    add_property("status", text_field(data.attributes, "status"));
    add_property("git_commit", text_field(data.provenance, "git_commit"));
    std::set<std::string> devices;
    for (const auto& name : data.table("devices").strings("name")) devices.insert(name);
    for (const auto& name : devices) add_property("device", name);
  }

  std::string xml() const {
    std::string suites;
    Counts all;
    for (const auto& [component, rows] : suites_) suites += suite(component, rows, all);
    return format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"megatoken\"{}>\n{}</testsuites>\n", all.text(), suites);
  }

 private:
  struct Counts {
    int64_t of[4] = {};
    double time = 0;
    std::string text() const {
      return format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"", of[0] + of[1] + of[2] + of[3],
                    of[Outcome::Failure], of[Outcome::Error], of[Outcome::Skipped], time);
    }
  };

  void add_property(const std::string& name, const std::string& value) {
    properties_ += format("      <property name=\"{}\" value=\"{}\"/>\n", name, escape(value));
  }

  std::string suite(const std::string& component, const std::vector<int64_t>& rows, Counts& all) const {
    std::string cases;
    Counts counts;
    for (const int64_t row : rows) {
      const Outcome outcome = judge(row);
      const double duration = results_.floats("duration")[static_cast<size_t>(row)];
      const double time = std::isnan(duration) ? 0 : duration;
      cases += test_case(component, row, time, outcome);
      for (Counts* count : {&counts, &all}) {
        ++count->of[outcome.kind];
        count->time += time;
      }
    }
    return format("  <testsuite name=\"{}\"{}>\n    <properties>\n{}    </properties>\n{}  </testsuite>\n", escape(component),
                  counts.text(), properties_, cases);
  }

  std::string test_case(const std::string& component, int64_t row, double time, const Outcome& outcome) const {
    const auto head = format("    <testcase classname=\"check.{}\" name=\"{}\" time=\"{:.3f}\"", escape(component),
                             escape(text(row, "key")), time);
    if (outcome.kind == Outcome::Pass) return head + "/>\n";
    const auto message = escape(outcome.message);
    if (outcome.kind == Outcome::Skipped) return format("{}>\n      <skipped message=\"{}\"/>\n    </testcase>\n", head, message);
    const char* element = outcome.kind == Outcome::Failure ? "failure" : "error";
    return format("{}>\n      <{} message=\"{}\" type=\"{}\">{}</{}>\n    </testcase>\n", head, element, message, escape(outcome.type),
                  escape(outcome.details, false), element);
  }

  Outcome judge(int64_t row) const {
    const auto status = text(row, "status"), reason = text(row, "reason"), repro = text(row, "repro");
    const auto failed = failed_checks_.find(row);
    if (status == "skipped" || status == "not_run") return {Outcome::Skipped, reason.empty() ? status : reason, status, ""};
    if (status == "pass" && failed == failed_checks_.end()) return {};
    Outcome outcome{Outcome::Error, reason.empty() ? status : reason, status == "pass" ? "fail" : status, ""};
    if (status == "pass" || status == "fail" || status == "implausible") outcome.kind = Outcome::Failure;
    if (failed != failed_checks_.end()) {
      for (const int64_t check : failed->second) outcome.details += describe_check(checks_, check) + "\n";
      if (outcome.kind == Outcome::Failure) outcome.message = describe_check(checks_, failed->second.front());
    }
    outcome.details += repro.empty() ? format("megatoken check '{}'", text(row, "key")) : repro;
    return outcome;
  }

  const std::string& text(int64_t row, std::string_view column) const { return results_.strings(column)[static_cast<size_t>(row)]; }

  const Table& results_;
  const Table& checks_;
  std::map<int64_t, std::vector<int64_t>> failed_checks_;     // by row of /results
  std::map<std::string, std::vector<int64_t>> suites_;        // by component
  std::string properties_;
};

}  // namespace

std::string junit_xml(const ResultData& data) { return Report(data).xml(); }

void write_junit(const std::string& path, const ResultData& data) { write_file(path, junit_xml(data)); }

}  // namespace megatoken
