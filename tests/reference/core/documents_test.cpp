// Packed documents: borders that cover the sequence, short and empty documents among them.
#include "reference/core/documents.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

TEST(DocumentBorders, CoverTheSequenceInOrder) {
  for (int64_t tokens : {0, 1, 2, 7, 100, 65536})
    for (int64_t documents : {1, 2, 3, 9, 200})
      for (uint64_t seed : {0, 1, 2}) {
        const auto borders = document_borders(tokens, documents, seed);
        ASSERT_EQ(static_cast<int64_t>(borders.size()), documents + 1);
        ASSERT_EQ(borders.front(), 0);
        ASSERT_EQ(borders.back(), tokens);
        ASSERT_TRUE(std::is_sorted(borders.begin(), borders.end()));
        const bool single = std::find(borders.begin(), borders.end(), 1) != borders.end();
        ASSERT_TRUE(single || documents == 1 || tokens < 2) << "no document of one token in front";
      }
}

TEST(DocumentBorders, AreUnevenAndDependOnTheSeed) {
  const auto a = document_borders(10000, 8, 1), b = document_borders(10000, 8, 2);
  EXPECT_NE(a, b);
  EXPECT_EQ(a, document_borders(10000, 8, 1));
  int64_t longest = 0;
  for (size_t i = 0; i + 1 < a.size(); ++i) longest = std::max(longest, a[i + 1] - a[i]);
  EXPECT_GT(longest, 2 * 10000 / 8);
}

TEST(DocumentBorders, LeaveEmptyDocumentsWhenThereAreTooFewTokens) {
  const auto borders = document_borders(5, 9, 3);
  EXPECT_TRUE(std::adjacent_find(borders.begin(), borders.end()) != borders.end());
}

TEST(FillDocuments, WritesTheDocumentOfEveryToken) {
  Tensor view(DType::I32, {3, 50});
  fill_documents(view, 6, 4);
  for (int64_t row = 0; row < 3; ++row) {
    const auto borders = document_borders(50, 6, 4 + static_cast<uint64_t>(row));
    for (int64_t i = 0; i < 50; ++i) {
      const auto document = static_cast<size_t>(value_at(view, row * 50 + i));
      ASSERT_LE(borders[document], i);
      ASSERT_GT(borders[document + 1], i);
    }
  }
}

TEST(FillDocuments, TakesOneSequenceOrNone) {
  Tensor one(DType::I32, {4}), none(DType::I32, {2, 0});
  fill_documents(one, 1, 0);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(value_at(one, i), 0);
  EXPECT_NO_THROW(fill_documents(none, 3, 0));
  EXPECT_NE(test::message_of([&] { fill_documents(one, 0, 0); }).find("docs=0"), std::string::npos);
}

}  // namespace
}  // namespace megatoken
