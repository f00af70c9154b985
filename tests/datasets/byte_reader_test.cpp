#include "datasets/byte_reader.hpp"

#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

std::string noise(size_t length) {  // hardly compressible, so that packed offsets move
  std::string bytes(length, '\0');
  uint32_t x = 12345;
  for (char& c : bytes) x = x * 1664525u + 1013904223u, c = static_cast<char>(x >> 24);
  return bytes;
}

TEST(ByteReader, ReadsPlainGzipMultiMemberAndBgzfAlike) {
  const TempFolder folder;
  const std::string bytes = noise(200'000);  // longer than the reader's own blocks
  const std::string half = bytes.substr(0, 77'777), rest = bytes.substr(77'777);
  const std::vector<std::pair<std::string, FilePacking>> packings{{bytes, FilePacking::Plain},
                                                                  {gzip(bytes), FilePacking::Gzip},
                                                                  {gzip(half) + gzip("") + gzip(rest), FilePacking::Gzip},
                                                                  {gzip(bytes) + std::string(1000, '\0'), FilePacking::Gzip},
                                                                  {bgzf(bytes, 30'000), FilePacking::Bgzf}};
  for (size_t i = 0; i < packings.size(); ++i) {
    const std::string path = folder.write("file" + std::to_string(i), packings[i].first);
    EXPECT_EQ(ByteReader(path).packing(), packings[i].second) << i;
    EXPECT_EQ(read_bytes(path), bytes) << i;
    EXPECT_EQ(content_digest(path).bytes, 200'000) << i;
    EXPECT_EQ(content_digest(path).sha256, content_digest(folder / "file0").sha256) << i;
  }
}

TEST(ByteReader, SmallReadsGiveTheSameBytes) {
  const TempFolder folder;
  const std::string bytes = noise(1000);
  ByteReader reader(folder.write("a.gz", gzip(bytes.substr(0, 500)) + gzip(bytes.substr(500))));
  std::string got;
  for (char c; reader.read(&c, 1) == 1;) got += c;
  EXPECT_EQ(got, bytes);
  char c;
  EXPECT_EQ(reader.read(&c, 1), 0u);
}

TEST(ByteReader, EmptyFileIsEmptyAndEmptyMemberIsEmpty) {
  const TempFolder folder;
  EXPECT_EQ(read_bytes(folder.write("empty", "")), "");
  EXPECT_EQ(read_bytes(folder.write("empty.gz", gzip(""))), "");
  EXPECT_EQ(read_bytes(folder.write("one", "x")), "x");
}

// Cut anywhere behind the magic number: never silently short, and the offset named is the length of what is left.
TEST(ByteReader, TruncatedGzipNamesFileAndByteOffset) {
  const TempFolder folder;
  const std::string packed = gzip(noise(3000));
  for (size_t length = 2; length < packed.size(); length += 13) {
    const std::string path = folder.write("cut.gz", packed.substr(0, length));
    expect_error(ErrorKind::Usage, {"cut.gz", "truncated gzip", format("at byte {} of", length)}, [&] { read_bytes(path); });
  }
}

TEST(ByteReader, TruncatedSecondMemberIsFound) {
  const TempFolder folder;
  const std::string first = gzip("first"), second = gzip("second");
  const std::string path = folder.write("cut.gz", first + second.substr(0, second.size() - 3));
  expect_error(ErrorKind::Usage, {"cut.gz", "truncated gzip", format("at byte {} of", first.size() + second.size() - 3)}, [&] { read_bytes(path); });
}

// Between two blocks gzip itself sees nothing wrong; only the missing end marker of BGZF tells.
TEST(ByteReader, BgzfCutBetweenBlocksIsFound) {
  const TempFolder folder;
  const std::string whole = bgzf(noise(5000), 1000);
  const std::string path = folder.write("cut.fa.gz", whole.substr(0, whole.size() - bgzf_block("").size()));
  expect_error(ErrorKind::Usage, {"cut.fa.gz", "truncated BGZF", "at byte"}, [&] { read_bytes(path); });
}

TEST(ByteReader, DamagedGzipNamesFileAndByteOffset) {
  const TempFolder folder;
  std::string packed = gzip(noise(100'000));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // inside the checksum
  expect_error(ErrorKind::Usage, {"flipped.gz", "damaged gzip", "incorrect data check", "at byte"},
               [&] { read_bytes(folder.write("flipped.gz", packed)); });
  const std::string good = gzip("good");
  expect_error(ErrorKind::Usage, {"tail.gz", "no gzip", format("at byte {} of", good.size())},
               [&] { read_bytes(folder.write("tail.gz", good + "tail")); });
}

TEST(ByteReader, MissingFileAndFolderAreErrors) {
  const TempFolder folder;
  expect_error(ErrorKind::Usage, {"nothing.txt", "cannot open"}, [&] { read_bytes(folder / "nothing.txt"); });
  expect_error(ErrorKind::Environment, {folder.path(), "cannot read"}, [&] { read_bytes(folder.path()); });
}

}  // namespace
}  // namespace megatoken
