#include "reference/core/documents.hpp"

#include <algorithm>

#include "reference/core/random.hpp"

namespace megatoken {

std::vector<int64_t> document_borders(int64_t tokens, int64_t documents, uint64_t seed) {
  const RandomStream stream(seed, "documents");
  std::vector<int64_t> borders{0, tokens};
  for (int64_t i = 1; i < documents; ++i)  // squared: many short documents in front, a long one behind
    borders.push_back(static_cast<int64_t>(stream.uniform(i) * stream.uniform(i) * static_cast<double>(tokens + 1)));
  if (documents > 1 && tokens > 1) borders.back() = 1;  // always one document of a single token
  std::sort(borders.begin(), borders.end());
  return borders;
}

void fill_documents(const TensorView& view, int64_t documents, uint64_t seed) {
  MEGATOKEN_CHECK(documents >= 1, "docs={} is not valid; there is at least one document", documents);
  const int64_t t = view.shape[view.shape.rank() - 1];
  const int64_t rows = t > 0 ? view.size() / t : 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto borders = document_borders(t, documents, seed + static_cast<uint64_t>(row));
    for (size_t d = 0; d + 1 < borders.size(); ++d)
      for (int64_t i = borders[d]; i < borders[d + 1]; ++i) view.as<int32_t>()[row * t + i] = static_cast<int32_t>(d);
  }
}

}  // namespace megatoken
