// Keys that no index row can hold, among others in the same batches.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "primary/testing/primary_fixture.h"

namespace psp::primary {
namespace {

constexpr int kTransactions = 200;

// PostgreSQL compresses what goes into an index: random bytes stay as long as they are.
std::string LongKey(int seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::string key;
  while (key.size() < 4000) key += static_cast<char>(random());
  return key;
}

bool IsTooLong(int i) { return i % 61 == 0; }

TEST_F(PrimaryTest, ATransactionWithATooLongKeyIsRefusedAlone) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  for (int i = 1; i <= kTransactions; ++i) {
    a.Certify(Id(i), 0,
              Rows({{std::to_string(i), "1"}, {IsTooLong(i) ? LongKey(i) : "k" + std::to_string(i), "1"}}));
  }
  for (int n = 1; n <= kTransactions; ++n) {
    const auto decision = NextDecision(a);
    const int i = static_cast<unsigned char>(decision.tx_id()[4]) * 256 +
                  static_cast<unsigned char>(decision.tx_id()[5]);
    EXPECT_EQ(decision.sqlstate(), IsTooLong(i) ? "54000" : "") << i;
    EXPECT_EQ(decision.has_global_t(), !IsTooLong(i)) << i;
  }
  EXPECT_EQ(Sql("SELECT FROM psp.data").size(), 2U * (kTransactions - kTransactions / 61));
}

}  // namespace
}  // namespace psp::primary
