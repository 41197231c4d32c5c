#include "semi_primary/hook_server/proof.h"

#include <gtest/gtest.h>

#include "common/hex.h"

namespace psp::sp {
namespace {

TEST(Sha256Test, TheStandardsExample) {  // FIPS 180-4's example of one block
  EXPECT_EQ(EncodeHex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ProofTest, DependsOnTokenAndMessage) {
  EXPECT_EQ(Proof("secret", "a"), Proof("secret", "a"));
  EXPECT_NE(Proof("secret", "a"), Proof("secret", "b"));
  EXPECT_NE(Proof("secret", "a"), Proof("guess", "a"));
}

TEST(ProofTest, TheAnswersIsTheOtherHalf) {
  const Proofs proofs = ProofsOf("secret", "a");
  EXPECT_EQ(proofs.request, Proof("secret", "a"));
  EXPECT_EQ(proofs.request + proofs.answer, EncodeHex(Sha256("secreta")));
}

TEST(EqualInConstantTimeTest, LengthAndBytes) {
  EXPECT_FALSE(EqualInConstantTime("", "secret"));
  EXPECT_FALSE(EqualInConstantTime("secret", ""));
  EXPECT_FALSE(EqualInConstantTime("secret", "Secret"));
  EXPECT_TRUE(EqualInConstantTime("secret", "secret"));
  EXPECT_TRUE(EqualInConstantTime("", ""));
}

}  // namespace
}  // namespace psp::sp
