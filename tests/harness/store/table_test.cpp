#include "harness/store/table.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/store/expect.hpp"

namespace megatoken {
namespace {

template <class F>
std::string usage_error(F&& call) {
  return error_of(ErrorKind::Usage, call);
}

Table results() { return Table(result_schema().table("results")); }

TEST(Table, KeepsNamedValuesAndFillsInWhatIsMissing) {
  Table table = results();
  EXPECT_EQ(table.append({{"key", "attention/cpu"}, {"seed", 7}, {"time_median", 1e-3}, {"deterministic", true}}), 0);
  EXPECT_EQ(table.append({{"status", std::string("pass")}}), 1);
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.strings("key"), (std::vector<std::string>{"attention/cpu", ""}));
  EXPECT_EQ(table.ints("seed"), (std::vector<int64_t>{7, -1}));
  EXPECT_EQ(table.ints("deterministic"), (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(table.floats("time_median")[0], 1e-3);
  EXPECT_TRUE(std::isnan(table.floats("time_median")[1]));
  EXPECT_EQ(table.text(0, "deterministic"), "true");
  EXPECT_EQ(table.text(0, "time_median"), "0.001");
  EXPECT_EQ(table.text(1, "time_median"), "");
  EXPECT_EQ(table.text(1, "seed"), "");
}

TEST(Table, GrowsOneColumnPerAxisAndFillsTheRowsBefore) {
  Table table = results();
  table.append({{"key", "a"}}, {{"t", 1024}});
  table.append({{"key", "b"}}, {{"t", 2048}, {"scale", 0.5}, {"ranks", 4}});
  table.append({{"key", "c"}});
  EXPECT_EQ(table.ints("t"), (std::vector<int64_t>{1024, 2048, -1}));
  EXPECT_TRUE(std::isnan(table.floats("scale")[0]));
  EXPECT_EQ(table.floats("scale")[1], 0.5);
  EXPECT_EQ(table.ints("ranks"), (std::vector<int64_t>{-1, 4, -1}));  // an axis that is a column of the schema stays that column
  EXPECT_EQ(table.column("t").schema.meaning, "tokens");
  EXPECT_EQ(table.column("scale").schema.units, "1");
}

TEST(Table, RefusesUnknownNamesAndWrongTypesAndStaysAsItWas) {
  Table table = results();
  table.append({{"key", "a"}});
  EXPECT_TRUE(contains(usage_error([&] { table.append({{"time_medain", 1.0}}, {{"t", 1}}); }), "did you mean time_median"));
  EXPECT_TRUE(contains(usage_error([&] { table.append({{"seed", 1.5}}, {{"t", 1}}); }), "'seed' of table 'results' holds int, not float"));
  EXPECT_TRUE(contains(usage_error([&] { table.append({{"key", 1}}); }), "holds string, not int"));
  EXPECT_TRUE(contains(usage_error([&] { table.append({{"deterministic", 2}}); }), "holds bool, not int"));
  EXPECT_TRUE(contains(usage_error([&] { table.append({}, {{"names", std::vector<std::string>{"x"}}}); }), "'names' is a list"));
  EXPECT_TRUE(contains(usage_error([&] { table.append({}, {{"result", 1}}); }), "like the dimension"));
  EXPECT_EQ(table.rows(), 1);
  EXPECT_EQ(table.find("t"), nullptr);
  EXPECT_TRUE(contains(usage_error([&] { (void)table.floats("seed"); }), "holds int"));

  Table checks(result_schema().table("checks"));
  EXPECT_TRUE(contains(usage_error([&] { checks.append({}, {{"t", 1}}); }), "unknown column of table 'checks' 't'"));
}

TEST(Table, ChangesARow) {
  Table table = results();
  const int64_t row = table.append({{"key", "a"}, {"status", "not_run"}});
  table.set(row, {{"status", "pass"}, {"flops", 3}});  // an int may go into a float column
  EXPECT_EQ(table.strings("status")[0], "pass");
  EXPECT_EQ(table.floats("flops")[0], 3.0);
  EXPECT_TRUE(contains(usage_error([&] { table.set(1, {{"status", "pass"}}); }), "has 1 rows, row 1"));
  EXPECT_TRUE(contains(usage_error([&] { table.set(0, {{"t", 5}}); }), "unknown column"));
}

TEST(Table, RefusesColumnsOfDifferentLength) {
  std::vector<Column> columns{make_column({"a", ColumnType::Int, "1", "m"}), make_column({"b", ColumnType::String, "", "m"})};
  resize(columns[0], 3);
  EXPECT_TRUE(contains(usage_error([&] { Table(result_schema().table("memory"), columns); }), "'b' has 0 rows, 'a' has 3"));
}

}  // namespace
}  // namespace megatoken
