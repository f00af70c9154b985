// The optional folder of real books and human DNA: skipped with a reason where it is absent. Its expected figures were published with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "datasets/byte_reader.hpp"
#include "datasets/corpus.hpp"
#include "datasets/packing.hpp"
#include "datasets/sequence.hpp"
#include "datasets/text.hpp"

namespace megatoken {
namespace {

std::string real_data_folder() {
  const char* given = std::getenv("MEGATOKEN_DATA");
  const std::string folder = given ? given : MEGATOKEN_SOURCE_DIR "/../shared/data";
  return std::filesystem::exists(folder + "/genome") ? folder : "";
}

#define REAL_DATA_OR_SKIP(folder)                  \
  const std::string folder = real_data_folder();   \
  if (folder.empty()) GTEST_SKIP() << "no folder of real data: set MEGATOKEN_DATA"

TEST(RealData, HumanSequencesHaveTheirPublishedFigures) {
  REAL_DATA_OR_SKIP(folder);
  const struct {
    const char *file, *sha256, *label;
    FilePacking packing;
    int64_t bases;
    std::vector<Interval> n_runs;
    double lower_case_percent;
  } published[] = {
      {"hg38.chr2.1-2333275", "5fa994f8fb8e02b2", "hg38 chr2:1-2333275 (M5 match)", FilePacking::Bgzf, 2333275, {{0, 10000}}, 35.6},
      {"hg38.chr21.24985581-26000306", "4162377add984f74", "hg38 chr21:24985581-26000306 (M5 match)", FilePacking::Gzip, 1014726, {}, 0},
      {"hg38.chr16.186964-397118", "b391dd0ef768bfbf", "hg38 chr16:186964-397118 (M5 match)", FilePacking::Gzip, 210155, {}, 41.2},
      {"GRCh37.chr22.20000001-21000000", "5f20f32cf4233e45", "GRCh37 chr22:20000001-21000000 (M5 match)", FilePacking::Gzip, 1000000, {{509431, 609431}}, 0},
      {"GRCh37.chr6.995529-2051541", "9aed39121b77d087", "GRCh37 chr6:995529-2051541 (M5 match)", FilePacking::Gzip, 1056013, {}, 0}};
  for (const auto& p : published) {
    const std::string path = folder + "/genome/" + p.file + ".fa.gz";
    EXPECT_EQ(content_digest(path).sha256.substr(0, 16), p.sha256) << p.file;
    EXPECT_EQ(ByteReader(path).packing(), p.packing) << p.file;
    int records = 0;
    for_each_sequence(path, [&](Sequence&& sequence) {
      ++records;
      EXPECT_EQ(sequence.length(), p.bases) << p.file;
      EXPECT_EQ(sequence.n_runs, p.n_runs) << p.file;
      EXPECT_EQ(sequence.ambiguous.size(), 0u) << p.file;
      EXPECT_NEAR(100.0 * static_cast<double>(total_length(sequence.soft_masked)) / static_cast<double>(p.bases), p.lower_case_percent, 0.05) << p.file;
      EXPECT_EQ(sequence_label(sequence), p.label);
    });
    EXPECT_EQ(records, 1) << p.file;
  }
}

TEST(RealData, BooksHaveTheirPublishedFigures) {
  REAL_DATA_OR_SKIP(folder);
  const struct {
    const char* file;
    int64_t bytes;
    const char* sha256;
  } published[] = {{"war_and_peace", 3274088, "1ce58d5e322b309f"},   {"moby_dick", 1234124, "19f498863d80382e"},
                   {"tinyshakespeare", 1115394, "86c4e6aa9db7c042"}, {"emma", 883028, "7c67b5985c6d0de1"},
                   {"mansfieldpark", 883280, "98bc90519cdf4ef6"},    {"northangerabbey", 433411, "51f91bbe0517db8e"},
                   {"persuasion", 466854, "8061549557aebd2f"},       {"prideprejudice", 684768, "dfc684d4f857fa93"},
                   {"sensesensibility", 673688, "105e1651fe93bed7"}, {"kjv_bible", 4404412, "cd45f0c9cedab8e4"}};
  for (const auto& p : published) {
    const std::string path = folder + "/books/" + p.file + ".txt.gz";
    const ContentDigest digest = content_digest(path);
    EXPECT_EQ(digest.bytes, p.bytes) << p.file;
    EXPECT_EQ(digest.sha256.substr(0, 16), p.sha256) << p.file;
    const Text text = read_text(path);
    EXPECT_EQ(static_cast<int64_t>(text.bytes.size()), p.bytes) << p.file;
    EXPECT_EQ(text.invalid_utf8, -1) << p.file;
  }
}

/// Mean nats per base of `test` under order-k counts of `train`, P = (count + a p0) / (total + a) with a = 1; contexts with an N are left out.
double markov_nats(const Corpus& train, const Corpus& test, int order) {
  constexpr int kBases = 4;
  const size_t contexts = size_t{1} << (2 * order);
  const auto each = [&](const Corpus& corpus, auto use) {
    const auto tokens = corpus.tokens(0, corpus.size());
    size_t context = 0;
    int known = 0;
    for (int32_t token : tokens) {
      if (token >= kBases) known = 0;
      else if (known++ >= order) use(context, token);
      context = (context * kBases + static_cast<size_t>(token % kBases)) % contexts;
    }
  };
  std::vector<double> counts(contexts * kBases), totals(contexts);
  double p0[kBases] = {}, n = 0, nats = 0, predicted = 0;
  each(train, [&](size_t context, int32_t base) { counts[context * kBases + static_cast<size_t>(base)] += 1, totals[context] += 1, p0[base] += 1, n += 1; });
  each(test, [&](size_t context, int32_t base) {
    const double count = counts[context * kBases + static_cast<size_t>(base)];
    nats -= std::log(order == 0 ? p0[base] / n : (count + p0[base] / n) / (totals[context] + 1));
    predicted += 1;
  });
  return nats / predicted;
}

// The yardsticks of the loss curves come out of the tokens: a wrong base, a wrong fold of the case or a trained-on N would move them.
TEST(RealData, GenomeTokensReproduceThePublishedMarkovLosses) {
  REAL_DATA_OR_SKIP(folder);
  const Corpus chr2 = Corpus::open({.name = "hg38.chr2", .folders = {folder}});
  const Corpus chr21 = Corpus::open({.name = "hg38.chr21", .folders = {folder}});
  const Corpus chr22 = Corpus::open({.name = "GRCh37.chr22", .folders = {folder}});
  EXPECT_EQ(chr2.label(), "hg38.chr2: hg38 chr2:1-2333275 (M5 match), 2333275 bases, 10000 masked, 831507 lower case folded");
  EXPECT_EQ(chr21.label(), "hg38.chr21: hg38 chr21:24985581-26000306 (M5 match), 1014726 bases");
  EXPECT_NEAR(markov_nats(chr2, chr21, 0), 1.3673, 6e-5);
  EXPECT_NEAR(markov_nats(chr2, chr21, 4), 1.3282, 6e-5);
  EXPECT_NEAR(markov_nats(chr2, chr22, 4), 1.3339, 6e-5);
  EXPECT_EQ(chr22.clean_stretches(), (std::vector<Interval>{{0, 509431}, {609431, 1000000}}));
  const PackedSequence packed = pack_window(chr2, 0, 20'000);
  EXPECT_EQ(packed.valid_labels, 10'001);  // the last N predicts the first base
  EXPECT_TRUE(std::all_of(packed.labels.begin(), packed.labels.begin() + 9'999, [](int32_t label) { return label == kIgnoredLabel; }));
}

TEST(RealData, CollectionsJoinTheRightBooks) {
  REAL_DATA_OR_SKIP(folder);
  const Corpus train = Corpus::open({.name = "austen/train", .folders = {folder}});
  EXPECT_EQ(train.size(), 3340261);
  EXPECT_EQ(train.documents().size(), 5u);
  EXPECT_EQ(Corpus::open({.name = "austen", .folders = {folder}}).size(), 4025029);
  EXPECT_EQ(Corpus::open({.name = "austen/prideprejudice", .folders = {folder}}).size(), 684768);
}

// The whole chromosome, when it was fetched into the data folder of the checkout.
TEST(RealData, WholeChr20HasItsPublishedFigures) {
  const DataSpec spec{.name = "GRCh37.chr20", .folders = {MEGATOKEN_SOURCE_DIR "/data"}};
  if (!is_available(spec)) GTEST_SKIP() << "no whole chromosome: megatoken data fetch GRCh37.chr20";
  const Corpus corpus = Corpus::open(spec);
  EXPECT_EQ(corpus.label(), "GRCh37.chr20: GRCh37 chr20 (M5 match), 63025520 bases, 3520000 masked");
  EXPECT_EQ(corpus.masked().size(), 7u);
  int64_t longest = 0;
  for (const Interval& stretch : corpus.clean_stretches()) longest = std::max(longest, stretch.length());
  EXPECT_EQ(longest, 26259569);
}

}  // namespace
}  // namespace megatoken
