// Packing: windows of a corpus as training sequences. Documents follow each other without gaps; ids say where one ends, so that attention and
// recurrences stop there, and labels leave out what must not be learned: the first token of the next document, N, and repeats when masked.
#pragma once
#include <cstdint>
#include <vector>

#include "datasets/corpus.hpp"

namespace megatoken {

/// A label without loss, in the convention of Hugging Face.
constexpr int32_t kIgnoredLabel = -100;

struct PackedSequence {
  std::vector<int32_t> tokens;     // t
  std::vector<int32_t> labels;     // t: the token that follows in the corpus, or kIgnoredLabel; the last one looks one token behind the window,
                                   // so windows back to back lose no label
  std::vector<int32_t> documents;  // t: 0, 1, … counted from the start of the window
  std::vector<int32_t> positions;  // t: distance from the start of the document inside the window
  int64_t valid_labels = 0;
};

/// The window of `length` tokens at `offset`. Throws a usage Error beyond the end of the corpus.
PackedSequence pack_window(const Corpus& corpus, int64_t offset, int64_t length);

}  // namespace megatoken
