#include "datasets/fasta.hpp"

#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

std::vector<Sequence> read_all(const std::string& path) {
  std::vector<Sequence> all;
  for_each_sequence(path, [&](Sequence&& sequence) { all.push_back(std::move(sequence)); });
  return all;
}

TEST(Fasta, ReadsHeadersWithBlanksAndPipesAndAnyLineWidth) {
  const TempFolder folder;
  const auto all = read_all(folder.write("a.fa", "\n>gi|568336023|gb|CM000663.2| Homo sapiens chromosome 1\nACG\nT\nACGTACGT\n\n>chr2\tsecond\nGG CC\nT"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "gi|568336023|gb|CM000663.2|");
  EXPECT_EQ(all[0].header, "gi|568336023|gb|CM000663.2| Homo sapiens chromosome 1");
  EXPECT_EQ(all[0].bases, "ACGTACGTACGT");
  EXPECT_EQ(all[1].name, "chr2");
  EXPECT_EQ(all[1].bases, "GGCCT");  // no line end at the end of the file
}

TEST(Fasta, LineEndsAndPackingMakeNoDifference) {
  const TempFolder folder;
  std::string lf;
  for (int record = 0; record < 3; ++record) {
    lf += ">record " + std::to_string(record) + "\n";
    for (int line = 0; line < 2000; ++line) lf += line % 3 ? "ACGTnnacgtACGTRACGTacgtACGTACGTACGTACGTACGTACGTACGTACGTACGTACGT\n" : "NNNNN\n";
  }
  std::string crlf, cr;
  for (char c : lf) crlf += c == '\n' ? "\r\n" : std::string(1, c), cr += c == '\n' ? '\r' : c;
  const auto expected = read_all(folder.write("lf.fa", lf));
  ASSERT_EQ(expected.size(), 3u);
  const std::vector<std::string> others{crlf, cr, gzip(lf), gzip(lf.substr(0, 1234)) + gzip(lf.substr(1234)), bgzf(lf, 4096), bgzf(crlf, 999)};
  for (size_t i = 0; i < others.size(); ++i) {
    const auto all = read_all(folder.write("other", others[i]));
    ASSERT_EQ(all.size(), 3u) << i;
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(all[k].header, expected[k].header) << i;
      EXPECT_EQ(all[k].bases, expected[k].bases) << i;
      EXPECT_EQ(all[k].n_runs, expected[k].n_runs) << i;
      EXPECT_EQ(all[k].soft_masked, expected[k].soft_masked) << i;
    }
  }
}

TEST(Fasta, CaseNRunsAndIupacCodesAreKeptAsIntervals) {
  const TempFolder folder;
  const auto all = read_all(folder.write("a.fa", ">x\nNNac\ngtNn\nRACym\nN\n"));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].bases, "NNACGTNNRACYMN");
  EXPECT_EQ(all[0].n_runs, (std::vector<Interval>{{0, 2}, {6, 8}, {13, 14}}));
  EXPECT_EQ(all[0].soft_masked, (std::vector<Interval>{{2, 6}, {7, 8}, {11, 13}}));
  EXPECT_EQ(all[0].ambiguous, (std::vector<Interval>{{8, 9}, {11, 13}}));
}

TEST(Fasta, EmptyRecordsAreKept) {
  const TempFolder folder;
  const auto all = read_all(folder.write("a.fa", ">first\n>second\nAC\n>\n\n>last"));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].name, "first");
  EXPECT_EQ(all[0].length(), 0);
  EXPECT_EQ(all[1].bases, "AC");
  EXPECT_EQ(all[2].name, "");
  EXPECT_EQ(all[3].header, "last");
}

TEST(Fasta, FilesWithoutBasesAreRefused) {
  const TempFolder folder;
  expect_error(ErrorKind::Usage, {"empty.fa", "no FASTA record"}, [&] { read_all(folder.write("empty.fa", "")); });
  expect_error(ErrorKind::Usage, {"empty.fa.gz", "no FASTA record"}, [&] { read_all(folder.write("empty.fa.gz", gzip("\r\n\n"))); });
  expect_error(ErrorKind::Usage, {"headers.fa", "2 records hold no bases"}, [&] { read_all(folder.write("headers.fa", ">a\n>b\n\n")); });
}

TEST(Fasta, WhatIsNoDnaIsRefusedWithItsLine) {
  const TempFolder folder;
  expect_error(ErrorKind::Usage, {"protein.fa line 3", "'sp|P69905|HBA_HUMAN'", "'L' is an amino acid", "protein FASTA"},
               [&] { read_all(folder.write("protein.fa", ">sp|P69905|HBA_HUMAN Hemoglobin\r\nMV\r\nLSPADKTN\r\n")); });
  expect_error(ErrorKind::Usage, {"peptide.fa", "24 of 24", "protein FASTA"},
               [&] { read_all(folder.write("peptide.fa", ">x\nMKVSRHDWMKVSRHDWMKVSRHDW\n")); });
  expect_error(ErrorKind::Usage, {"stop.fa", "'*' is an amino acid"}, [&] { read_all(folder.write("stop.fa", ">x\nACG*\n")); });
  expect_error(ErrorKind::Usage, {"rna.fa line 2", "'u' is RNA"}, [&] { read_all(folder.write("rna.fa", ">x\nACGu\n")); });
  expect_error(ErrorKind::Usage, {"gaps.fa line 2", "'-' is an alignment gap"}, [&] { read_all(folder.write("gaps.fa", ">x\nAC-GT\n")); });
  expect_error(ErrorKind::Usage, {"digits.fa line 4", "record 'y'", "'6' is no nucleotide"},
               [&] { read_all(folder.write("digits.fa", ">x\nACGT\n>y\n61 ACGT\n")); });
  expect_error(ErrorKind::Usage, {"inside.fa line 2", "'>' is no nucleotide"}, [&] { read_all(folder.write("inside.fa", ">x\nAC>GT\n")); });
  expect_error(ErrorKind::Usage, {"bytes.fa line 2", "byte 0xff"}, [&] { read_all(folder.write("bytes.fa", ">x\nAC\xff\n")); });
  expect_error(ErrorKind::Usage, {"book.txt", "not a FASTA file", "line 3"}, [&] { read_all(folder.write("book.txt", "\n\nEmma\n")); });
}

TEST(Fasta, TruncatedPackedFileIsRefused) {
  const TempFolder folder;
  const std::string packed = gzip(">x\n" + std::string(100'000, 'A') + "\n");
  const std::string path = folder.write("cut.fa.gz", packed.substr(0, packed.size() - 20));
  expect_error(ErrorKind::Usage, {"cut.fa.gz", "truncated gzip", "at byte"}, [&] { read_all(path); });
}

TEST(Sequence, M5IgnoresCaseAndLineEndsAndLabelsByBasesAlone) {
  const TempFolder folder;
  const auto all = read_all(folder.write("hg38.chr22.fa", ">chr22\nacgtNACGT\n"));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(sequence_m5(all[0]), "1614297c8c8fab5c60fa10e5f27127a5");
  EXPECT_EQ(sequence_label(all[0]), "unknown contig");
}

}  // namespace
}  // namespace megatoken
