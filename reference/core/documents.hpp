// Packed documents: several texts in one sequence; nothing crosses a border.
#pragma once
#include <cstdint>
#include <vector>

#include "reference/core/tensor.hpp"

namespace megatoken {

/// Document of padding rows: sees nothing, is seen by nothing.
inline constexpr int32_t kPaddingDocument = -1;

/// Borders 0 = x_0 ≤ x_1 ≤ … ≤ x_documents = tokens of documents of uneven lengths (one token up to most of the sequence,
/// empty ones when documents > tokens), the same for the same arguments.
std::vector<int64_t> document_borders(int64_t tokens, int64_t documents, uint64_t seed);

/// Writes the document of every token into an int32 view [b, t] (or [t]); every batch row gets its own borders.
void fill_documents(const TensorView& view, int64_t documents, uint64_t seed);

}  // namespace megatoken
