#include "datasets/text.hpp"

#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

TEST(Text, KeepsEveryByteAndReportsUtf8) {
  const TempFolder folder;
  const std::string text = "\xef\xbb\xbfna\xc3\xafve \xe2\x80\x9cquotes\xe2\x80\x9d\r\nno line end";
  EXPECT_EQ(read_text(folder.write("a.txt", text)).bytes, text);
  EXPECT_EQ(read_text(folder.write("a.txt.gz", gzip(text))).bytes, text);
  EXPECT_EQ(read_text(folder / "a.txt").invalid_utf8, -1);
  EXPECT_EQ(read_text(folder.write("latin1.txt", "na\xefve")).invalid_utf8, 2);
}

TEST(Text, RefusesBinaryFilesAndEmptyOnes) {
  const TempFolder folder;
  expect_error(ErrorKind::Usage, {"picture.png", "not a text file", "zero byte at offset 8"},
               [&] { read_text(folder.write("picture.png", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16))); });
  expect_error(ErrorKind::Usage, {"noise.bin", "not a text file", "4 of 20"},
               [&] { read_text(folder.write("noise.bin", "\x01\x02text text tex\x03\x04tex")); });
  expect_error(ErrorKind::Usage, {"utf16.txt", "zero byte"}, [&] { read_text(folder.write("utf16.txt", std::string("\xff\xfeH\0i\0", 6))); });
  expect_error(ErrorKind::Usage, {"empty.txt", "is empty"}, [&] { read_text(folder.write("empty.txt", "")); });
}

TEST(Text, Utf8FollowsRfc3629) {
  EXPECT_EQ(first_invalid_utf8(""), -1);
  EXPECT_EQ(first_invalid_utf8("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), -1);
  EXPECT_EQ(first_invalid_utf8("ab\x80"), 2);              // lone continuation
  EXPECT_EQ(first_invalid_utf8("a\xc1\xbf"), 1);           // overlong
  EXPECT_EQ(first_invalid_utf8("\xe0\x9f\xbf"), 0);        // overlong
  EXPECT_EQ(first_invalid_utf8("\xf0\x8f\xbf\xbf"), 0);    // overlong
  EXPECT_EQ(first_invalid_utf8("x\xed\xa0\x80"), 1);       // surrogate
  EXPECT_EQ(first_invalid_utf8("\xf4\x90\x80\x80"), 0);    // above 10ffff
  EXPECT_EQ(first_invalid_utf8("\xf5\x80\x80\x80"), 0);
  EXPECT_EQ(first_invalid_utf8("ok \xe2\x82"), 3);         // cut short
}

}  // namespace
}  // namespace megatoken
