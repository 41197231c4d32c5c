#include "primary/certify/reservations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primary/certify/released_for_tests.h"

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr std::int64_t kMs = 1'000;
constexpr std::int64_t kSecond = 1'000'000;
constexpr SpId kNear = 1;
constexpr SpId kMiddle = 2;
constexpr SpId kFar = 3;

CertifyRequest Writer(SpId sp_id, const std::vector<std::string>& keys, char name = 'w') {
  CertifyRequest request;
  request.tx_id = *TxId::FromBytes(std::string(TxId::kSize, name));
  request.sp_id = sp_id;
  request.write_set = "bytes";
  for (const std::string& key : keys) {
    request.rows.add_rows()->set_table_id(7);
    request.rows.mutable_rows(request.rows.rows_size() - 1)->set_key(key);
  }
  return request;
}

// It uses a key of table 7, too.
CertifyRequest Using(CertifyRequest request, const std::string& key, proto::UseKind kind) {
  proto::KeyUse* use = request.uses.add_keys();
  use->set_table_id(7);
  use->set_key(key);
  use->set_kind(kind);
  return request;
}

class ReservationsTest : public testing::Test {
 protected:
  void SetUp() override {
    round_trips_.Set(kNear, 30 * kMs);
    round_trips_.Set(kMiddle, 90 * kMs);
    round_trips_.Set(kFar, 190 * kMs);
  }
  // A transaction that has written all of the keys has lost the first one.
  void Lose(SpId sp_id, const std::vector<std::string>& keys = {"k"}) {
    reservations_.OnLost(Writer(sp_id, keys), {{7, keys.front()}}, now_us_);
  }
  void LoseTwice(SpId sp_id, const std::vector<std::string>& keys = {"k"}) {
    Lose(sp_id, keys);
    Lose(sp_id, keys);
  }
  void Commit(SpId sp_id, const std::string& key = "k") {
    reservations_.OnCommitted(Writer(sp_id, {key}), now_us_);
  }
  bool Waits(SpId sp_id, const std::vector<std::string>& keys = {"k"}, char name = 'w') {
    CertifyRequest request = Writer(sp_id, keys, name);
    return reservations_.Park(&request, now_us_);
  }
  // For a time the semi-primary commits the key without a pause.
  void CommitFor(std::int64_t us, SpId sp_id, std::int64_t rtt_us) {
    for (; us >= rtt_us; us -= rtt_us) {
      Commit(sp_id);
      Pass(rtt_us);
    }
    Pass(us);
  }
  void Pass(std::int64_t us) {
    now_us_ += us;
    reservations_.OnTime(now_us_);
  }
  std::vector<SpId> Released() { return TakeReleasedSpIds(&reservations_); }

  std::int64_t now_us_ = 100 * kSecond;
  RoundTrips round_trips_;
  Reservations reservations_{
      {.reservation_max_us = kSecond, .keys_max = 4, .reserved_max = 3, .parked_max = 2}, round_trips_};
};

TEST_F(ReservationsTest, AKeyThatWasLostTwiceInARowIsReserved) {
  Lose(kFar);
  EXPECT_FALSE(Waits(kNear));
  Commit(kFar);
  Lose(kFar);
  EXPECT_FALSE(Waits(kNear)) << "not in a row";
  Lose(kFar);
  EXPECT_TRUE(Waits(kNear));
  EXPECT_EQ(reservations_.bytes(), 5U);
  EXPECT_FALSE(Waits(kFar));
  EXPECT_FALSE(Waits(kNear, {"other"}));
  EXPECT_THAT(reservations_.in_force(), ElementsAre(Reservations::InForce{kFar, {7, "k"}, 1, now_us_, 1}));
}

