#include "datasets/sequence.hpp"

#include "datasets/digest.hpp"
#include "datasets/fasta.hpp"
#include "datasets/known_contigs.hpp"
#include "datasets/two_bit.hpp"

namespace megatoken {

void extend_runs(std::vector<Interval>& runs, int64_t position) {
  if (!runs.empty() && runs.back().end == position) ++runs.back().end;
  else runs.push_back({position, position + 1});
}

int64_t total_length(const std::vector<Interval>& runs) {
  int64_t total = 0;
  for (const Interval& run : runs) total += run.length();
  return total;
}

std::string sequence_m5(const Sequence& sequence) { return md5_hex(sequence.bases); }

std::string sequence_label(const Sequence& sequence) {
  const KnownContig* contig = find_contig(sequence_m5(sequence));
  return contig ? std::string(contig->assembly) + " " + contig->region + " (M5 match)" : "unknown contig";
}

void for_each_sequence(const std::string& path, const std::function<void(Sequence&&)>& use) {
  if (is_two_bit(path)) {
    TwoBitReader reader(path);
    for (int64_t i = 0; i < reader.count(); ++i) use(reader.read(i));
    return;
  }
  FastaReader reader(path);
  for (Sequence sequence; reader.next(sequence);) use(std::move(sequence));
}

}  // namespace megatoken
