#include "primary/certify/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TxId Id(int number) {
  std::string bytes(TxId::kSize, '\0');
  bytes[0] = static_cast<char>(number);
  return *TxId::FromBytes(bytes);
}

CertifyRequest Request(int number, const std::vector<std::string>& keys, std::size_t bytes = 10) {
  CertifyRequest request;
  request.tx_id = Id(number);
  request.sp_id = 1;
  request.write_set = std::string(bytes, 'x');
  for (const std::string& key : keys) {
    proto::Row* row = request.rows.add_rows();
    row->set_table_id(1);
    row->set_key(key);
  }
  return request;
}

CertifyRequest Using(CertifyRequest request, proto::UseKind kind, const std::string& key) {
  proto::KeyUse* use = request.uses.add_keys();
  use->set_kind(kind);
  use->set_table_id(1);
  use->set_key(key);
  return request;
}

std::vector<TxId> Ids(const std::optional<Batch>& batch) {
  std::vector<TxId> ids;
  if (batch) {
    for (const BatchItem& item : batch->items) ids.push_back(item.request->tx_id);
  }
  return ids;
}

// Everything that may commit commits.
BatchResult Success(const Batch& batch) {
  BatchResult result{batch.batch_id, {}};
  for (const BatchItem& item : batch.items) result.verdicts.push_back({item.global_t, {}, item.abort_reason});
  return result;
}

BatchResult AllLose(const Batch& batch) {
  BatchResult result{batch.batch_id, {}};
  for (std::size_t i = 0; i < batch.items.size(); ++i)
    result.verdicts.push_back({0, Conflict{{1, "k"}, 5, 2}, ""});
  return result;
}

std::vector<GlobalT> Numbers(const std::vector<Scheduler::Committed>& committed) {
  std::vector<GlobalT> numbers;
  for (const auto& one : committed) numbers.push_back(one.global_t);
  return numbers;
}

TEST(Scheduler, DisjointTransactionsShareABatchAndGetNumbersInOrder) {
  Scheduler scheduler({}, 100);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Request(2, {"b"}));
  const auto batch = scheduler.NextBatch();
  EXPECT_THAT(Ids(batch), ElementsAre(Id(1), Id(2)));
  EXPECT_EQ(batch->items[0].global_t, 101);
  EXPECT_EQ(batch->items[1].global_t, 102);
  EXPECT_EQ(batch->numbers, (NumberRange{101, 102}));
  EXPECT_FALSE(scheduler.NextBatch());
  const auto finished = scheduler.Finish(Success(*batch));
  EXPECT_THAT(Numbers(finished.committed), ElementsAre(101, 102));
  EXPECT_EQ(finished.decided.size(), 2U);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.bytes(), 0U);
}

TEST(Scheduler, WaitsForAKeyInFlightAndProceedsWhenTheHolderAborts) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Request(2, {"a", "b"}));
  const auto first = scheduler.NextBatch();
  EXPECT_THAT(Ids(first), ElementsAre(Id(1)));
  EXPECT_FALSE(scheduler.NextBatch());
  scheduler.Finish(AllLose(*first));
  const auto second = scheduler.NextBatch();
  EXPECT_THAT(Ids(second), ElementsAre(Id(2)));
  EXPECT_GT(second->items[0].global_t, 0);
}

