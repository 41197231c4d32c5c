#include "primary/certify/proof_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::uint64_t> Ids(const std::vector<BatchResult>& results) {
  std::vector<std::uint64_t> ids;
  for (const BatchResult& one : results) ids.push_back(one.batch_id);
  return ids;
}

TEST(ProofGate, WithoutRequiredCopiesNothingIsHeld) {
  ProofGate gate;
  gate.Add({1, {}}, kNoCopies);
  EXPECT_THAT(Ids(gate.TakeProven()), ElementsAre(1));
  EXPECT_FALSE(gate.waits_for());
}

TEST(ProofGate, AResultThatTheCopiesHaveIsNotHeld) {
  ProofGate gate;
  gate.Add({1, {}}, {.written = 100, .copied = 100});
  EXPECT_THAT(Ids(gate.TakeProven()), ElementsAre(1));
}

TEST(ProofGate, AResultIsHeldUntilALookProvesIt) {
  ProofGate gate;
  gate.Add({1, {}}, {.written = 100, .copied = 99});
  EXPECT_THAT(gate.TakeProven(), IsEmpty());
  EXPECT_EQ(gate.waits_for(), 100U);
  gate.OnLook({.written = 120, .copied = 99});
  EXPECT_THAT(gate.TakeProven(), IsEmpty());
  gate.OnLook({.written = 120, .copied = 100});
  EXPECT_THAT(Ids(gate.TakeProven()), ElementsAre(1));
  EXPECT_FALSE(gate.waits_for());
}

TEST(ProofGate, TheLookOfALaterResultProvesEarlierOnes) {
  ProofGate gate;
  gate.Add({1, {}}, {.written = 100, .copied = 0});
  gate.Add({2, {}}, {.written = 200, .copied = 150});
  EXPECT_THAT(Ids(gate.TakeProven()), ElementsAre(1));
  EXPECT_EQ(gate.waits_for(), 200U);
}

TEST(ProofGate, AnEarlierLookProvesNothing) {
  ProofGate gate;
  gate.OnLook({.written = 200, .copied = 200});
  gate.Add({1, {}}, {.written = 150, .copied = 0});  // the server may have been set back in between
  EXPECT_THAT(gate.TakeProven(), IsEmpty());
}

TEST(ProofGate, WaitsForTheNearestPosition) {
  ProofGate gate;
  gate.Add({1, {}}, {.written = 300, .copied = 0});
  gate.Add({2, {}}, {.written = 200, .copied = 0});
  EXPECT_EQ(gate.waits_for(), 200U);
  EXPECT_EQ(gate.held(), 2U);
  gate.OnLook({.written = 400, .copied = 300});
  EXPECT_THAT(Ids(gate.TakeProven()), ElementsAre(1, 2));
}

}  // namespace
}  // namespace psp::primary
