// Tokenizers that need no files: one symbol, one token. `byte` has all 256 bytes, `nucleotide` has A C G T N; three specials follow.
// encode and decode are exact inverses on their alphabet, and everything outside of it is an error, never a guess.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megatoken {

class Tokenizer {
 public:
  Tokenizer(std::string name, std::string_view alphabet);

  const std::string& name() const { return name_; }
  /// Symbols are tokens 0 … symbols() − 1 in the order of the alphabet.
  int32_t symbols() const { return static_cast<int32_t>(alphabet_.size()); }
  int32_t begin_token() const { return symbols(); }    // before a document
  int32_t end_token() const { return symbols() + 1; }  // after a document
  int32_t pad_token() const { return symbols() + 2; }  // fills a sequence; never a label
  int32_t vocabulary() const { return symbols() + 3; }

  /// Throws a usage Error naming the symbol and its offset when it is not in the alphabet.
  std::vector<int32_t> encode(std::string_view text) const;
  /// Throws a usage Error for specials and numbers outside of the vocabulary: they stand for no text.
  std::string decode(std::span<const int32_t> tokens) const;

 private:
  std::string name_, alphabet_;
  std::array<int16_t, 256> token_of_;  // −1: not in the alphabet
};

const Tokenizer& byte_tokenizer();        // vocabulary 259
const Tokenizer& nucleotide_tokenizer();  // vocabulary 8

}  // namespace megatoken