TEST(Scheduler, WaiterLosesWhenTheHolderCommits) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Request(2, {"a", "b"}));
  scheduler.Certify(Request(3, {"b"}));  // waits behind 2
  const auto first = scheduler.NextBatch();
  EXPECT_THAT(Ids(first), ElementsAre(Id(1)));
  scheduler.Finish(Success(*first));
  const auto second = scheduler.NextBatch();
  ASSERT_THAT(Ids(second), testing::UnorderedElementsAre(Id(2), Id(3)));
  EXPECT_EQ(second->numbers, (NumberRange{2, 2})) << "a loser has none";
  for (const BatchItem& item : second->items) {
    const bool is_loser = item.request->tx_id == Id(2);
    EXPECT_EQ(item.global_t == 0, is_loser);
    EXPECT_EQ(item.abort_reason.empty(), !is_loser);
    if (is_loser) {
      EXPECT_EQ(item.conflict, (Conflict{{1, "a"}, 1, 1}));
    }
  }
  const auto finished = scheduler.Finish(Success(*second));
  EXPECT_EQ(finished.committed.size(), 1U);
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, AllWaitersOfACommittedHolderLose) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a", "b"}));
  for (int i = 2; i <= 5; ++i) scheduler.Certify(Request(i, {"a", "b"}));
  const auto first = scheduler.NextBatch();
  scheduler.Finish(Success(*first));
  const auto losers = scheduler.NextBatch();
  ASSERT_EQ(losers->items.size(), 4U);
  for (const BatchItem& item : losers->items) EXPECT_EQ(item.global_t, 0);
  EXPECT_THAT(scheduler.Finish(Success(*losers)).committed, IsEmpty());
  EXPECT_TRUE(scheduler.idle());
  // The keys are free again.
  scheduler.Certify(Request(9, {"a", "b"}));
  EXPECT_GT(scheduler.NextBatch()->items[0].global_t, 0);
}

TEST(Scheduler, WaitersGoInOrderOfArrival) {
  Scheduler scheduler({}, 0);
  for (int i = 1; i <= 3; ++i) scheduler.Certify(Request(i, {"a"}));
  for (int i = 1; i <= 3; ++i) {
    const auto batch = scheduler.NextBatch();
    EXPECT_THAT(Ids(batch), ElementsAre(Id(i)));
    scheduler.Finish(AllLose(*batch));
  }
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, PublishesInOrderOfRanges) {
  Scheduler scheduler({.batch_transactions_max = 1}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Request(2, {"b"}));
  const auto first = scheduler.NextBatch();
  const auto second = scheduler.NextBatch();
  const auto early = scheduler.Finish(Success(*second));
  EXPECT_EQ(early.decided.size(), 1U);  // told at once
  EXPECT_THAT(early.committed, IsEmpty());
  EXPECT_THAT(Numbers(scheduler.Finish(Success(*first)).committed), ElementsAre(1, 2));
}

TEST(Scheduler, BatchesHaveBounds) {
  Scheduler scheduler({.batch_transactions_max = 2, .batch_bytes_max = 100}, 0);
  scheduler.Certify(Request(1, {"a"}, 500));  // larger than the bound: alone
  scheduler.Certify(Request(2, {"b"}, 60));
  scheduler.Certify(Request(3, {"c"}, 60));
  scheduler.Certify(Request(4, {"d"}, 1));
  scheduler.Certify(Request(5, {"e"}, 1));
  EXPECT_EQ(scheduler.bytes(), 622U);
  EXPECT_THAT(Ids(scheduler.NextBatch()), ElementsAre(Id(1)));
  EXPECT_THAT(Ids(scheduler.NextBatch()), ElementsAre(Id(2)));
  EXPECT_THAT(Ids(scheduler.NextBatch()), ElementsAre(Id(3), Id(4)));
  EXPECT_THAT(Ids(scheduler.NextBatch()), ElementsAre(Id(5)));
}

TEST(Scheduler, DuplicateInFlightIsDropped) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Request(1, {"a"}));
  EXPECT_EQ(scheduler.transactions(), 1U);
  const auto batch = scheduler.NextBatch();
  scheduler.Certify(Request(1, {"a"}));
  EXPECT_EQ(scheduler.Finish(Success(*batch)).decided.size(), 1U);
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, RepeatedRequestNeitherPublishesAgainNorMakesOthersLose) {
  Scheduler scheduler({}, 50);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Request(2, {"a"}));
  const auto batch = scheduler.NextBatch();
  const auto finished = scheduler.Finish({batch->batch_id, {Verdict{7, {}, ""}}});  // decided long ago
  EXPECT_EQ(finished.decided[0].verdict.global_t, 7);
  EXPECT_THAT(finished.committed, IsEmpty());
  EXPECT_GT(scheduler.NextBatch()->items[0].global_t, 0);
}

