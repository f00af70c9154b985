// Numbers with one right answer: what a course on sequence parallelism prints, what the SkyRL and ALST reports derive, and the byte formulas of
// every scheme, each computed from configs by the planner's own functions and held against the exact and the printed value.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace megatoken::plan {

struct Golden {
  std::string id, quantity;
  std::string exact, printed;                    // computed
  std::string expected_exact, expected_printed;  // "" where the source gives only one of the two
  bool ok() const {
    return (expected_exact.empty() || exact == expected_exact) && (expected_printed.empty() || printed == expected_printed);
  }
  std::string expected() const;                  // both, for one column
};

/// G01 to G57 and all further goldens.
std::vector<Golden> run_goldens();

/// GB = 10⁹ bytes: one decimal below 1000, then a whole number with thousands separated: "55.6 GB", "3,500 GB".
std::string format_gigabytes(double bytes);
std::string with_commas(int64_t value);

/// Collects goldens; one call per kind of value.
class GoldenTable {
 public:
  void bytes(std::string id, std::string quantity, int64_t value, int64_t expected, std::string printed = "");
  void count(std::string id, std::string quantity, int64_t value, int64_t expected);
  void list(std::string id, std::string quantity, const std::vector<int64_t>& values, const std::vector<int64_t>& expected);
  /// `exact` and `printed` are already formatted.
  void text(std::string id, std::string quantity, std::string exact, std::string expected, std::string printed = "", std::string expected_printed = "");
  std::vector<Golden> take() { return std::move(rows_); }

 private:
  std::vector<Golden> rows_;
};

// The parts of run_goldens().
void add_course_goldens(GoldenTable& table);
void add_balance_goldens(GoldenTable& table);
void add_traffic_goldens(GoldenTable& table);
void add_report_goldens(GoldenTable& table);

}  // namespace megatoken::plan
