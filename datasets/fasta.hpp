// FASTA: '>' header line, then bases on lines of any width. Reads what genome files hold: headers with blanks and pipes, upper and lower
// case, N runs, IUPAC codes, blank lines, CR LF, no line end at the end, records without bases. Everything else is refused with its line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/byte_reader.hpp"
#include "datasets/sequence.hpp"

namespace megatoken {

class FastaReader {
 public:
  explicit FastaReader(const std::string& path);  // plain, gzip or BGZF

  /// Reads the next record into `sequence`; false after the last one. Throws a usage Error that names file and line for a file without
  /// records, a file whose records hold no base at all, protein, RNA, alignment gaps, and whatever is no nucleotide.
  bool next(Sequence& sequence);

 private:
  int next_char();  // −1 at the end of the file
  void skip_to_first_header();
  void read_header(Sequence& sequence);
  void read_bases(Sequence& sequence);
  [[noreturn]] void refuse(const Sequence& sequence, char letter) const;
  void refuse_if_protein(const Sequence& sequence) const;

  ByteReader reader_;
  std::vector<char> block_;
  size_t position_ = 0, held_ = 0;
  int64_t line_ = 1, records_ = 0, bases_ = 0;
  bool more_ = true;  // a header was met whose record has not been handed out
};

}  // namespace megatoken
