#include "datasets/packing.hpp"

#include <algorithm>

namespace megatoken {
namespace {

/// The first interval that ends behind `position`.
std::vector<Interval>::const_iterator from_position(const std::vector<Interval>& sorted, int64_t position) {
  return std::upper_bound(sorted.begin(), sorted.end(), position, [](int64_t at, const Interval& interval) { return at < interval.end; });
}

}  // namespace

PackedSequence pack_window(const Corpus& corpus, int64_t offset, int64_t length) {
  PackedSequence packed;
  packed.tokens = corpus.tokens(offset, length);
  const int64_t end = offset + length;
  packed.labels.assign(packed.tokens.begin() + (length > 0), packed.tokens.end());
  if (length > 0) packed.labels.push_back(end < corpus.size() ? corpus.tokens(end, 1)[0] : kIgnoredLabel);

  int32_t id = 0;
  for (auto document = from_position(corpus.documents(), offset); document != corpus.documents().end() && document->begin < end; ++document, ++id) {
    const int64_t first = std::max(document->begin, offset), last = std::min(document->end, end);
    for (int64_t at = first; at < last; ++at) {
      packed.documents.push_back(id);
      packed.positions.push_back(static_cast<int32_t>(at - first));
    }
    if (document->end <= end) packed.labels[static_cast<size_t>(document->end - 1 - offset)] = kIgnoredLabel;
  }
  // The label of position i is token i + 1: a masked token takes the label before it away.
  for (auto run = from_position(corpus.masked(), offset + 1); run != corpus.masked().end() && run->begin <= end; ++run)
    for (int64_t at = std::max(run->begin, offset + 1); at < std::min(run->end, end + 1); ++at)
      packed.labels[static_cast<size_t>(at - 1 - offset)] = kIgnoredLabel;

  packed.valid_labels = static_cast<int64_t>(packed.labels.size()) - std::count(packed.labels.begin(), packed.labels.end(), kIgnoredLabel);
  return packed;
}

}  // namespace megatoken