TEST(Scheduler, OutcomeOfOneInFlightComesWithItsDecision) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.RequestOutcome(Id(1), 1);
  const auto batch = scheduler.NextBatch();
  EXPECT_EQ(batch->items.size(), 1U);
  const auto finished = scheduler.Finish(Success(*batch));
  ASSERT_EQ(finished.decided.size(), 1U);
  EXPECT_TRUE(finished.decided[0].asked_to_certify);
  EXPECT_TRUE(finished.decided[0].asked_for_outcome);
  EXPECT_EQ(finished.decided[0].verdict.global_t, 1);
}

TEST(Scheduler, OutcomeOfAnUnknownOneAbortsItAndALateRequestGetsThat) {
  Scheduler scheduler({}, 0);
  scheduler.RequestOutcome(Id(1), 1);
  scheduler.Certify(Request(1, {"a"}));
  const auto batch = scheduler.NextBatch();
  ASSERT_EQ(batch->items.size(), 1U);
  EXPECT_EQ(batch->items[0].global_t, 0);
  const auto finished = scheduler.Finish(Success(*batch));
  EXPECT_TRUE(finished.decided[0].asked_to_certify);
  EXPECT_TRUE(finished.decided[0].asked_for_outcome);
  EXPECT_EQ(finished.decided[0].verdict.global_t, 0);
  EXPECT_THAT(finished.committed, IsEmpty());
}

TEST(Scheduler, RefusedAndMalformedRequestsAreRecordedWithoutKeys) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  CertifyRequest refused = Request(2, {"a"});
  refused.refusal = {"too large"};
  scheduler.Certify(std::move(refused));
  scheduler.Certify(Request(3, {"b", "b"}));
  const auto batch = scheduler.NextBatch();
  ASSERT_EQ(batch->items.size(), 3U);
  EXPECT_EQ(batch->items[1].abort_reason, "too large");
  EXPECT_EQ(batch->items[2].abort_reason, "malformed write-set: a key is named twice");
  EXPECT_EQ(scheduler.Finish(Success(*batch)).committed.size(), 1U);
  EXPECT_TRUE(scheduler.idle());
}

// A schema change of table 1; `key`: of its statement.
CertifyRequest Change(int number, SpId sp_id, GlobalT watermark, const std::string& key = "1") {
  CertifyRequest request = Request(number, {key});
  request.sp_id = sp_id;
  request.watermark = watermark;
  request.rows.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  request.rows.mutable_rows(0)->set_table_id(0);
  request.rows.add_table_changes()->set_table_id(1);
  return request;
}

TEST(Scheduler, ASchemaChangeIsDecidedAlone) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  const auto in_flight = scheduler.NextBatch();
  scheduler.Certify(Request(2, {"b"}));
  scheduler.Certify(Change(3, 1, 2));
  scheduler.Certify(Request(4, {"c"}));
  const auto before = scheduler.NextBatch();
  EXPECT_THAT(Ids(before), ElementsAre(Id(2)));
  EXPECT_FALSE(scheduler.NextBatch());
  scheduler.Finish(Success(*before));
  EXPECT_FALSE(scheduler.NextBatch()) << "the first batch is in flight";
  scheduler.Finish(Success(*in_flight));
  const auto change = scheduler.NextBatch();
  EXPECT_THAT(Ids(change), ElementsAre(Id(3)));
  EXPECT_EQ(change->numbers, (NumberRange{3, 3}));
  EXPECT_FALSE(scheduler.NextBatch()) << "it is not decided";
  EXPECT_THAT(Numbers(scheduler.Finish(Success(*change)).committed), ElementsAre(3));
  EXPECT_THAT(Ids(scheduler.NextBatch()), ElementsAre(Id(4)));
}

