#include "harness/run/token_source.hpp"

#include <algorithm>
#include <memory>

#include "datasets/corpus.hpp"
#include "harness/cli/data_folders.hpp"
#include "reference/core/random.hpp"

namespace megatoken {
namespace {

/// Looked for when no data set is named: small ones that ./run demo fetches first, then larger ones.
const char* const kBooks[] = {"austen/prideprejudice", "austen/emma", "moby_dick", "kjv_bible"};
const char* const kGenomes[] = {"GRCh37.chr22.20000001-21000000", "hg38.chr16.186964-397118", "hg38.chr2.1-2333275"};

std::shared_ptr<const Corpus> open(const DataSpec& spec) { return std::make_shared<const Corpus>(Corpus::open(spec)); }

/// Masked stretches (runs of N) are skipped: the offset is drawn inside the longest clean one that is long enough.
std::vector<int32_t> stretch(const Corpus& corpus, int64_t count, uint64_t seed) {
  std::vector<Interval> clean = corpus.clean_stretches();
  if (clean.empty()) clean.push_back({0, corpus.size()});
  const auto longest = *std::max_element(clean.begin(), clean.end(), [](const Interval& a, const Interval& b) { return a.end - a.begin < b.end - b.begin; });
  const int64_t length = longest.end - longest.begin;
  const int64_t taken = std::min(count, length);
  const int64_t offset = longest.begin + RandomStream(seed, "token offset").integer(0, length - taken + 1);
  std::vector<int32_t> tokens = corpus.tokens(offset, taken);
  for (int64_t i = taken; i < count; ++i) tokens.push_back(tokens[static_cast<size_t>(i - taken)]);  // a text shorter than the case repeats
  return tokens;
}

}  // namespace

TokenData open_tokens(const std::string& name, const std::string& data_folder) {
  DataSpec spec;
  spec.folders = data_folders(data_folder);
  std::vector<std::shared_ptr<const Corpus>> corpora;
  const auto add_first = [&](const auto& names) {
    for (const char* candidate : names) {
      spec.name = candidate;
      if (!is_available(spec)) continue;
      corpora.push_back(open(spec));
      return;
    }
  };
  if (!name.empty()) {
    spec.name = name;
    corpora.push_back(open(spec));
  } else {
    add_first(kBooks);
    add_first(kGenomes);
  }
  if (corpora.empty()) corpora.push_back(open(DataSpec{}));
  const auto pick = [corpora](uint64_t seed) { return corpora[seed % corpora.size()]; };
  return {[pick](int64_t count, uint64_t seed) { return stretch(*pick(seed), count, seed); }, [pick](uint64_t seed) { return pick(seed)->label(); }};
}

}  // namespace megatoken
