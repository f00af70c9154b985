#include "datasets/r_data.hpp"

#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

std::string big_endian(uint32_t value) {
  const std::string text = little_endian(value, 4);
  return {text.rbegin(), text.rend()};
}

std::string r_string(const std::string& text) { return big_endian(0x00040009) + big_endian(static_cast<uint32_t>(text.size())) + text; }

/// A character vector as R's serialize(version = 3) writes it, or version 2, which has no encoding.
std::string r_vector(const std::vector<std::string>& lines, uint32_t version = 3) {
  std::string text = "X\n" + big_endian(version) + big_endian(0x00040201) + big_endian(0x00030500);
  if (version == 3) text += big_endian(5) + "UTF-8";
  text += big_endian(16) + big_endian(static_cast<uint32_t>(lines.size()));
  for (const std::string& line : lines) text += r_string(line);
  return text;
}

std::string record(const std::string& object) { return big_endian(static_cast<uint32_t>(object.size())) + deflate_bytes(object, 15); }

TEST(RData, ReadsEachRecordAsLines) {
  const TempFolder folder;
  const std::string rdb = folder.write("x.rdb", record(r_vector({"EMMA", "", "caf\xc3\xa9"})) + record(r_vector({})) + record(r_vector({"last"}, 2)));
  EXPECT_EQ(read_r_lines(rdb, 0), "EMMA\n\ncaf\xc3\xa9\n");
  EXPECT_EQ(read_r_lines(rdb, 1), "");
  EXPECT_EQ(read_r_lines(rdb, 2), "last\n");
  expect_error(ErrorKind::Usage, {"x.rdb", "no record 3"}, [&] { read_r_lines(rdb, 3); });
}

TEST(RData, DamageIsNamed) {
  const TempFolder folder;
  const std::string good = record(r_vector({"one", "two"}));
  for (size_t length = 1; length < good.size(); ++length)
    expect_error(ErrorKind::Usage, {"cut.rdb", "at byte"}, [&] { read_r_lines(folder.write("cut.rdb", good.substr(0, length)), 0); });
  const std::string integers = "X\n" + big_endian(2) + big_endian(0) + big_endian(0) + big_endian(13) + big_endian(0);
  expect_error(ErrorKind::Usage, {"no character vector"}, [&] { read_r_lines(folder.write("n.rdb", record(integers)), 0); });
  expect_error(ErrorKind::Usage, {"not in R's XDR format"}, [&] { read_r_lines(folder.write("a.rdb", record("A\n....")), 0); });
  expect_error(ErrorKind::Usage, {"version 4 is unknown"}, [&] { read_r_lines(folder.write("v.rdb", record(r_vector({}, 4))), 0); });
  expect_error(ErrorKind::Usage, {"longer than its strings"}, [&] { read_r_lines(folder.write("l.rdb", record(r_vector({"x"}) + "more")), 0); });
  std::string missing = r_vector({"x"});
  missing.replace(missing.size() - 5, 4, big_endian(0xffffffff));
  expect_error(ErrorKind::Usage, {"record 0", "(NA)"}, [&] { read_r_lines(folder.write("na.rdb", record(missing)), 0); });
  expect_error(ErrorKind::Usage, {"longer than its packed bytes"}, [&] { read_r_lines(folder.write("huge.rdb", big_endian(0xffffffff) + good.substr(4)), 0); });
}

}  // namespace
}  // namespace megatoken
