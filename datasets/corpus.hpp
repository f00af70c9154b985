// A corpus is one long token sequence with documents in it, for training and for the distribution `tokens` of the checks: a book, a genome,
// or made-up data. It always says which: no figure can call synthetic data real, and no contig is named that its bases do not prove.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/sequence.hpp"
#include "datasets/tokenizer.hpp"

namespace megatoken {

struct DataSpec {
  /// A name of the catalog (austen/emma, hg38.chr2, austen/train), the path of a text, FASTA or .2bit file, several of these joined by '+',
  /// or `synthetic` (uniform bytes) or `synthetic/dna` (uniform A C G T: a model's loss must stay at ln 4).
  std::string name = "synthetic";
  std::vector<std::string> folders;       // data folders, searched in order
  uint64_t seed = 0;                      // of synthetic data
  int64_t synthetic_tokens = 1LL << 30;   // made when asked for, so length costs nothing
  bool mask_repeats = false;              // also take no loss on soft-masked bases
};

class Corpus {
 public:
  /// Reads the files. Throws a usage Error when the name is unknown or absent, naming what to fetch, and what the readers throw.
  static Corpus open(const DataSpec& spec);

  int64_t size() const { return size_; }  // tokens
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  bool synthetic() const { return synthetic_; }
  /// For rows, figures and reports: "austen/emma: text, 883028 bytes", "hg38.chr2: hg38 chr2:1-2333275 (M5 match), 2333275 bases, 10000 masked,
  /// 830112 lower case folded", "synthetic: uniform bytes, seed 0".
  const std::string& label() const { return label_; }

  /// Tokens offset … offset + count − 1. Throws a usage Error beyond the end. Lower case is folded; IUPAC codes become N.
  std::vector<int32_t> tokens(int64_t offset, int64_t count) const;
  /// Sorted and back to back: one per file of text, one per sequence of a genome (empty ones left out).
  const std::vector<Interval>& documents() const { return documents_; }
  /// Sorted: N, IUPAC codes, and repeats when asked for. Never to be predicted.
  const std::vector<Interval>& masked() const { return masked_; }
  /// What is left of the documents when the masked parts are cut out: windows inside of these hold real bases only.
  std::vector<Interval> clean_stretches() const;

 private:
  Corpus() = default;
  void add_text(const std::string& path);
  void add_genome(const std::string& path, bool mask_repeats);
  void end_document();
  void describe(const DataSpec& spec);

  const Tokenizer* tokenizer_ = nullptr;
  bool synthetic_ = false;
  uint64_t seed_ = 0;
  int64_t size_ = 0, lower_case_ = 0;
  std::string label_, symbols_;
  std::vector<std::string> contigs_;
  std::vector<Interval> documents_, masked_;
};

/// Tokens of a corpus in one call; `label`, when given, receives what they are.
std::vector<int32_t> load_tokens(const DataSpec& spec, int64_t offset, int64_t count, std::string* label = nullptr);

/// Whether Corpus::open would find every file of spec.name.
bool is_available(const DataSpec& spec);

}  // namespace megatoken
