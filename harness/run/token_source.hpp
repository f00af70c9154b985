// Where the ids of distribution `tokens` come from: the user's file, a book or DNA of the data folder, or, labelled so, a
// synthetic sequence.
#pragma once
#include <string>

#include "reference/core/problem.hpp"

namespace megatoken {

/// `text`, `fasta`: files named by the user, or "". Bad files are usage errors at once.
TokenSource token_source(const std::string& text, const std::string& fasta);
/// What token_source gives: "moby_dick (bytes)", "hg38.chr21 (nucleotides)", "synthetic".
std::string token_label(const std::string& text, const std::string& fasta);

}  // namespace megatoken
