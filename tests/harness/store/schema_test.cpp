#include "harness/store/schema.hpp"

#include <gtest/gtest.h>

#include "tests/harness/store/expect.hpp"

namespace megatoken {
namespace {

std::string parse_error(const std::string& toml) {
  return error_of(ErrorKind::Usage, [&] { (void)parse_schema(toml, "s.toml"); });
}

const std::string kHead = "schema='s'\nversion='1.0'\naxes={t='tokens'}\n";
std::string one_table(const std::string& columns, const std::string& extra = "") {
  return kHead + "[[table]]\nname='results'\ndimension='result'\nmeaning='m'\n" + extra + "columns=[" + columns + "]\n";
}

TEST(Schema, ReadsTablesColumnsAndAxes) {
  const auto schema = parse_schema(one_table("['key','string','','the key'], ['time','float','s','a time']", "axes=true\n"), "s.toml");
  EXPECT_EQ(schema.version, "1.0");
  ASSERT_EQ(schema.tables.size(), 1u);
  EXPECT_TRUE(schema.tables[0].axes);
  ASSERT_EQ(schema.tables[0].columns.size(), 2u);
  EXPECT_EQ(schema.tables[0].columns[1].type, ColumnType::Float);
  EXPECT_EQ(schema.tables[0].columns[1].units, "s");
  EXPECT_EQ(schema.axis_meaning("t"), "tokens");
  EXPECT_EQ(schema.axis_meaning("window"), "window");
}

TEST(Schema, RefusesWhatItDoesNotKnow) {
  EXPECT_TRUE(contains(parse_error("schema = "), "s.toml: line 1"));
  EXPECT_TRUE(contains(parse_error(kHead), "at least one [[table]]"));
  EXPECT_TRUE(contains(parse_error(one_table("['a','string','','m']", "colour='red'\n")), "table 'results' has the unknown key 'colour'"));
  EXPECT_TRUE(contains(parse_error(one_table("['a','double','','m']")), "column 'a' has type 'double'"));
  EXPECT_TRUE(contains(parse_error(one_table("['a','int','']")), "[name, type, units, meaning]"));
  EXPECT_TRUE(contains(parse_error(one_table("['a','int','1','m'],['a','int','1','m']")), "'a' is taken twice"));
  EXPECT_TRUE(contains(parse_error(one_table("['result','int','1','m']")), "'result' is taken twice"));
}

TEST(Schema, HoldsTheTablesOfTheSpecification) {
  for (const auto* name : {"results", "checks", "samples", "memory", "devices", "ceilings", "timeline", "verdicts", "faults"})
    EXPECT_TRUE(result_schema().find(name)) << name;
  EXPECT_THROW((void)result_schema().table("result"), Error);
  for (const auto& table : result_schema().tables)
    for (const auto& column : table.columns) EXPECT_FALSE(column.meaning.empty()) << table.name << "/" << column.name;
}

}  // namespace
}  // namespace megatoken
