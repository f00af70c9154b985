#include "datasets/fasta.hpp"

#include <array>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

enum Letter : uint8_t { Other, Base, Unknown, Ambiguous, Blank };

constexpr std::array<uint8_t, 256> letters() {
  std::array<uint8_t, 256> table{};
  const auto mark = [&](std::string_view upper, Letter kind) {
    for (char c : upper) table[static_cast<size_t>(c)] = table[static_cast<size_t>(c) | 32] = kind;
  };
  mark("ACGT", Base);
  mark("N", Unknown);
  mark("RYSWKMBDHV", Ambiguous);
  for (char c : {' ', '\t', '\r', '\n'}) table[static_cast<size_t>(c)] = Blank;
  return table;
}

constexpr std::array<uint8_t, 256> kLetters = letters();

bool is_protein_only(char letter) {
  return letter == '*' || std::string_view("EFILPQXJZO").find(static_cast<char>(letter & ~32)) != std::string_view::npos;
}

}  // namespace

FastaReader::FastaReader(const std::string& path) : reader_(path), block_(1 << 16) {}

int FastaReader::next_char() {
  if (position_ == held_) {
    held_ = reader_.read(block_.data(), block_.size());
    position_ = 0;
    if (held_ == 0) return -1;
  }
  return static_cast<unsigned char>(block_[position_++]);
}

void FastaReader::skip_to_first_header() {
  int c = next_char();
  for (; c >= 0 && kLetters[static_cast<size_t>(c)] == Blank; c = next_char()) line_ += c == '\n';
  if (c < 0) throw Error(ErrorKind::Usage, format("{} holds no FASTA record", reader_.path()), "give a DNA FASTA or .2bit file");
  if (c != '>')
    throw Error(ErrorKind::Usage, format("{} is not a FASTA file: line {} does not start with '>'", reader_.path(), line_),
                "give a DNA FASTA or .2bit file; a book is read as text");
}

void FastaReader::read_header(Sequence& sequence) {
  sequence = Sequence{};
  int c = next_char();
  for (; c >= 0 && c != '\n' && c != '\r'; c = next_char()) sequence.header += static_cast<char>(c);
  line_ += c == '\n';
  sequence.name = sequence.header.substr(0, sequence.header.find_first_of(" \t"));
}

void FastaReader::read_bases(Sequence& sequence) {
  std::string& bases = sequence.bases;
  bool line_start = true;
  for (int c = next_char(); c >= 0; c = next_char()) {
    if (line_start && c == '>') return;
    const uint8_t kind = kLetters[static_cast<size_t>(c)];
    line_start = kind == Blank && (c == '\n' || c == '\r' || line_start);
    if (kind == Blank) {
      line_ += c == '\n';
      continue;
    }
    if (kind == Other) refuse(sequence, static_cast<char>(c));
    const auto at = static_cast<int64_t>(bases.size());
    bases += static_cast<char>(c & ~32);
    if (c & 32) extend_runs(sequence.soft_masked, at);
    if (kind == Unknown) extend_runs(sequence.n_runs, at);
    if (kind == Ambiguous) extend_runs(sequence.ambiguous, at);
  }
  more_ = false;
}

void FastaReader::refuse(const Sequence& sequence, char letter) const {
  const bool printable = letter > 32 && letter < 127;
  const std::string shown = printable ? format("'{}'", letter) : format("byte {:#04x}", static_cast<unsigned char>(letter));
  const std::string where = format("{} line {}, record '{}': {}", reader_.path(), line_, sequence.name, shown);
  if ((letter & ~32) == 'U') throw Error(ErrorKind::Usage, where + " is RNA", "write T for U first: the bases here are A C G T N");
  if (letter == '-' || letter == '.') throw Error(ErrorKind::Usage, where + " is an alignment gap", "give sequences without gaps");
  if (is_protein_only(letter)) throw Error(ErrorKind::Usage, where + " is an amino acid: this is a protein FASTA", "give a DNA FASTA");
  throw Error(ErrorKind::Usage, where + " is no nucleotide", "give a DNA FASTA (A C G T N and IUPAC codes)");
}

/// A short peptide can be spelt in IUPAC codes alone; DNA is never mostly ambiguous.
void FastaReader::refuse_if_protein(const Sequence& sequence) const {
  const int64_t ambiguous = total_length(sequence.ambiguous);
  if (sequence.length() >= 20 && 2 * ambiguous > sequence.length())
    throw Error(ErrorKind::Usage,
                format("{} record '{}': {} of {} letters are IUPAC codes: this is a protein FASTA", reader_.path(), sequence.name, ambiguous,
                       sequence.length()),
                "give a DNA FASTA");
}

bool FastaReader::next(Sequence& sequence) {
  if (records_ == 0) {
    skip_to_first_header();
    more_ = true;
  }
  if (!more_) {
    if (bases_ == 0)
      throw Error(ErrorKind::Usage, format("{}: its {} records hold no bases", reader_.path(), records_), "give a DNA FASTA or .2bit file");
    return false;
  }
  ++records_;
  read_header(sequence);
  read_bases(sequence);
  refuse_if_protein(sequence);
  bases_ += sequence.length();
  return true;
}

}  // namespace megatoken
