#include "datasets/tokenizer.hpp"

#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

TEST(Tokenizer, BytesSurviveExactly) {
  std::string all(256, '\0');
  for (size_t i = 0; i < 256; ++i) all[i] = static_cast<char>(255 - i);
  const auto tokens = byte_tokenizer().encode(all);
  EXPECT_EQ(tokens.front(), 255);
  EXPECT_EQ(tokens.back(), 0);
  EXPECT_EQ(byte_tokenizer().decode(tokens), all);
}

TEST(Tokenizer, NucleotidesSurviveExactlyAndNothingElsePasses) {
  const Tokenizer& t = nucleotide_tokenizer();
  EXPECT_EQ(t.encode("ACGTN"), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(t.decode(t.encode("GATTACANN")), "GATTACANN");
  expect_error(ErrorKind::Usage, {"0x61", "offset 2", "nucleotide"}, [&] { t.encode("ACaT"); });
  expect_error(ErrorKind::Usage, {"0x52", "offset 0"}, [&] { t.encode("R"); });
}

TEST(Tokenizer, SpecialsFollowTheSymbolsAndStandForNoText) {
  for (const Tokenizer* t : {&byte_tokenizer(), &nucleotide_tokenizer()}) {
    EXPECT_EQ(t->begin_token(), t->symbols());
    EXPECT_EQ(t->end_token(), t->symbols() + 1);
    EXPECT_EQ(t->pad_token(), t->symbols() + 2);
    EXPECT_EQ(t->vocabulary(), t->symbols() + 3);
    for (int32_t token : {t->begin_token(), t->pad_token(), t->vocabulary(), -1})
      expect_error(ErrorKind::Usage, {"position 1"}, [&] { t->decode(std::vector<int32_t>{0, token}); });
  }
  EXPECT_EQ(byte_tokenizer().vocabulary(), 259);
  EXPECT_EQ(nucleotide_tokenizer().vocabulary(), 8);
}

}  // namespace
}  // namespace megatoken
