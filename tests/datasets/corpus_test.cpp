#include "datasets/corpus.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "datasets/packing.hpp"
#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

TEST(Corpus, ReadsTextByNameAndByPath) {
  const TempFolder folder;
  const std::string text = "Call me Ishmael.\n";
  folder.write("books/moby.txt.gz", gzip(text));
  for (const std::string& name : {std::string("moby"), folder / "books/moby.txt.gz"}) {
    const Corpus corpus = Corpus::open({.name = name, .folders = {folder.path()}});
    EXPECT_EQ(corpus.size(), 17);
    EXPECT_EQ(corpus.tokenizer().decode(corpus.tokens(0, 17)), text);
    EXPECT_EQ(corpus.tokenizer().decode(corpus.tokens(5, 2)), "me");
    EXPECT_EQ(corpus.label(), name + ": text, 17 bytes");
    EXPECT_FALSE(corpus.synthetic());
  }
  std::string label;
  EXPECT_EQ(load_tokens({.name = "moby", .folders = {folder.path()}}, 0, 4, &label), (std::vector<int32_t>{'C', 'a', 'l', 'l'}));
  EXPECT_EQ(label, "moby: text, 17 bytes");
}

TEST(Corpus, BeyondTheEndIsAnErrorAndNeverWraps) {
  const TempFolder folder;
  folder.write("books/a.txt", "12345");
  const Corpus corpus = Corpus::open({.name = "a", .folders = {folder.path()}});
  EXPECT_EQ(corpus.tokens(5, 0).size(), 0u);
  for (auto [offset, count] : {std::pair<int64_t, int64_t>{0, 6}, {5, 1}, {-1, 2}, {2, -1}, {1, INT64_MAX}})
    expect_error(ErrorKind::Usage, {"which has 5"}, [&, o = offset, c = count] { corpus.tokens(o, c); });
}

TEST(Corpus, JoinsFilesAsDocumentsButNeverTextAndDna) {
  const TempFolder folder;
  folder.write("books/a.txt", "one");
  folder.write("books/b.txt", "four");
  folder.write("genome/c.fa", ">c\nACGT\n");
  const Corpus corpus = Corpus::open({.name = "a+b", .folders = {folder.path()}});
  EXPECT_EQ(corpus.documents(), (std::vector<Interval>{{0, 3}, {3, 7}}));
  EXPECT_EQ(corpus.label(), "a+b: text, 7 bytes in 2 documents");
  expect_error(ErrorKind::Usage, {"'a+c' mixes text and DNA"}, [&] { Corpus::open({.name = "a+c", .folders = {folder.path()}}); });
}

TEST(Corpus, GenomeFoldsCaseAndMasksWhatIsNotKnown) {
  const TempFolder folder;
  folder.write("genome/g.fa", ">one\nNNACgtRy\n>empty\n>two\nacGTN\n");
  const Corpus corpus = Corpus::open({.name = "g", .folders = {folder.path()}});
  EXPECT_EQ(corpus.tokenizer().decode(corpus.tokens(0, corpus.size())), "NNACGTNNACGTN");  // R and y became N
  EXPECT_EQ(corpus.documents(), (std::vector<Interval>{{0, 8}, {8, 13}}));
  EXPECT_EQ(corpus.masked(), (std::vector<Interval>{{0, 2}, {6, 8}, {12, 13}}));
  EXPECT_EQ(corpus.clean_stretches(), (std::vector<Interval>{{2, 6}, {8, 12}}));
  EXPECT_EQ(corpus.label(), "g: 2 sequences, 0 with M5 match, 13 bases, 5 masked, 5 lower case folded");
  const Corpus repeats = Corpus::open({.name = "g", .folders = {folder.path()}, .mask_repeats = true});
  EXPECT_EQ(repeats.masked(), (std::vector<Interval>{{0, 2}, {4, 8}, {8, 10}, {12, 13}}));
  EXPECT_EQ(repeats.clean_stretches(), (std::vector<Interval>{{2, 4}, {10, 12}}));
}

TEST(Corpus, UnknownAndAbsentNamesSayWhatToDo) {
  const TempFolder folder;
  const auto open = [&](const std::string& name) { return [&, name] { Corpus::open({.name = name, .folders = {folder.path()}}); }; };
  expect_error(ErrorKind::Usage, {"'hg38.chr22' is not in", "megatoken data fetch hg38.chr22"}, open("hg38.chr22"));
  expect_error(ErrorKind::Usage, {"unknown data 'austen/ema'", "austen/emma"}, open("austen/ema"));
  expect_error(ErrorKind::Usage, {"synthetic/rna"}, [] { Corpus::open({.name = "synthetic/rna"}); });
  EXPECT_FALSE(is_available({.name = "hg38.chr22", .folders = {folder.path()}}));
  EXPECT_TRUE(is_available({.name = "synthetic"}));
  folder.write("books/emma.txt", "not the novel");
  expect_error(ErrorKind::Usage, {"emma.txt has 13 bytes instead of 883028"}, open("austen/emma"));
}

