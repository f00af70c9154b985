#include "datasets/inspect.hpp"

#include "datasets/sequence.hpp"
#include "datasets/text.hpp"
#include "reference/core/error.hpp"

namespace megatoken {

DataFacts inspect_data(const std::string& path, DataKind kind) {
  DataFacts facts;
  if (kind == DataKind::Text) {
    const Text text = read_text(path);
    facts.symbols = static_cast<int64_t>(text.bytes.size());
    facts.label = text.invalid_utf8 < 0 ? "text, UTF-8" : format("text, not UTF-8 at byte {}", text.invalid_utf8);
    facts.content = content_digest(path);
    return facts;
  }
  int64_t sequences = 0, matches = 0;
  for_each_sequence(path, [&](Sequence&& sequence) {
    facts.symbols += sequence.length();
    facts.unknown += total_length(sequence.n_runs) + total_length(sequence.ambiguous);
    facts.lower_case += total_length(sequence.soft_masked);
    facts.label = sequence_label(sequence);
    ++sequences;
    matches += facts.label.ends_with("(M5 match)");
  });
  if (sequences > 1) facts.label = format("{} sequences, {} with M5 match", sequences, matches);
  facts.content = content_digest(path);
  return facts;
}

std::string difference(const DataFacts& facts, const DataFile& promised) {
  if (promised.bytes > 0 && facts.content.bytes != promised.bytes) return format("{} bytes instead of {}", facts.content.bytes, promised.bytes);
  if (!promised.sha256.empty() && facts.content.sha256 != promised.sha256)
    return format("sha256 {} instead of {}", facts.content.sha256, promised.sha256);
  if (!promised.contig.empty() && facts.label != promised.contig + " (M5 match)") return format("{} instead of {}", facts.label, promised.contig);
  return "";
}

}  // namespace megatoken
