#include "primary/certify/reservations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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

class ReservationsTest : public testing::Test {
 protected:
  void SetUp() override {
    reservations_.SetRoundTrip(kNear, 30 * kMs);
    reservations_.SetRoundTrip(kMiddle, 90 * kMs);
    reservations_.SetRoundTrip(kFar, 190 * kMs);
  }
  void Lose(SpId sp_id, const std::string& key = "k") { reservations_.OnLost(sp_id, {7, key}, now_us_); }
  void LoseTwice(SpId sp_id, const std::string& key = "k") {
    Lose(sp_id, key);
    Lose(sp_id, key);
  }
  void Commit(SpId sp_id, const std::string& key = "k") {
    reservations_.OnCommitted(Writer(sp_id, {key}), now_us_);
  }
  bool Waits(SpId sp_id, const std::vector<std::string>& keys = {"k"}, char name = 'w') {
    CertifyRequest request = Writer(sp_id, keys, name);
    return reservations_.Park(&request, now_us_);
  }
  void Pass(std::int64_t us) {
    now_us_ += us;
    reservations_.OnTime(now_us_);
  }
  std::vector<SpId> Released() {
    std::vector<SpId> sp_ids;
    for (const CertifyRequest& request : reservations_.TakeReleased()) sp_ids.push_back(request.sp_id);
    return sp_ids;
  }

  std::int64_t now_us_ = 100 * kSecond;
  Reservations reservations_{
      {.reservation_max_us = kSecond, .keys_max = 4, .reserved_max = 3, .parked_max = 2}};
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
  EXPECT_EQ(reservations_.reserved(), 1U);
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
  EXPECT_EQ(reservations_.counters(), (Reservations::Counters{2, 1, 1}));
}

TEST_F(ReservationsTest, ItEndsSoonAfterTheRoundTrip) {
  LoseTwice(kFar);
  EXPECT_TRUE(Waits(kNear));
  Pass(190 * kMs);
  EXPECT_THAT(Released(), IsEmpty()) << "its attempt is just arriving";
  Pass(190 * kMs);
  EXPECT_THAT(Released(), ElementsAre(kNear));
  EXPECT_EQ(reservations_.counters(), (Reservations::Counters{2, 1, 0}));
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
  Pass(699 * kMs);
  Lose(kMiddle);
  LoseTwice(kFar);
  EXPECT_FALSE(Waits(kNear));
  Pass(kMs);
  Lose(kFar);
  EXPECT_TRUE(Waits(kNear));
}

TEST_F(ReservationsTest, WhoHadTheKeyForTheShortestTimeIsNext) {
  LoseTwice(kFar);
  LoseTwice(kMiddle);
  Pass(200 * kMs);
  Commit(kFar);
  Pass(600 * kMs);
  LoseTwice(kMiddle);
  Pass(100 * kMs);
  LoseTwice(kFar);
  EXPECT_FALSE(Waits(kNear)) << "not the far one's turn";
  Lose(kMiddle);
  EXPECT_TRUE(Waits(kFar));
  Pass(100 * kMs);
  Commit(kMiddle);
  LoseTwice(kMiddle);
  Pass(350 * kMs);
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

TEST_F(ReservationsTest, WhoHasAReservationDoesNotWaitForAnotherOnes) {
  LoseTwice(kFar, "a");
  LoseTwice(kMiddle, "b");
  EXPECT_FALSE(Waits(kFar, {"a", "b"}));
  EXPECT_FALSE(Waits(kMiddle, {"a", "b"}));
  EXPECT_TRUE(Waits(kNear, {"a", "b"}));
  Commit(kFar, "a");
  EXPECT_THAT(Released(), IsEmpty()) << "b is still reserved";
  Commit(kMiddle, "b");
  EXPECT_THAT(Released(), ElementsAre(kNear));
}

TEST_F(ReservationsTest, NobodyWaitsForOneReservationAfterTheOther) {
  LoseTwice(4, "a");
  EXPECT_TRUE(Waits(kNear, {"a", "b"}));
  Pass(900 * kMs);
  LoseTwice(4, "b");
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
  for (const char* key : {"a", "b", "c", "d", "e"}) LoseTwice(kFar, key);
  EXPECT_EQ(reservations_.reserved(), 3U);
  EXPECT_FALSE(Waits(kNear, {"e"})) << "no more keys are remembered";
  EXPECT_TRUE(Waits(kNear, {"a"}, '1'));
  EXPECT_TRUE(Waits(kNear, {"a"}, '2'));
  EXPECT_FALSE(Waits(kNear, {"a"}, '3')) << "enough of them wait";
}

TEST_F(ReservationsTest, NothingIsReservedWhenItIsOff) {
  Reservations off({.reservation_max_us = 0});
  for (int i = 0; i < 3; ++i) off.OnLost(kFar, {7, "k"}, now_us_);
  CertifyRequest request = Writer(kNear, {"k"});
  EXPECT_FALSE(off.Park(&request, now_us_));
  EXPECT_EQ(off.counters(), Reservations::Counters{});
}

}  // namespace
}  // namespace psp::primary
