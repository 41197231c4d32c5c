#include "mrv/backoff.h"

#include <gtest/gtest.h>

namespace psp::mrv {
namespace {

const ValueId kValue{.column_id = 1, .key = "{7}"};
const ValueId kOther{.column_id = 1, .key = "{8}"};

int PassedOver(Backoff* backoff) {
  int turns = 0;
  while (!backoff->IsTurn(kValue)) ++turns;
  return turns;
}

TEST(Backoff, PassesOverTwiceAsOftenAfterEachLoss) {
  Backoff backoff(64);
  EXPECT_EQ(PassedOver(&backoff), 0);
  for (const int expected : {1, 2, 4, 8, 16, 32, 64, 64}) {
    backoff.Lost(kValue);
    EXPECT_EQ(PassedOver(&backoff), expected);
    EXPECT_TRUE(backoff.IsTurn(kValue)) << "until it is lost again";
  }
}

TEST(Backoff, OtherValuesAreNotPassedOver) {
  Backoff backoff(64);
  backoff.Lost(kValue);
  EXPECT_TRUE(backoff.IsTurn(kOther));
}

TEST(Backoff, ASuccessMakesTheNextLossWeighLess) {
  Backoff backoff(64);
  for (int i = 0; i < 4; ++i) backoff.Lost(kValue);  // 8
  backoff.Won(kValue);
  EXPECT_EQ(PassedOver(&backoff), 0);
  backoff.Lost(kValue);
  EXPECT_EQ(PassedOver(&backoff), 4);
  backoff.Won(kValue);
  backoff.Lost(kValue);
  EXPECT_EQ(PassedOver(&backoff), 2);
}

TEST(Backoff, AForgottenValueBeginsAnew) {
  Backoff backoff(64);
  for (int i = 0; i < 4; ++i) backoff.Lost(kValue);
  backoff.Forget(kValue);
  EXPECT_EQ(PassedOver(&backoff), 0);
  backoff.Lost(kValue);
  EXPECT_EQ(PassedOver(&backoff), 1);
}

}  // namespace
}  // namespace psp::mrv
