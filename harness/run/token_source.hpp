// Where the ids of distribution `tokens` come from: the user's file, a book or DNA of the data folder, or, labelled so, a
// synthetic sequence.
#pragma once
#include <string>

#include "reference/core/problem.hpp"

namespace megatoken {

struct TokenData {
  TokenSource source;
  std::function<std::string(uint64_t seed)> label;  // "austen/emma: text, 883028 bytes", "synthetic: …"
};

/// `name`: a data set or a file, see `megatoken data list`; bad ones are usage errors at once. "": the books and DNA that the data
/// folders hold, taken in turn by seed (even seeds a book, odd seeds DNA, when both are there).
TokenData open_tokens(const std::string& name, const std::string& data_folder);

}  // namespace megatoken
