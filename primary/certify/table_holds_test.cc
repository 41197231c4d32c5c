#include "primary/certify/table_holds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primary/certify/released_for_tests.h"

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kTable = 7;

CertifyRequest Writer(SpId sp_id, std::uint32_t table_id, char name = 'w') {
  CertifyRequest request;
  request.tx_id = *TxId::FromBytes(std::string(TxId::kSize, name));
  request.sp_id = sp_id;
  request.rows.add_rows()->set_table_id(table_id);
  return request;
}

CertifyRequest SchemaChange(SpId sp_id) {
  CertifyRequest request = Writer(sp_id, 0, 'c');
  request.rows.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  return request;
}

HeldTables Hold(SpId sp_id, std::uint64_t transaction, std::set<std::uint32_t> table_ids = {kTable}) {
  return {sp_id, 100 + transaction, transaction, std::move(table_ids), 1'000};
}

bool Waits(TableHolds* holds, CertifyRequest request) { return holds->Park(&request); }

TEST(TableHolds, OtherWritersOfTheTableWaitAndNobodyElse) {
  TableHolds holds;
  EXPECT_FALSE(Waits(&holds, Writer(2, kTable)));
  holds.Ask(Hold(1, 1));
  EXPECT_TRUE(Waits(&holds, Writer(2, kTable)));
  EXPECT_TRUE(Waits(&holds, SchemaChange(3))) << "one schema change at a time";
  EXPECT_FALSE(Waits(&holds, Writer(2, kTable + 1)));
  EXPECT_FALSE(Waits(&holds, Writer(1, kTable))) << "it is ordered by its own PostgreSQL";
  EXPECT_FALSE(Waits(&holds, SchemaChange(1)));
  CertifyRequest refused = Writer(2, kTable);
  refused.refusal.reason = "refused";
  EXPECT_FALSE(holds.Park(&refused));
  EXPECT_THAT(TakeReleasedSpIds(&holds), IsEmpty());
  holds.End(1, 1);
  EXPECT_THAT(TakeReleasedSpIds(&holds), ElementsAre(2, 3)) << "in the order in which they came";
  EXPECT_FALSE(Waits(&holds, Writer(2, kTable)));
}

TEST(TableHolds, OneThatWaitsCanBeTaken) {
  TableHolds holds;
  holds.Ask(Hold(1, 1));
  CertifyRequest request = Writer(2, kTable, 'a');
  request.write_set = "bytes";
  EXPECT_TRUE(Waits(&holds, request));
  EXPECT_TRUE(Waits(&holds, request)) << "sent again";
  EXPECT_EQ(holds.bytes(), 5U);
  EXPECT_FALSE(holds.TakeParked(Writer(2, kTable, 'b').tx_id).has_value());
  EXPECT_TRUE(holds.TakeParked(request.tx_id).has_value());
  EXPECT_FALSE(holds.TakeParked(request.tx_id).has_value());
  EXPECT_EQ(holds.bytes(), 0U);
  holds.End(1, 1);
  EXPECT_THAT(TakeReleasedSpIds(&holds), IsEmpty());
}

TEST(TableHolds, ATransactionAddsTables) {
  TableHolds holds;
  holds.Ask(Hold(1, 1));
  ASSERT_NE(holds.ungranted(), nullptr);
  holds.SetGranted();
  EXPECT_EQ(holds.ungranted(), nullptr);
  HeldTables more = Hold(1, 1, {kTable + 1});
  more.hold_id = 999;
  holds.Ask(more);
  ASSERT_NE(holds.ungranted(), nullptr) << "rows of the other table may be in flight";
  EXPECT_EQ(holds.ungranted()->hold_id, 999U);
  EXPECT_TRUE(Waits(&holds, Writer(2, kTable)));
  EXPECT_TRUE(Waits(&holds, Writer(2, kTable + 1)));
}

TEST(TableHolds, OneAfterTheOther) {
  TableHolds holds;
  holds.Ask(Hold(1, 1));
  holds.Ask(Hold(2, 1, {kTable, kTable + 1}));
  holds.Ask(Hold(3, 1));
  EXPECT_TRUE(Waits(&holds, Writer(2, kTable)));
  EXPECT_FALSE(Waits(&holds, Writer(3, kTable + 1))) << "it is not the second one's turn";
  holds.End(3, 1);
  holds.EndAllOf(1);
  EXPECT_EQ(holds.ungranted()->sp_id, 2U);
  EXPECT_THAT(TakeReleasedSpIds(&holds), ElementsAre(2));
  EXPECT_TRUE(Waits(&holds, Writer(1, kTable + 1)));
  holds.Ask(Hold(2, 2));
  EXPECT_EQ(holds.ungranted()->transaction, 2U) << "the older transaction has ended";
  EXPECT_FALSE(Waits(&holds, Writer(1, kTable + 1)));
  holds.End(2, 1);
  EXPECT_NE(holds.ungranted(), nullptr) << "of another transaction";
  holds.End(2, 2);
  EXPECT_EQ(holds.ungranted(), nullptr);
}

TEST(TableHolds, ItsTimeEnds) {
  TableHolds holds;
  EXPECT_FALSE(holds.TakeExpired(5'000).has_value());
  holds.Ask(Hold(1, 1));
  holds.Ask(Hold(2, 1));
  EXPECT_FALSE(holds.TakeExpired(10'000).has_value());
  holds.Ask(Hold(1, 1, {kTable + 1}));
  EXPECT_TRUE(Waits(&holds, Writer(3, kTable)));
  EXPECT_FALSE(holds.TakeExpired(10'999).has_value());
  EXPECT_EQ(holds.TakeExpired(11'000)->sp_id, 1U) << "more tables give no more time";
  EXPECT_THAT(TakeReleasedSpIds(&holds), ElementsAre(3));
  EXPECT_FALSE(holds.TakeExpired(11'000).has_value()) << "the second one's time has just begun";
  EXPECT_EQ(holds.TakeExpired(12'000)->sp_id, 2U);
}

}  // namespace
}  // namespace psp::primary