TEST(Scheduler, ASchemaChangeThatHasLostHoldsNobodyUp) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Change(1, 1, 0));
  scheduler.Certify(Change(2, 2, 0));  // waits for the same number
  scheduler.Certify(Request(3, {"a"}));
  const auto first = scheduler.NextBatch();
  scheduler.Finish(Success(*first));
  const auto next = scheduler.NextBatch();
  EXPECT_THAT(Ids(next), testing::UnorderedElementsAre(Id(2), Id(3)));
  EXPECT_EQ(scheduler.Finish(Success(*next)).committed.size(), 1U);
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, ASchemaChangeMustHaveAllRows) {
  Scheduler scheduler({}, 0);
  CertifyRequest rows = Request(1, {"a"});
  rows.sp_id = 2;
  scheduler.Certify(rows);
  scheduler.Certify(Change(2, 1, 0));
  scheduler.Certify(Request(3, {"b"}));
  scheduler.Finish(Success(*scheduler.NextBatch()));
  const auto lost = scheduler.NextBatch();
  EXPECT_THAT(Ids(lost), ElementsAre(Id(2), Id(3))) << "it is no schema change any more";
  EXPECT_EQ(lost->items[0].abort_reason,
            "SP 2 has written rows of table_id 1 that the schema change has not seen (global_t 1)");
  const auto finished = scheduler.Finish(Success(*lost));
  EXPECT_TRUE(finished.decided[0].older_catalog);
  scheduler.Certify(Change(4, 2, 0));
  const auto lacks_the_other = scheduler.NextBatch();
  EXPECT_EQ(lacks_the_other->items[0].global_t, 0) << "Id(3) is of SP 1";
  scheduler.Finish(Success(*lacks_the_other));
  scheduler.Certify(Change(5, 1, 1));
  const auto lacks_its_own = scheduler.NextBatch();
  EXPECT_EQ(lacks_its_own->items[0].global_t, 0) << "its session may have gone";
  scheduler.Finish(Success(*lacks_its_own));
  CertifyRequest change = Change(6, 1, 1);
  change.seen = {2};
  scheduler.Certify(change);
  EXPECT_GT(scheduler.NextBatch()->items[0].global_t, 0);
}

TEST(Scheduler, ASchemaChangeMustHaveAnOwnTransactionThatIsNotTheLast) {
  Scheduler scheduler({}, 0);
  for (const int n : {1, 2, 3}) {
    CertifyRequest rows = Request(n, {std::string(1, static_cast<char>('a' + n))});
    rows.watermark = n == 3 ? 1 : 0;  // by then 1 is applied
    scheduler.Certify(rows);
    scheduler.Finish(Success(*scheduler.NextBatch()));
  }
  CertifyRequest change = Change(4, 1, 1);
  change.seen = {3};
  scheduler.Certify(change);
  const auto lost = scheduler.NextBatch();
  EXPECT_EQ(lost->items[0].abort_reason,
            "SP 1 has written rows of table_id 1 that the schema change has not seen (global_t 2)");
  scheduler.Finish(Success(*lost));
  change = Change(5, 1, 1);
  change.seen = {2, 3};
  scheduler.Certify(change);
  EXPECT_GT(scheduler.NextBatch()->items[0].global_t, 0);
}

TEST(Scheduler, ASchemaChangeOfOtherTablesNeedNotHaveThem) {
  Scheduler scheduler({}, 0);
  CertifyRequest rows = Request(1, {"a"});
  rows.sp_id = 2;
  scheduler.Certify(rows);
  scheduler.Finish(Success(*scheduler.NextBatch()));
  CertifyRequest change = Change(2, 1, 0);
  change.rows.mutable_table_changes(0)->set_table_id(7);
  scheduler.Certify(change);
  EXPECT_GT(scheduler.NextBatch()->items[0].global_t, 0);
}

TEST(Scheduler, AfterAStartASchemaChangeMustHaveAllThatWasBefore) {
  Scheduler scheduler({}, 50);
  scheduler.Certify(Change(1, 1, 49));
  const auto lost = scheduler.NextBatch();
  EXPECT_EQ(lost->items[0].global_t, 0);
  EXPECT_TRUE(scheduler.Finish(Success(*lost)).decided[0].older_catalog);
  CertifyRequest changes_no_table = Change(2, 1, 49);
  changes_no_table.rows.clear_table_changes();
  scheduler.Certify(changes_no_table);
  const auto batch = scheduler.NextBatch();
  EXPECT_GT(batch->items[0].global_t, 0);
  scheduler.Finish(AllLose(*batch));
  scheduler.Certify(Change(3, 1, 50));
  EXPECT_GT(scheduler.NextBatch()->items[0].global_t, 0);
}

