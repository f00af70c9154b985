#include "datasets/corpus.hpp"

#include <algorithm>
#include <filesystem>

#include "datasets/catalog.hpp"
#include "datasets/text.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"
#include "reference/core/random.hpp"

namespace megatoken {
namespace {

struct SourceFile {
  std::string path;
  int64_t promised_bytes;  // 0: not known
};

/// A path given by the user comes before names of the catalog.
std::vector<SourceFile> source_files(const std::string& name, const Catalog& catalog) {
  if (std::filesystem::is_regular_file(name)) return {{name, 0}};
  std::vector<SourceFile> files;
  for (const CatalogEntry* entry : catalog.find(name)) files.push_back({entry->file(), entry->promised ? entry->promised->bytes : 0});
  return files;
}

bool is_synthetic(const std::string& name) { return name == "synthetic" || name.starts_with("synthetic/"); }

/// Merges sorted runs that touch or overlap.
std::vector<Interval> merged(std::vector<Interval> runs) {
  std::sort(runs.begin(), runs.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& run : runs) {
    if (!result.empty() && run.begin <= result.back().end) result.back().end = std::max(result.back().end, run.end);
    else result.push_back(run);
  }
  return result;
}

}  // namespace

void Corpus::end_document() {
  const int64_t begin = documents_.empty() ? 0 : documents_.back().end;
  size_ = static_cast<int64_t>(symbols_.size());
  if (size_ > begin) documents_.push_back({begin, size_});
}

void Corpus::add_text(const std::string& path) {
  symbols_ += read_text(path).bytes;
  end_document();
}

void Corpus::add_genome(const std::string& path, bool mask_repeats) {
  for_each_sequence(path, [&](Sequence&& sequence) {
    if (sequence.length() == 0) return;
    contigs_.push_back(sequence_label(sequence));
    for (const Interval& run : sequence.ambiguous) std::fill(sequence.bases.begin() + run.begin, sequence.bases.begin() + run.end, 'N');
    std::vector<Interval> masked = sequence.n_runs;
    masked.insert(masked.end(), sequence.ambiguous.begin(), sequence.ambiguous.end());
    if (mask_repeats) masked.insert(masked.end(), sequence.soft_masked.begin(), sequence.soft_masked.end());
    for (const Interval& run : merged(std::move(masked))) masked_.push_back({size_ + run.begin, size_ + run.end});
    lower_case_ += total_length(sequence.soft_masked);
    symbols_ += sequence.bases;
    end_document();
  });
}

Corpus Corpus::open(const DataSpec& spec) {
  Corpus corpus;
  if (is_synthetic(spec.name)) {
    const bool dna = spec.name == "synthetic/dna";
    MEGATOKEN_CHECK(dna || spec.name == "synthetic" || spec.name == "synthetic/bytes",
                    "unknown data '{}': synthetic, synthetic/bytes or synthetic/dna", spec.name);
    MEGATOKEN_CHECK(spec.synthetic_tokens > 0, "synthetic data of {} tokens: at least 1", spec.synthetic_tokens);
    corpus.synthetic_ = true;
    corpus.tokenizer_ = dna ? &nucleotide_tokenizer() : &byte_tokenizer();
    corpus.seed_ = spec.seed;
    corpus.size_ = spec.synthetic_tokens;
    corpus.documents_.assign(1, {0, corpus.size_});
    corpus.label_ = format("synthetic: uniform {}, seed {}", dna ? "A C G T" : "bytes", spec.seed);
    return corpus;
  }

  const Catalog catalog(builtin_manifest(), spec.folders);
  for (const std::string& name : split(spec.name, '+'))
    for (const SourceFile& file : source_files(name, catalog)) {
      const bool genome = data_kind(file.path) == DataKind::Genome;
      const Tokenizer* tokenizer = genome ? &nucleotide_tokenizer() : &byte_tokenizer();
      MEGATOKEN_CHECK(!corpus.tokenizer_ || corpus.tokenizer_ == tokenizer, "data '{}' mixes text and DNA", spec.name);
      corpus.tokenizer_ = tokenizer;
      const int64_t before = corpus.size_;
      if (genome) corpus.add_genome(file.path, spec.mask_repeats);
      else corpus.add_text(file.path);
      MEGATOKEN_CHECK(genome || file.promised_bytes == 0 || corpus.size_ - before == file.promised_bytes,
                      "{} has {} bytes instead of {}: it is not what its name says", file.path, corpus.size_ - before, file.promised_bytes);
    }
  corpus.describe(spec);
  return corpus;
}

void Corpus::describe(const DataSpec& spec) {
  if (contigs_.empty()) {
    label_ = format("{}: text, {} bytes", spec.name, size_);
    if (documents_.size() > 1) label_ += format(" in {} documents", documents_.size());
    return;
  }
  const auto matches = std::count_if(contigs_.begin(), contigs_.end(), [](const std::string& label) { return label.ends_with("(M5 match)"); });
  const std::string what = contigs_.size() == 1 ? contigs_[0] : format("{} sequences, {} with M5 match", contigs_.size(), matches);
  label_ = format("{}: {}, {} bases", spec.name, what, size_);
  if (!masked_.empty()) label_ += format(", {} masked", total_length(masked_));
  if (lower_case_ > 0) label_ += format(", {} lower case folded", lower_case_);
}

std::vector<int32_t> Corpus::tokens(int64_t offset, int64_t count) const {
  MEGATOKEN_CHECK(offset >= 0 && count >= 0 && offset <= size_ - count, "{} tokens from {} of '{}', which has {}", count, offset, label_, size_);
  if (!synthetic_) return tokenizer_->encode(std::string_view(symbols_).substr(static_cast<size_t>(offset), static_cast<size_t>(count)));
  const bool dna = tokenizer_ == &nucleotide_tokenizer();
  const RandomStream stream(seed_, dna ? "synthetic/dna" : "synthetic/bytes");
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = static_cast<int32_t>(stream.integer(offset + i, dna ? 4 : 256));
  return tokens;
}

std::vector<Interval> Corpus::clean_stretches() const {
  std::vector<Interval> stretches;
  auto mask = masked_.begin();
  for (const Interval& document : documents_) {
    int64_t at = document.begin;
    for (; mask != masked_.end() && mask->begin < document.end; ++mask) {
      if (mask->begin > at) stretches.push_back({at, mask->begin});
      at = mask->end;
    }
    if (at < document.end) stretches.push_back({at, document.end});
  }
  return stretches;
}

std::vector<int32_t> load_tokens(const DataSpec& spec, int64_t offset, int64_t count, std::string* label) {
  const Corpus corpus = Corpus::open(spec);
  if (label) *label = corpus.label();
  return corpus.tokens(offset, count);
}

bool is_available(const DataSpec& spec) {
  if (is_synthetic(spec.name)) return true;
  const Catalog catalog(builtin_manifest(), spec.folders);
  try {
    for (const std::string& name : split(spec.name, '+')) source_files(name, catalog);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace megatoken
