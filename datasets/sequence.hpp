// One DNA sequence with everything about it that training must not lose: where it is unknown (N), ambiguous (IUPAC codes) and soft-masked.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace megatoken {

/// Positions begin … end − 1, counted from 0.
struct Interval {
  int64_t begin = 0, end = 0;
  int64_t length() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};

/// Appends one position to sorted runs, joining it to the last run when it touches it.
void extend_runs(std::vector<Interval>& runs, int64_t position);
int64_t total_length(const std::vector<Interval>& runs);

struct Sequence {
  std::string header;                 // the line after '>', whole
  std::string name;                   // the header up to its first blank
  std::string bases;                  // upper case: A C G T N and IUPAC codes, no line ends
  std::vector<Interval> n_runs;       // unknown bases
  std::vector<Interval> ambiguous;    // R Y S W K M B D H V: known only in part
  std::vector<Interval> soft_masked;  // lower case in the file: repeats
  int64_t length() const { return static_cast<int64_t>(bases.size()); }
};

/// MD5 of the upper-case bases without line ends: the M5 of sequence dictionaries.
std::string sequence_m5(const Sequence& sequence);
/// "hg38 chr22 (M5 match)", or "unknown contig": decided by the bases alone, whatever file and header say.
std::string sequence_label(const Sequence& sequence);

/// Calls `use` for every sequence of a FASTA (plain, gzip, BGZF) or .2bit file in file order; the format is recognised by its first bytes.
/// One sequence at a time is in memory.
void for_each_sequence(const std::string& path, const std::function<void(Sequence&&)>& use);

}  // namespace megatoken