TEST(Scheduler, WhatWaitsCanBeRefused) {
  Scheduler scheduler({.batch_transactions_max = 1}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Request(2, {"a", "b"}));  // waits for 1
  scheduler.Certify(Request(3, {"b"}));       // waits for 2
  scheduler.Certify(Request(4, {"c"}));
  scheduler.Certify(Request(5, {"c"}));  // waits for 4
  scheduler.Refuse([](const CertifyRequest& request) {
    const bool is_refused = request.tx_id == Id(2) || request.tx_id == Id(4);
    return is_refused ? Refusal{"older", true} : Refusal{};
  });
  std::vector<TxId> refused;
  std::vector<TxId> committed;
  while (const auto batch = scheduler.NextBatch()) {
    for (const Scheduler::Decided& one : scheduler.Finish(Success(*batch)).decided) {
      (one.verdict.global_t > 0 ? committed : refused).push_back(one.request->tx_id);
      EXPECT_EQ(one.older_catalog, one.verdict.global_t == 0);
    }
  }
  EXPECT_THAT(refused, testing::UnorderedElementsAre(Id(2), Id(4)));
  EXPECT_THAT(committed, testing::UnorderedElementsAre(Id(1), Id(3), Id(5)));
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, TransactionWithoutRowsCommits) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {}));
  EXPECT_EQ(scheduler.Finish(Success(*scheduler.NextBatch())).committed.size(), 1U);
}

TEST(Scheduler, ChildrenOfOneParentShareABatch) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Using(Request(1, {"a"}), proto::USE_SHARED, "parent"));
  scheduler.Certify(Using(Request(2, {"b"}), proto::USE_SHARED, "parent"));
  scheduler.Certify(Request(3, {"parent"}));  // an update of the parent
  const auto batch = scheduler.NextBatch();
  EXPECT_THAT(Ids(batch), ElementsAre(Id(1), Id(2), Id(3)));
  EXPECT_EQ(scheduler.Finish(Success(*batch)).committed.size(), 3U);
}

TEST(Scheduler, AnEndingWaitsForTheChildrenAndLosesAgainstOneThatCommits) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Using(Request(1, {"a"}), proto::USE_SHARED, "parent"));
  scheduler.Certify(Using(Request(2, {"parent"}), proto::USE_ENDED, "parent"));
  scheduler.Certify(Using(Request(3, {"b"}), proto::USE_SHARED, "parent"));
  const auto first = scheduler.NextBatch();
  EXPECT_THAT(Ids(first), ElementsAre(Id(1)));
  scheduler.Finish(Success(*first));
  const auto second = scheduler.NextBatch();
  ASSERT_THAT(Ids(second), testing::UnorderedElementsAre(Id(2), Id(3)));
  for (const BatchItem& item : second->items) {
    if (item.request->tx_id == Id(2)) {
      EXPECT_EQ(item.conflict, (Conflict{{1, "parent"}, 1, 1, proto::USE_ENDED}));
    } else {
      EXPECT_GT(item.global_t, 0) << "the ending has lost, so the other child may go on";
    }
  }
  scheduler.Finish(Success(*second));
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, AnEndingGoesOnWhenTheChildrenAbort) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Using(Request(1, {"a"}), proto::USE_SHARED, "parent"));
  scheduler.Certify(Using(Request(2, {"parent"}), proto::USE_ENDED, "parent"));
  const auto first = scheduler.NextBatch();
  scheduler.Finish(AllLose(*first));
  const auto second = scheduler.NextBatch();
  ASSERT_THAT(Ids(second), ElementsAre(Id(2)));
  EXPECT_GT(second->items[0].global_t, 0);
}