TEST_F(ReservationsTest, ItEndsWhenItWasUsed) {
  LoseTwice(kFar);
  EXPECT_TRUE(Waits(kNear, {"k"}, 'a'));
  EXPECT_TRUE(Waits(kMiddle, {"k"}, 'b'));
  Commit(kFar, "other");
  EXPECT_THAT(Released(), IsEmpty());
  Commit(kFar);
  EXPECT_THAT(Released(), ElementsAre(kNear, kMiddle)) << "in the order in which they came";
  EXPECT_EQ(reservations_.bytes(), 0U);
  EXPECT_FALSE(Waits(kNear));
  EXPECT_THAT(reservations_.counters(), ElementsAre(Pair(kFar, Reservations::Counters{2, 1, 1})));
}

TEST_F(ReservationsTest, ItEndsSoonAfterTheRoundTrip) {
  LoseTwice(kFar);
  EXPECT_TRUE(Waits(kNear));
  Pass(190 * kMs);
  EXPECT_THAT(Released(), IsEmpty()) << "its attempt is just arriving";
  Pass(190 * kMs);
  EXPECT_THAT(Released(), ElementsAre(kNear));
  EXPECT_THAT(reservations_.counters(), ElementsAre(Pair(kFar, Reservations::Counters{2, 1, 0})));
}

TEST_F(ReservationsTest, WithoutARoundTripItLastsAsLongAsItMay) {
  LoseTwice(4);
  EXPECT_TRUE(Waits(kNear));
  Pass(kSecond - 1);
  EXPECT_THAT(Released(), IsEmpty());
  Pass(1);
  EXPECT_THAT(Released(), ElementsAre(kNear));
}

TEST_F(ReservationsTest, AKeyIsReservedForAPartOfTheTimeOnly) {
  LoseTwice(kFar);
  Pass(200 * kMs);
  Commit(kFar);
  LoseTwice(kFar);
  EXPECT_FALSE(Waits(kNear));
  CommitFor(599 * kMs, kNear, 30 * kMs);
  Lose(kMiddle);
  LoseTwice(kFar);
  EXPECT_FALSE(Waits(kNear));
  Pass(kMs);
  Lose(kFar);
  EXPECT_TRUE(Waits(kNear)) << "others use it without a pause: free for 600 ms after 200";
}

TEST_F(ReservationsTest, WhatOthersSeldomUseIsReservedForALongerPart) {
  LoseTwice(kFar);
  Pass(200 * kMs);
  Commit(kFar);
  Pass(133 * kMs);
  LoseTwice(kFar);
  EXPECT_FALSE(Waits(kNear)) << "three fifths of the time at most";
  Pass(kMs);
  Lose(kFar);
  EXPECT_TRUE(Waits(kNear));
}

TEST_F(ReservationsTest, WhoHadTheKeyForTheShortestTimeIsNext) {
  LoseTwice(kFar);
  LoseTwice(kMiddle);
  Pass(200 * kMs);
  Commit(kFar);
  CommitFor(500 * kMs, kNear, 30 * kMs);
  LoseTwice(kMiddle);
  Pass(100 * kMs);
  LoseTwice(kFar);
  EXPECT_FALSE(Waits(kNear)) << "not the far one's turn";
  Lose(kMiddle);
  EXPECT_TRUE(Waits(kFar));
  Pass(100 * kMs);
  Commit(kMiddle);
  LoseTwice(kMiddle);
  CommitFor(350 * kMs, kNear, 30 * kMs);
  Lose(kFar);
  EXPECT_FALSE(Waits(kNear)) << "the middle one had 100 ms so far, the far one 200 ms";
  Lose(kMiddle);
  EXPECT_TRUE(Waits(kFar));
}

TEST_F(ReservationsTest, WhoTriesNoMoreIsNotInTheWay) {
  LoseTwice(kFar);
  Pass(200 * kMs);
  Commit(kFar);
  LoseTwice(kMiddle);
  Pass(kSecond);
  LoseTwice(kFar);
  EXPECT_TRUE(Waits(kNear)) << "the middle one's turn would be wasted";
}