TEST(Synthetic, IsLabelledAndDependsOnSeedAndPositionAlone) {
  for (const char* name : {"synthetic", "synthetic/dna"}) {
    const Corpus corpus = Corpus::open({.name = name, .seed = 7});
    EXPECT_TRUE(corpus.synthetic());
    EXPECT_TRUE(corpus.label().starts_with("synthetic")) << corpus.label();
    const auto whole = corpus.tokens(1000, 5000);
    const auto part = corpus.tokens(3000, 100);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 2000));
    EXPECT_NE(whole, Corpus::open({.name = name, .seed = 8}).tokens(1000, 5000));
    EXPECT_EQ(corpus.tokens(corpus.size() - 3, 3).size(), 3u);  // length costs nothing
  }
}

// The negative control of the loss curves: a model's loss must stay at the entropy, ln 4 and ln 256.
TEST(Synthetic, IsUniform) {
  for (auto [name, symbols] : {std::pair<const char*, int>{"synthetic/dna", 4}, {"synthetic", 256}}) {
    std::map<int32_t, double> counts;
    const int64_t n = 200'000;
    for (int32_t token : Corpus::open({.name = name}).tokens(0, n)) counts[token] += 1;
    ASSERT_EQ(counts.size(), static_cast<size_t>(symbols));
    double chi2 = 0;
    const double expected = static_cast<double>(n) / symbols;
    for (auto [token, count] : counts) chi2 += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi2, symbols - 1 + 5 * std::sqrt(2.0 * (symbols - 1))) << name;
  }
}

TEST(Packing, LabelsAreTheNextTokensOfTheSameDocumentAndNeverMaskedOnes) {
  const TempFolder folder;
  folder.write("genome/g.fa", ">one\nNACGT\n>two\nACNNG\n");
  const Corpus corpus = Corpus::open({.name = "g", .folders = {folder.path()}});
  constexpr int32_t A = 0, C = 1, G = 2, T = 3, N = 4, x = kIgnoredLabel;
  const PackedSequence all = pack_window(corpus, 0, 10);
  EXPECT_EQ(all.tokens, (std::vector<int32_t>{N, A, C, G, T, A, C, N, N, G}));
  EXPECT_EQ(all.labels, (std::vector<int32_t>{A, C, G, T, x, C, x, x, G, x}));
  EXPECT_EQ(all.documents, (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(all.positions, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(all.valid_labels, 6);
  const PackedSequence middle = pack_window(corpus, 3, 4);
  EXPECT_EQ(middle.tokens, (std::vector<int32_t>{G, T, A, C}));
  EXPECT_EQ(middle.labels, (std::vector<int32_t>{T, x, C, x}));  // the label behind the window is an N
  EXPECT_EQ(middle.documents, (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(middle.positions, (std::vector<int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(pack_window(corpus, 4, 0).labels.size(), 0u);
  expect_error(ErrorKind::Usage, {"which has 10"}, [&] { pack_window(corpus, 8, 3); });
}

// Windows back to back, whatever their length, carry every label of the whole once.
TEST(Packing, WindowsLoseNoLabel) {
  const TempFolder folder;
  std::string fasta;
  for (int record = 0; record < 7; ++record) {
    fasta += ">r\n";
    for (int i = 0; i < 11 + 5 * record; ++i) fasta += "ACGTNACGTTGNNCA"[(i * i + record) % 15];
    fasta += "\n";
  }
  folder.write("genome/g.fa", fasta);
  const Corpus corpus = Corpus::open({.name = "g", .folders = {folder.path()}});
  const auto whole = pack_window(corpus, 0, corpus.size()).labels;
  for (int64_t length : {1, 2, 3, 7, 16, 50}) {
    std::vector<int32_t> joined;
    for (int64_t at = 0; at < corpus.size(); at += length) {
      const auto window = pack_window(corpus, at, std::min(length, corpus.size() - at));
      joined.insert(joined.end(), window.labels.begin(), window.labels.end());
    }
    EXPECT_EQ(joined, whole) << length;
  }
}

}  // namespace
}  // namespace megatoken