TEST(Scheduler, AChildLosesAgainstACommittedEndingThatItHasNotSeen) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Using(Request(1, {"parent"}), proto::USE_ENDED, "parent"));
  const auto first = scheduler.NextBatch();
  scheduler.Finish(Success(*first));
  scheduler.Certify(Using(Request(2, {"a"}), proto::USE_SHARED, "parent"));
  CertifyRequest later = Using(Request(3, {"b"}), proto::USE_SHARED, "parent");
  later.watermark = 1;
  scheduler.Certify(std::move(later));
  const auto second = scheduler.NextBatch();
  ASSERT_THAT(Ids(second), ElementsAre(Id(2), Id(3)));
  EXPECT_EQ(second->items[0].global_t, 0);
  EXPECT_EQ(second->items[0].conflict, (Conflict{{1, "parent"}, 1, 1, proto::USE_SHARED}));
  EXPECT_EQ(second->items[1].global_t, 2) << "it is the first number that was given";
  scheduler.Finish(Success(*second));
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, AReaderWaitsForTheWriterAndLosesWhenItCommits) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Using(Request(2, {"b"}), proto::USE_READ, "a"));
  scheduler.Certify(Using(Request(3, {"c"}), proto::USE_READ, "a"));
  const auto first = scheduler.NextBatch();
  EXPECT_THAT(Ids(first), ElementsAre(Id(1)));
  scheduler.Finish(Success(*first));
  const auto second = scheduler.NextBatch();
  ASSERT_THAT(Ids(second), ElementsAre(Id(2), Id(3)));
  for (const BatchItem& item : second->items)
    EXPECT_EQ(item.conflict, (Conflict{{1, "a"}, 1, 1, proto::USE_READ}));
}

TEST(Scheduler, AWriterWaitsForReadersAndDoesNotLose) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Using(Request(1, {"b"}), proto::USE_READ, "a"));
  scheduler.Certify(Using(Request(2, {"c"}), proto::USE_READ, "a"));
  scheduler.Certify(Request(3, {"a"}));
  const auto first = scheduler.NextBatch();
  EXPECT_THAT(Ids(first), ElementsAre(Id(1), Id(2)));
  scheduler.Finish(Success(*first));
  const auto second = scheduler.NextBatch();
  ASSERT_THAT(Ids(second), ElementsAre(Id(3)));
  EXPECT_GT(second->items[0].global_t, 0);
}

TEST(Scheduler, AKeyThatIsWrittenAndReadIsNamedTwice) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Using(Request(1, {"a"}), proto::USE_READ, "a"));
  const auto batch = scheduler.NextBatch();
  EXPECT_EQ(batch->items[0].global_t, 0);
  EXPECT_THAT(batch->items[0].abort_reason, testing::HasSubstr("named twice"));
}

TEST(Scheduler, WhoHasReadAWholeTableIsDecidedWhenAllBeforeItIs) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"a"}));
  scheduler.Certify(Using(Request(2, {"b"}), proto::USE_TABLE_READ, ""));
  scheduler.Certify(Request(3, {"c"}));
  const auto first = scheduler.NextBatch();
  EXPECT_THAT(Ids(first), ElementsAre(Id(1)));
  EXPECT_FALSE(scheduler.NextBatch());
  scheduler.Finish(Success(*first));
  const auto second = scheduler.NextBatch();
  ASSERT_THAT(Ids(second), ElementsAre(Id(2), Id(3)));
  EXPECT_EQ(second->items[0].conflict, (Conflict{{1, ""}, 1, 1, proto::USE_TABLE_READ}));
  EXPECT_GT(second->items[1].global_t, 0);
  scheduler.Finish(Success(*second));
  CertifyRequest again = Using(Request(4, {"b"}), proto::USE_TABLE_READ, "");
  again.watermark = 2;
  scheduler.Certify(std::move(again));
  const auto third = scheduler.NextBatch();
  EXPECT_GT(third->items[0].global_t, 0);
  scheduler.Finish(Success(*third));
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, WhatASchemaChangeRefusesGivesItsSharedKeysAway) {
  Scheduler scheduler({}, 0);
  scheduler.Certify(Request(1, {"x"}));
  scheduler.Certify(Using(Request(2, {"x"}), proto::USE_SHARED, "parent"));
  const auto first = scheduler.NextBatch();
  scheduler.Refuse([](const CertifyRequest& request) {
    return request.tx_id == Id(2) ? Refusal{"older", true} : Refusal{};
  });
  scheduler.Certify(Using(Request(3, {"y"}), proto::USE_ENDED, "parent"));
  const auto second = scheduler.NextBatch();
  EXPECT_THAT(Ids(second), ElementsAre(Id(2), Id(3)));
  scheduler.Finish(Success(*first));
  scheduler.Finish(Success(*second));
  EXPECT_TRUE(scheduler.idle());
}

}  // namespace
}  // namespace psp::primary