TEST_F(ReservationsTest, AllKeysOfTheLoserAreReserved) {
  LoseTwice(kFar, {"k", "l", "m"});
  EXPECT_TRUE(Waits(kNear, {"m"}, 'a'));
  EXPECT_TRUE(Waits(kMiddle, {"l"}, 'b'));
  EXPECT_THAT(reservations_.in_force(), ElementsAre(Reservations::InForce{kFar, {7, "k"}, 3, now_us_, 2}));
  Commit(kFar, "l");
  EXPECT_THAT(Released(), IsEmpty()) << "another transaction of the same semi-primary";
  Commit(kFar, "k");
  EXPECT_THAT(Released(), ElementsAre(kNear, kMiddle));
  EXPECT_FALSE(Waits(kNear, {"k", "l", "m"}));
}

TEST_F(ReservationsTest, WhatAnotherOneHasMakesWait) {
  LoseTwice(kFar, {"k", "l"});
  LoseTwice(kMiddle, {"m", "l"});
  EXPECT_FALSE(Waits(kNear, {"m"})) << "without l it would lose again";
  Commit(kFar);
  Lose(kMiddle, {"m", "l"});
  EXPECT_TRUE(Waits(kNear, {"m"}));
}

TEST_F(ReservationsTest, NoTwoWaitForEachOther) {
  LoseTwice(kFar, {"a"});
  LoseTwice(kMiddle, {"b"});
  EXPECT_FALSE(Waits(kFar, {"a", "b"})) << "its own one is older";
  EXPECT_TRUE(Waits(kMiddle, {"a", "b"}, 'm'));
  EXPECT_TRUE(Waits(kNear, {"a", "b"}, 'n'));
  Commit(kFar, "a");
  EXPECT_THAT(Released(), ElementsAre(kMiddle)) << "b is still reserved for it";
  Commit(kMiddle, "b");
  EXPECT_THAT(Released(), ElementsAre(kNear));
}

TEST_F(ReservationsTest, OnlyWhoCouldMakeItLoseWaits) {
  const CertifyRequest child = Using(Writer(kFar, {"child"}), "parent", proto::USE_SHARED);
  const Conflict deleted{.key = {7, "parent"}, .use = proto::USE_SHARED};
  reservations_.OnLost(child, deleted, now_us_);
  reservations_.OnLost(child, deleted, now_us_);
  CertifyRequest other = Using(Writer(kNear, {"other child"}, 'a'), "parent", proto::USE_SHARED);
  EXPECT_FALSE(reservations_.Park(&other, now_us_)) << "both may share the key";
  EXPECT_FALSE(Waits(kNear, {"parent"}, 'b')) << "the row is no such key";
  CertifyRequest deleter = Using(Writer(kNear, {"parent"}, 'c'), "parent", proto::USE_ENDED);
  EXPECT_TRUE(reservations_.Park(&deleter, now_us_));
}

TEST_F(ReservationsTest, WhoLosesByARowThatItHasReadGetsIt) {
  const CertifyRequest reader = Using(Writer(kFar, {"k"}), "read", proto::USE_READ);
  const Conflict conflict{.key = {7, "read"}, .use = proto::USE_READ};
  reservations_.OnLost(reader, conflict, now_us_);
  reservations_.OnLost(reader, conflict, now_us_);
  CertifyRequest other = Using(Writer(kNear, {"other"}, 'a'), "read", proto::USE_READ);
  EXPECT_FALSE(reservations_.Park(&other, now_us_)) << "it reads it, too";
  EXPECT_TRUE(Waits(kNear, {"read"}, 'b'));
}

TEST_F(ReservationsTest, WhoHasReadAWholeTableGetsNothing) {
  CertifyRequest reader = Writer(kFar, {"k"});
  reader.uses.add_keys()->set_table_id(7);
  reader.uses.mutable_keys(0)->set_kind(proto::USE_TABLE_READ);
  const Conflict conflict{.key = {7, ""}, .use = proto::USE_TABLE_READ};
  for (int i = 0; i < 3; ++i) reservations_.OnLost(reader, conflict, now_us_);
  EXPECT_FALSE(Waits(kNear, {"k"}));
  EXPECT_THAT(reservations_.counters(), ElementsAre(Pair(kFar, Reservations::Counters{3, 0, 0})));
}

