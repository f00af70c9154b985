#include "datasets/two_bit.hpp"

#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

/// Writes .2bit as its format page describes it, in either byte order and either version.
class TwoBitWriter {
 public:
  TwoBitWriter(bool big_endian, int version) : big_(big_endian), version_(version) {}

  std::string file(const std::vector<Sequence>& sequences) const {
    std::string head = number(0x1a412743) + number(static_cast<uint32_t>(version_)) + number(static_cast<uint32_t>(sequences.size())) + number(0);
    size_t offset = head.size();
    for (const Sequence& s : sequences) offset += 1 + s.name.size() + (version_ == 1 ? 8 : 4);
    std::string records;
    for (const Sequence& s : sequences) {
      const auto at = static_cast<uint32_t>(offset + records.size());
      head += static_cast<char>(s.name.size()) + s.name;
      head += version_ == 0 ? number(at) : big_ ? number(0) + number(at) : number(at) + number(0);
      records += record(s);
    }
    return head + records;
  }

 private:
  std::string number(uint32_t value) const {
    std::string text = little_endian(value, 4);
    return big_ ? std::string(text.rbegin(), text.rend()) : text;
  }
  std::string blocks(const std::vector<Interval>& runs) const {
    std::string text = number(static_cast<uint32_t>(runs.size()));
    for (const Interval& run : runs) text += number(static_cast<uint32_t>(run.begin));
    for (const Interval& run : runs) text += number(static_cast<uint32_t>(run.length()));
    return text;
  }
  std::string record(const Sequence& s) const {
    std::string text = number(static_cast<uint32_t>(s.length())) + blocks(s.n_runs) + blocks(s.soft_masked) + number(0);
    std::string packed((s.bases.size() + 3) / 4, '\0');
    for (size_t i = 0; i < s.bases.size(); ++i) {
      const size_t code = s.bases[i] == 'N' ? 0 : std::string_view("TCAG").find(s.bases[i]);
      packed[i / 4] = static_cast<char>(packed[i / 4] | code << (6 - 2 * (i % 4)));
    }
    return text + packed;
  }

  bool big_;
  int version_;
};

std::vector<Sequence> examples() {
  std::vector<Sequence> all(3);
  all[0].name = "chr1";
  all[0].bases = "NNACGTGGNNNTCA";
  all[0].n_runs = {{0, 2}, {8, 11}};
  all[0].soft_masked = {{3, 5}, {12, 14}};
  all[1].name = "empty";
  all[2].name = "a longer name|with pipes";
  for (int i = 0; i < 1001; ++i) all[2].bases += "ACGT"[i * i % 7 % 4];
  return all;
}

TEST(TwoBit, BothByteOrdersAndVersionsReadTheSame) {
  const TempFolder folder;
  for (bool big : {false, true})
    for (int version : {0, 1}) {
      const std::string path = folder.write("a.2bit", TwoBitWriter(big, version).file(examples()));
      std::vector<Sequence> all;
      for_each_sequence(path, [&](Sequence&& s) { all.push_back(std::move(s)); });
      ASSERT_EQ(all.size(), 3u);
      for (size_t i = 0; i < 3; ++i) {
        const Sequence expected = examples()[i];
        EXPECT_EQ(all[i].name, expected.name) << big << version;
        EXPECT_EQ(all[i].bases, expected.bases) << big << version;
        EXPECT_EQ(all[i].n_runs, expected.n_runs) << big << version;
        EXPECT_EQ(all[i].soft_masked, expected.soft_masked) << big << version;
      }
    }
}

TEST(TwoBit, TouchingAndUnorderedBlocksBecomeOneRun) {
  const TempFolder folder;
  std::vector<Sequence> one(1);
  one[0].name = "x";
  one[0].bases = "ACGTACGT";
  one[0].n_runs = {{5, 7}, {2, 4}, {4, 5}};
  TwoBitReader reader(folder.write("a.2bit", TwoBitWriter(false, 0).file(one)));
  EXPECT_EQ(reader.read(0).bases, "ACNNNNNT");
  EXPECT_EQ(reader.read(0).n_runs, (std::vector<Interval>{{2, 7}}));
}

// Cut at every byte: each prefix is refused, and none crashes or asks for absurd memory.
TEST(TwoBit, EveryTruncationIsRefusedByName) {
  const TempFolder folder;
  const std::string whole = TwoBitWriter(true, 0).file({examples()[0]});
  for (size_t length = 4; length < whole.size(); ++length) {
    const std::string path = folder.write("cut.2bit", whole.substr(0, length));
    expect_error(ErrorKind::Usage, {"cut.2bit"}, [&] { TwoBitReader(path).read(0); });
  }
}

TEST(TwoBit, DamagedCountsAreRefused) {
  const TempFolder folder;
  const std::string whole = TwoBitWriter(false, 0).file({examples()[0]});
  const auto damaged = [&](size_t at, const std::string& bytes) {
    std::string copy = whole;
    return folder.write("bad.2bit", copy.replace(at, bytes.size(), bytes));
  };
  const size_t record = 16 + 1 + 4 + 4;
  expect_error(ErrorKind::Usage, {"bad.2bit", "version 7"}, [&] { TwoBitReader(damaged(4, little_endian(7, 4))); });
  expect_error(ErrorKind::Usage, {"bad.2bit", "holds no sequence"}, [&] { TwoBitReader(damaged(8, little_endian(0, 4))); });
  expect_error(ErrorKind::Usage, {"'chr1'", "start at byte 4294967295"}, [&] { TwoBitReader(damaged(21, little_endian(0xffffffff, 4))); });
  expect_error(ErrorKind::Usage, {"'chr1'", "4000000000 bases"}, [&] { TwoBitReader(damaged(record, little_endian(4000000000, 4))).read(0); });
  expect_error(ErrorKind::Usage, {"4294967295 N blocks"}, [&] { TwoBitReader(damaged(record + 4, little_endian(0xffffffff, 4))).read(0); });
  expect_error(ErrorKind::Usage, {"N blocks reach base 15 of a sequence of 14"}, [&] { TwoBitReader(damaged(record + 12, little_endian(12, 4))).read(0); });
}

}  // namespace
}  // namespace megatoken
