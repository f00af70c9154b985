// Known answers: RFC 1321 appendix A.5 for MD5, the FIPS 180-4 examples for SHA-256.
#include "datasets/digest.hpp"

#include <gtest/gtest.h>

namespace megatoken {
namespace {

TEST(Md5, MatchesTheTestSuiteOfRfc1321) {
  EXPECT_EQ(md5_hex(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex("a"), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(md5_hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5_hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5_hex("abcdefghijklmnopqrstuvwxyz"), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(md5_hex("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"), "d174ab98d277d9f5a5611c2c9f419d9f");
  EXPECT_EQ(md5_hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890"), "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Sha256, MatchesTheExamplesOfFips180) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length around the block borders (the padding needs 9 bytes) and every way to cut the message in two.
TEST(Digest, DoesNotDependOnHowTheMessageIsCut) {
  for (size_t length = 0; length <= 200; ++length) {
    std::string message(length, '\0');
    for (size_t i = 0; i < length; ++i) message[i] = static_cast<char>(i * 37 + length);
    const std::string md5 = md5_hex(message), sha256 = sha256_hex(message);
    for (size_t cut = 0; cut <= length; cut += 7) {
      Md5 m;
      Sha256 s;
      for (std::string_view part : {std::string_view(message).substr(0, cut), std::string_view(message).substr(cut)}) m.update(part), s.update(part);
      ASSERT_EQ(m.hex(), md5) << length << " cut at " << cut;
      ASSERT_EQ(s.hex(), sha256) << length << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace megatoken
