#include "datasets/tokenizer.hpp"

#include "reference/core/error.hpp"

namespace megatoken {

Tokenizer::Tokenizer(std::string name, std::string_view alphabet) : name_(std::move(name)), alphabet_(alphabet) {
  token_of_.fill(-1);
  for (size_t i = 0; i < alphabet_.size(); ++i) token_of_[static_cast<unsigned char>(alphabet_[i])] = static_cast<int16_t>(i);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto symbol = static_cast<unsigned char>(text[i]);
    tokens[i] = token_of_[symbol];
    MEGATOKEN_CHECK(tokens[i] >= 0, "byte {:#04x} at offset {} is not in the alphabet of the {} tokenizer", symbol, i, name_);
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text(tokens.size(), '\0');
  for (size_t i = 0; i < tokens.size(); ++i) {
    MEGATOKEN_CHECK(tokens[i] >= 0 && tokens[i] < symbols(),
                    "token {} at position {} stands for no text in the {} tokenizer", tokens[i], i, name_);
    text[i] = alphabet_[static_cast<size_t>(tokens[i])];
  }
  return text;
}

const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer = [] {
    std::string bytes(256, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
    return Tokenizer("byte", bytes);
  }();
  return tokenizer;
}

const Tokenizer& nucleotide_tokenizer() {
  static const Tokenizer tokenizer("nucleotide", "ACGTN");
  return tokenizer;
}

}  // namespace megatoken