TEST_F(ReservationsTest, NobodyWaitsForOneReservationAfterTheOther) {
  LoseTwice(4, {"a"});
  EXPECT_TRUE(Waits(kNear, {"a", "b"}));
  Pass(900 * kMs);
  LoseTwice(4, {"b"});
  Pass(100 * kMs);
  EXPECT_THAT(Released(), ElementsAre(kNear));
}

TEST_F(ReservationsTest, WhatNeedsNotWaitPasses) {
  LoseTwice(kFar);
  CertifyRequest refused = Writer(kNear, {"k"});
  refused.refusal.reason = "refused";
  EXPECT_FALSE(reservations_.Park(&refused, now_us_));
  CertifyRequest change = Writer(kNear, {"k"});
  change.rows.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  EXPECT_FALSE(reservations_.Park(&change, now_us_));
}

TEST_F(ReservationsTest, OneThatWaitsCanBeTakenAndComesOnce) {
  LoseTwice(kFar);
  EXPECT_TRUE(Waits(kNear));
  EXPECT_TRUE(Waits(kNear)) << "sent again";
  EXPECT_TRUE(reservations_.TakeParked(Writer(kNear, {}).tx_id).has_value());
  EXPECT_FALSE(reservations_.TakeParked(Writer(kNear, {}).tx_id).has_value());
  Commit(kFar);
  EXPECT_THAT(Released(), IsEmpty());
  EXPECT_EQ(reservations_.bytes(), 0U);
}

TEST_F(ReservationsTest, WhoHasGoneIsForgotten) {
  Lose(kFar);
  LoseTwice(kMiddle);
  EXPECT_TRUE(Waits(kNear));
  reservations_.Forget(kMiddle);
  reservations_.Forget(kFar);
  Pass(0);
  EXPECT_THAT(Released(), ElementsAre(kNear));
  Lose(kFar);
  EXPECT_FALSE(Waits(kNear)) << "this is its first loss";
}

TEST_F(ReservationsTest, LossesAreForgotten) {
  Lose(kFar);
  Pass(11 * kSecond);
  Lose(kFar);
  EXPECT_FALSE(Waits(kNear));
}

TEST_F(ReservationsTest, EverythingIsBounded) {
  LoseTwice(kFar, {"a", "b"});
  LoseTwice(kFar, {"c", "d"});
  EXPECT_FALSE(Waits(kNear, {"d"})) << "three keys are reserved";
  LoseTwice(kMiddle, {"d"});
  EXPECT_FALSE(Waits(kNear, {"d"})) << "and no more";
  LoseTwice(kMiddle, {"e"});
  EXPECT_FALSE(Waits(kNear, {"e"})) << "four keys are remembered";
  EXPECT_TRUE(Waits(kNear, {"a"}, '1'));
  EXPECT_TRUE(Waits(kNear, {"b"}, '2'));
  EXPECT_FALSE(Waits(kNear, {"a"}, '3')) << "enough of them wait";
  Commit(kFar, "a");
  Commit(kFar, "c");
  EXPECT_THAT(reservations_.in_force(), IsEmpty());
  LoseTwice(kFar, {"f"});
  EXPECT_TRUE(Waits(kNear, {"f"}, '4')) << "b, which nobody has lost, is forgotten";
}

TEST_F(ReservationsTest, NothingIsReservedWhenItIsOff) {
  Reservations off({.reservation_max_us = 0}, round_trips_);
  for (int i = 0; i < 3; ++i) off.OnLost(Writer(kFar, {"k"}), {{7, "k"}}, now_us_);
  CertifyRequest request = Writer(kNear, {"k"});
  EXPECT_FALSE(off.Park(&request, now_us_));
  EXPECT_THAT(off.counters(), IsEmpty());
}

}  // namespace
}  // namespace psp::primary
