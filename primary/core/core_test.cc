#include "primary/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "common/pg_binary.h"
#include "writeset/table_form.h"

namespace psp::primary {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr Epoch kEpoch = 7;
constexpr std::uint32_t kCatalogVersion = 3;
const std::string kCluster(16, 'c');

KnownTables Tables(const std::vector<std::uint32_t>& numbers, std::uint32_t version = kCatalogVersion) {
  KnownTables tables{version, {}};
  for (const std::uint32_t number : numbers) tables.numbers[number] = {};
  return tables;
}

// Of tables that schema changes make: a text is the key, another one the image.
const TableForm kForm{{{kOidText, -1, true}}, {{kOidText, std::nullopt, Normalise::kNone}}};
std::string Text(const std::string& text) {
  std::string record;
  AppendRecord(&record, {{kOidText, text}});
  return record;
}

TxId Id(char number) { return *TxId::FromBytes(std::string(TxId::kSize, number)); }

class PrimaryCoreTest : public testing::Test {
 protected:
  Core::Actions Now() { return core_.TakeActions(); }

  void Hear(const std::string& route, proto::ToPrimary message, Epoch epoch = kEpoch) {
    message.set_epoch(epoch);
    core_.OnMessage(route, &message, now_us_);
  }
  void Hello(const std::string& route, SpId sp_id, const std::string& name, GlobalT watermark = 0,
             bool look = false) {
    proto::ToPrimary message;
    proto::Hello* hello = message.mutable_hello();
    hello->set_cluster_id(kCluster);
    hello->set_sp_id(sp_id);
    hello->set_name(name);
    hello->set_incarnation(1);
    hello->set_watermark(watermark);
    hello->set_protocol_version(kProtocolVersion);
    hello->set_look(look);
    Hear(route, message, 0);
  }
  void Goodbye(const std::string& route) {
    proto::ToPrimary message;
    message.mutable_goodbye();
    Hear(route, message);
  }
  void RequestStream(const std::string& route, GlobalT from, bool with_copy = false) {
    proto::ToPrimary message;
    message.mutable_stream_request()->set_from(from);
    message.mutable_stream_request()->set_with_copy(with_copy);
    Hear(route, message);
  }
  void Certify(const std::string& route, char id, const std::string& key, std::uint32_t table_id = 1) {
    Certify(route, id, OneRow(key, table_id));
  }
  void Certify(const std::string& route, char id, const proto::WriteSet& rows, GlobalT watermark = 10) {
    proto::ToPrimary message;
    message.mutable_certify()->set_tx_id(Id(id).ToBytes());
    message.mutable_certify()->mutable_snapshot()->set_watermark(watermark);
    message.mutable_certify()->set_write_set(rows.SerializeAsString());
    Hear(route, message);
  }
  void Hold(const std::string& route, std::uint64_t hold_id, const std::vector<std::uint32_t>& table_ids) {
    proto::ToPrimary message;
    message.mutable_hold()->set_hold_id(hold_id);
    message.mutable_hold()->set_transaction(1);
    message.mutable_hold()->mutable_table_ids()->Add(table_ids.begin(), table_ids.end());
    message.mutable_hold()->set_timeout_ms(1000);
    Hear(route, message);
  }
  static proto::WriteSet OneRow(const std::string& key, std::uint32_t table_id = 1) {
    proto::WriteSet rows;
    rows.set_catalog_version(kCatalogVersion);
    rows.add_rows()->set_table_id(table_id);
    rows.mutable_rows(0)->set_key(key);
    rows.mutable_rows(0)->set_image("image");
    return rows;
  }
  static proto::WriteSet OneChange(std::uint32_t version, std::uint32_t table_id,
                                   const std::vector<std::uint32_t>& guard_ids, bool dropped = false) {
    proto::WriteSet change = OneRow(std::to_string(version), 0);
    change.set_kind(proto::ENTRY_SCHEMA_CHANGE);
    change.set_catalog_version(version);
    change.add_table_changes()->set_table_id(table_id);
    change.mutable_table_changes(0)->set_dropped(dropped);
    if (!dropped) change.mutable_table_changes(0)->set_form(EncodeTableForm(kForm));
    for (const std::uint32_t guard_id : guard_ids) change.mutable_table_changes(0)->add_guard_ids(guard_id);
    return change;
  }
  // Everything that is ready wins.
  void Decide() {
    while (const auto batch = core_.NextBatch(now_us_)) {
      BatchResult result{batch->batch_id, {}};
      for (const BatchItem& item : batch->items) {
        result.verdicts.push_back({item.global_t, std::nullopt, item.abort_reason});
      }
      core_.AnnounceDecisions(core_.Finish(result, now_us_), now_us_);
    }
  }
  // It was decided that the transaction has lost against one of the winner's.
  void Lose(const std::string& route, char id, const std::string& key, SpId winner = 2) {
    Certify(route, id, key);
    const auto batch = core_.NextBatch(now_us_);
    core_.AnnounceDecisions(
        core_.Finish({batch->batch_id, {{0, Conflict{{1, key}, 9, winner, std::nullopt}, ""}}}, now_us_),
        now_us_);
  }
  // At its own semi-primary.
  void Lost(const std::string& route, const std::string& key) {
    proto::ToPrimary message;
    message.mutable_lost()->mutable_conflict()->set_table_id(1);
    message.mutable_lost()->mutable_conflict()->set_key(key);
    proto::Row* row = message.mutable_lost()->mutable_keys()->add_rows();
    row->set_table_id(1);
    row->set_key(key);
    Hear(route, message);
  }
  // A transaction of "y" waits, since its key is reserved for "x".
  void WaitForXsTurn() {
    Hello("x", 1, "a", 10);
    Hello("y", 2, "b", 10);
    Lost("x", "k");
    Lost("x", "k");
    Certify("y", 'b', "k");
  }
  static Core::Options Options() {
    Core::Options options;
    options.batch_wait_max_us = 2'000;
    return options;
  }
  static std::vector<RegistryRow> Registry() {
    return {{1, "a", false, 0, std::nullopt},
            {2, "b", false, 0, std::nullopt},
            {3, "c", false, -1, std::nullopt}};
  }
  static proto::ToSemiPrimary Parsed(const Core::Send& send) {
    proto::ToSemiPrimary message;
    EXPECT_TRUE(message.ParseFromString(send.bytes));
    EXPECT_EQ(message.epoch(), kEpoch);
    return message;
  }
  static std::vector<proto::ToSemiPrimary::BodyCase> Kinds(const Core::Actions& actions) {
    std::vector<proto::ToSemiPrimary::BodyCase> kinds;
    for (const Core::Send& send : actions.sends) kinds.push_back(Parsed(send).body_case());
    return kinds;
  }

  std::int64_t now_us_ = 1'000'000;
  Core core_{Options(),
             {kCluster, kEpoch, 10, 0, Registry(), Tables({0, 1, 2}), {{"older", 1}, {"now", 11}}}};
};

TEST_F(PrimaryCoreTest, HelloIsWelcomedAndStreamsBeginWithStreamRequest) {
  Hello("x", 1, "a", 10);
  auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(1));
  const auto welcome = Parsed(actions.sends[0]).welcome();
  EXPECT_EQ(actions.sends[0].route, "x");
  EXPECT_EQ(welcome.closed_t(), 10);
  ASSERT_EQ(welcome.epochs_size(), 2);
  EXPECT_EQ(welcome.epochs(1).history(), "now");
  EXPECT_EQ(welcome.epochs(1).start_t(), 11);
  EXPECT_EQ(welcome.semi_primaries_size(), 3);
  EXPECT_FALSE(welcome.say_hello());
  Certify("x", 'a', "k");
  Decide();
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToSemiPrimary::kDecision)) << "no stream yet";
  RequestStream("x", 11);
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToSemiPrimary::kReplicate));
}

TEST_F(PrimaryCoreTest, DecisionGoesOutBeforeTheStreamThatHasIt) {
  for (const auto& [route, sp_id, name] : {std::tuple{"x", SpId{1}, "a"}, std::tuple{"y", SpId{2}, "b"}}) {
    Hello(route, sp_id, name, 10);
    RequestStream(route, 10);
  }
  Now();
  Certify("x", 'a', "k");
  Decide();
  const auto actions = Now();
  EXPECT_THAT(Kinds(actions), ElementsAre(proto::ToSemiPrimary::kDecision, proto::ToSemiPrimary::kReplicate,
                                          proto::ToSemiPrimary::kReplicate));
  EXPECT_EQ(Parsed(actions.sends[0]).decision().global_t(), 11);
  EXPECT_FALSE(Parsed(actions.sends[1]).replicate().transactions(0).has_write_set());
  EXPECT_EQ(actions.sends[2].route, "y");
  EXPECT_TRUE(Parsed(actions.sends[2]).replicate().transactions(0).has_write_set());
}

TEST_F(PrimaryCoreTest, WhoIsNotWelcomedChangesNothingAndIsAskedForHello) {
  Certify("x", 'a', "k");
  auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(1));
  EXPECT_TRUE(Parsed(actions.sends[0]).welcome().say_hello());
  EXPECT_TRUE(core_.idle());
  Hello("x", 1, "a", 10);
  Now();
  proto::ToPrimary ask;
  ask.mutable_outcome_request()->set_tx_id(Id('a').ToBytes());
  Hear("x", ask, kEpoch - 1);
  EXPECT_TRUE(Parsed(Now().sends.at(0)).welcome().say_hello());
  EXPECT_TRUE(core_.idle());
  proto::ToPrimary goodbye;
  goodbye.mutable_goodbye();
  Hear("z", goodbye);
  EXPECT_THAT(Now().sends, IsEmpty());
}

TEST_F(PrimaryCoreTest, NewNumberIsLookedUpBeforeItIsRefused) {
  Hello("x", 4, "d");
  auto actions = Now();
  EXPECT_THAT(actions.sends, IsEmpty());
  ASSERT_THAT(actions.house_works, SizeIs(1));
  core_.OnHouseReport({actions.house_works[0].number - 1, Registry(), Tables({1}), 0}, now_us_);
  EXPECT_THAT(Now().sends, IsEmpty()) << "that was read before it came";
  core_.OnHouseReport({actions.house_works[0].number, Registry(), Tables({1}), 0}, now_us_);
  actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(1));
  EXPECT_EQ(Parsed(actions.sends[0]).refused().reason(), proto::Refused::UNKNOWN_SP);
}

TEST_F(PrimaryCoreTest, NewTableIsLookedUpBeforeItsTransactionIsRefused) {
  Hello("x", 1, "a", 10);
  Now();
  Certify("x", 'a', "k", 5);
  Certify("x", 'b', "k", 6);
  const auto works = Now().house_works;
  ASSERT_THAT(works, SizeIs(2));
  core_.OnHouseReport({works[1].number, Registry(), Tables({1, 5}), 0}, now_us_);
  Decide();
  const auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(2));
  EXPECT_EQ(Parsed(actions.sends[0]).decision().global_t(), 11);
  EXPECT_THAT(Parsed(actions.sends[1]).decision().error(), testing::HasSubstr("table_id 6"));
}

TEST_F(PrimaryCoreTest, RowsOfATableThatHasChangedMayBeWrittenAgain) {
  KnownTables tables = Tables({1, 2, 5}, 4);
  tables.numbers[2].changed_in = 3;
  tables.numbers[5] = {4, true};
  core_.OnHouseReport({0, Registry(), tables, 0}, now_us_);
  Hello("x", 1, "a", 10);
  Now();
  for (const auto& [id, table_id] : {std::pair{'a', 1U}, std::pair{'b', 2U}, std::pair{'c', 5U}}) {
    proto::WriteSet rows = OneRow("k", table_id);
    rows.set_catalog_version(2);
    Certify("x", id, rows);
  }
  Decide();
  const auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(3));
  EXPECT_EQ(Parsed(actions.sends[0]).decision().global_t(), 11) << "table 1 is as it was";
  const proto::Decision changed = Parsed(actions.sends[1]).decision();
  EXPECT_EQ(changed.error(),
            "table_id 2 was changed in version 3 of the catalog, the transaction found version 2");
  EXPECT_TRUE(changed.older_catalog());
  const proto::Decision dropped = Parsed(actions.sends[2]).decision();
  EXPECT_EQ(dropped.error(),
            "table_id 5 was dropped in version 4 of the catalog, the transaction found version 2");
  EXPECT_TRUE(dropped.older_catalog());
}

TEST_F(PrimaryCoreTest, WhatWaitsBehindASchemaChangeIsCheckedAgain) {
  Hello("x", 1, "a", 10);
  Now();
  Certify("x", 'a', OneChange(kCatalogVersion + 1, 1, {8}));
  Certify("x", 'b', "k");
  Certify("x", 'c', "l", 2);
  const auto change = core_.NextBatch(now_us_);
  ASSERT_TRUE(change.has_value());
  ASSERT_THAT(change->items, SizeIs(1));
  core_.AnnounceDecisions(core_.Finish({change->batch_id, {{11, std::nullopt, ""}}}, now_us_), now_us_);
  Decide();
  const auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(3));
  EXPECT_EQ(Parsed(actions.sends[0]).decision().global_t(), 11);
  EXPECT_TRUE(Parsed(actions.sends[1]).decision().older_catalog());
  EXPECT_EQ(Parsed(actions.sends[2]).decision().global_t(), 12) << "its table has not changed";
}

TEST_F(PrimaryCoreTest, AHoldIsGrantedWhenNoRowIsInFlightAndEndsWithTheChange) {
  Hello("x", 1, "a", 10);
  Hello("y", 2, "b", 10);
  Now();
  Certify("y", 'a', "in flight", 2);
  const auto in_flight = core_.NextBatch(now_us_);
  Hold("x", 1, {2});
  Certify("y", 'b', "waits", 2);
  Certify("y", 'c', "of another table", 1);
  EXPECT_THAT(Now().sends, IsEmpty());
  core_.AnnounceDecisions(core_.Finish({in_flight->batch_id, {{11, std::nullopt, ""}}}, now_us_), now_us_);
  const auto granted = Now();
  ASSERT_THAT(granted.sends, SizeIs(2));
  EXPECT_EQ(Parsed(granted.sends[0]).hold_reply().hold_id(), 1U);
  EXPECT_EQ(Parsed(granted.sends[0]).hold_reply().global_t(), 11);
  EXPECT_FALSE(Parsed(granted.sends[0]).hold_reply().ended());
  Decide();
  EXPECT_EQ(Parsed(Now().sends.at(0)).decision().tx_id()[0], 'c');
  Certify("x", 'd', OneChange(kCatalogVersion + 1, 2, {}), 12);
  Decide();
  const auto changed = Now();
  ASSERT_THAT(changed.sends, SizeIs(2));
  EXPECT_EQ(Parsed(changed.sends[0]).decision().global_t(), 13);
  EXPECT_EQ(Parsed(changed.sends[1]).decision().tx_id()[0], 'b');
  EXPECT_TRUE(Parsed(changed.sends[1]).decision().older_catalog());
}

TEST_F(PrimaryCoreTest, WhoHasWaitedForOneHoldDoesNotWaitForTheNextOne) {
  Hello("x", 1, "a", 10);
  Hello("y", 2, "b", 10);
  Hello("z", 3, "c", 10);
  Hold("x", 1, {2});
  Hold("z", 2, {2});
  Certify("y", 'a', "waits", 2);
  Now();
  Hello("x", 1, "a", 10);
  EXPECT_FALSE(std::ranges::any_of(Now().sends, [](const Core::Send& send) {
    return Parsed(send).has_hold_reply();
  })) << "it must be decided first";
  Decide();
  const auto actions = Now();
  EXPECT_THAT(Kinds(actions), testing::UnorderedElementsAre(proto::ToSemiPrimary::kHoldReply,
                                                            proto::ToSemiPrimary::kDecision));
}

TEST_F(PrimaryCoreTest, AnOutcomeThatIsAskedForLetsItsTransactionGoOn) {
  Hello("x", 1, "a", 10);
  Hello("y", 2, "b", 10);
  Hold("x", 1, {2});
  Certify("y", 'a', "waits", 2);
  proto::ToPrimary question;
  question.mutable_outcome_request()->set_tx_id(Id('a').ToBytes());
  Hear("y", question);
  Now();
  Decide();
  const auto actions = Now();
  ASSERT_THAT(Kinds(actions),
              ElementsAre(proto::ToSemiPrimary::kDecision, proto::ToSemiPrimary::kOutcomeReply));
  EXPECT_EQ(Parsed(actions.sends[0]).decision().global_t(), 11);
}

TEST_F(PrimaryCoreTest, AKeyIsReservedForWhoHasLostItTwice) {
  Hello("x", 1, "a", 10);
  Hello("y", 2, "b", 10);
  Lose("x", '1', "k");
  Certify("y", 'a', "k");
  Decide();
  Lost("x", "k");  // it has not asked this time
  Now();
  Certify("y", 'b', "k");
  EXPECT_FALSE(core_.NextBatch(now_us_).has_value());
  EXPECT_FALSE(core_.idle());
  Certify("x", 'c', "k");
  Decide();
  const auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(2));
  EXPECT_EQ(Parsed(actions.sends[0]).decision().tx_id()[0], 'c');
  EXPECT_EQ(Parsed(actions.sends[1]).decision().tx_id()[0], 'b');
  EXPECT_TRUE(core_.idle());
}

TEST_F(PrimaryCoreTest, LossesAgainstOnesOwnDoNotCount) {
  Hello("x", 1, "a", 10);
  Hello("y", 2, "b", 10);
  Lose("x", '1', "k", 1);
  Lose("x", '2', "k", 1);
  Certify("y", 'b', "k");
  EXPECT_TRUE(core_.NextBatch(now_us_).has_value());
}

TEST_F(PrimaryCoreTest, TransactionsOfFarOnesWaitForOneAnother) {
  Hello("x", 1, "a", 10);
  proto::ToPrimary heartbeat;
  heartbeat.mutable_heartbeat()->set_rtt_us(30'000);
  Hear("x", heartbeat);
  for (char id = 'A'; id <= 'Z'; ++id) {
    Certify("x", id, std::string(1, id));
    now_us_ += 2'000;
    Decide();
  }
  Certify("x", '1', "k");
  EXPECT_FALSE(core_.NextBatch(now_us_).has_value());
  EXPECT_EQ(core_.WaitUntilUs(now_us_), now_us_ + 2'000);
  Certify("x", '2', "l");
  now_us_ += 2'000;
  EXPECT_EQ(core_.WaitUntilUs(now_us_), std::nullopt);
  const auto batch = core_.NextBatch(now_us_);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(batch->items, SizeIs(2));
}

TEST_F(PrimaryCoreTest, AReservationEndsWithItsTime) {
  WaitForXsTurn();
  core_.OnTime(now_us_ += 999'999);
  EXPECT_FALSE(core_.NextBatch(now_us_).has_value());
  core_.OnTime(now_us_ += 1);
  EXPECT_TRUE(core_.NextBatch(now_us_).has_value());
}

TEST_F(PrimaryCoreTest, AReservationEndsWithTheConnection) {
  WaitForXsTurn();
  Hello("x", 1, "a", 10);
  core_.OnTime(now_us_);
  EXPECT_TRUE(core_.NextBatch(now_us_).has_value());
}

TEST_F(PrimaryCoreTest, AHoldThatWasGrantedMeanwhileMeetsNobodyWhoHasWaitedForAReservation) {
  WaitForXsTurn();
  Hello("z", 3, "c", 10);
  Hold("z", 1, {1});
  core_.OnTime(now_us_ += 1'000'000);
  EXPECT_FALSE(core_.NextBatch(now_us_).has_value());
  proto::ToPrimary question;
  question.mutable_outcome_request()->set_tx_id(Id('b').ToBytes());
  Hear("y", question);
  EXPECT_TRUE(core_.NextBatch(now_us_).has_value()) << "who asks lets it go on";
}

TEST_F(PrimaryCoreTest, TheHousekeeperHearsWhoIsConnected) {
  Hello("x", 1, "a", 10);
  core_.OnTime(now_us_);
  const HouseWork work = Now().house_works.at(0);
  ASSERT_EQ(work.presence.size(), 3U);
  EXPECT_TRUE(work.presence.at(1).is_connected);
  EXPECT_FALSE(work.presence.at(2).is_connected);
  now_us_ += 1'000'000;
  core_.OnTime(now_us_);
  EXPECT_THAT(Now().house_works.at(0).presence, IsEmpty());
  core_.OnHouseWorkRefused(work);
  now_us_ += 1'000'000;
  core_.OnTime(now_us_);
  EXPECT_EQ(Now().house_works.at(0).presence.size(), 3U);
}

TEST_F(PrimaryCoreTest, ASemiPrimaryHearsThatNothingCanBeDecided) {
  Hello("x", 1, "a", 10);
  Certify("x", 'a', "k");
  const auto batch = core_.NextBatch(now_us_);
  const auto hear = [this] {
    core_.OnTime(now_us_);
    Now();
    proto::ToPrimary heartbeat;
    heartbeat.mutable_heartbeat();
    Hear("x", heartbeat);
    return Parsed(Now().sends.at(0)).heartbeat_reply();
  };
  core_.OnSight({.copies = 1}, now_us_);
  EXPECT_FALSE(hear().has_standstill());
  now_us_ += 2'000'000;
  core_.OnSight({.copies = 1}, now_us_);
  const auto told = hear().standstill();
  EXPECT_THAT(told.why(), HasSubstr("0 of 1 have what was written"));
  EXPECT_EQ(told.age_us(), 2'000'000);
  core_.AnnounceDecisions(core_.Finish({batch->batch_id, {{11, std::nullopt, ""}}}, now_us_), now_us_);
  EXPECT_FALSE(hear().has_standstill());
}

TEST_F(PrimaryCoreTest, ASemiPrimaryHearsWhatIsReservedForIt) {
  WaitForXsTurn();
  Now();
  proto::ToPrimary heartbeat;
  heartbeat.mutable_heartbeat();
  now_us_ += 5000;
  Hear("x", heartbeat);
  Hear("y", heartbeat);
  const auto actions = Now();
  ASSERT_THAT(Kinds(actions),
              ElementsAre(proto::ToSemiPrimary::kHeartbeatReply, proto::ToSemiPrimary::kHeartbeatReply));
  const auto loser = Parsed(actions.sends[0]).heartbeat_reply();
  ASSERT_EQ(loser.reservations_size(), 1);
  EXPECT_EQ(loser.reservations(0).key(), "k");
  EXPECT_EQ(loser.reservations(0).keys(), 1U);
  EXPECT_EQ(loser.reservations(0).age_us(), 5000);
  EXPECT_EQ(loser.reservations(0).waiting(), 1U);
  EXPECT_EQ(Parsed(actions.sends[1]).heartbeat_reply().reservations_size(), 0);
}

TEST_F(PrimaryCoreTest, LossesAreReported) {
  Hello("x", 1, "a", 10);
  core_.OnTime(now_us_);
  EXPECT_THAT(Now().notes, Not(Contains(Field(&Note::text, HasSubstr("that lost")))));
  Lost("x", "k");
  Lost("x", "k");
  core_.OnTime(now_us_);
  EXPECT_THAT(Now().notes, Contains(Field(&Note::text, HasSubstr("that lost to another semi-primary: 2"))));
  core_.OnTime(now_us_ += 1'000'000);
  const auto works = Now().house_works;
  ASSERT_THAT(works, SizeIs(1));
  EXPECT_THAT(works[0].losses, testing::Optional(HasSubstr(R"({"sp_id":1,"losses_per_s":2.0,"losses":2,)")));
  core_.OnTime(now_us_ += 1'000'000);
  EXPECT_EQ(Now().house_works[0].losses, std::nullopt) << "nobody loses any more";
}

TEST_F(PrimaryCoreTest, WhoWaitsGoesOnWhenAHoldEndsWithoutAChange) {
  Hello("x", 1, "a", 10);
  Hello("y", 2, "b", 10);
  const std::vector<std::function<void()>> ends = {[this] {
                                                     proto::ToPrimary message;
                                                     message.mutable_end_hold()->set_transaction(1);
                                                     Hear("x", message);
                                                   },
                                                   [this] {
                                                     core_.OnTime(now_us_);
                                                     core_.OnTime(now_us_ += 2'000'000);
                                                   },
                                                   [this] { Hello("x", 1, "a", 10); },
                                                   [this] {
                                                     proto::ToPrimary message;
                                                     message.mutable_goodbye();
                                                     Hear("x", message);
                                                   }};
  char tx_id = 'a';
  for (const auto& end : ends) {
    Hold("x", 1, {2});
    Certify("y", tx_id, std::string(1, tx_id), 2);
    Decide();
    Now();
    end();
    Decide();
    std::vector<std::string> decided;
    for (const Core::Send& send : Now().sends) {
      if (Parsed(send).has_decision()) decided.push_back(Parsed(send).decision().tx_id());
    }
    EXPECT_THAT(decided, ElementsAre(std::string(16, tx_id)));
    ++tx_id;
  }
}

TEST_F(PrimaryCoreTest, ASchemaChangeMakesTheNextVersion) {
  Hello("x", 1, "a", 10);
  Now();
  proto::WriteSet other = OneChange(kCatalogVersion + 1, 2, {});
  other.mutable_rows(0)->set_key("another number");
  Certify("x", 'a', OneChange(kCatalogVersion, 1, {}));
  Certify("x", 'b', OneChange(kCatalogVersion + 2, 1, {}));
  Certify("x", 'c', OneChange(kCatalogVersion + 1, 1, {}));
  Certify("x", 'd', other);
  const auto works = Now().house_works;
  ASSERT_THAT(works, SizeIs(1));
  core_.OnHouseReport({works[0].number, Registry(), Tables({0, 1, 2}), 0}, now_us_);
  Decide();
  std::map<char, proto::Decision> decisions;
  for (const Core::Send& send : Now().sends) {
    const proto::Decision decision = Parsed(send).decision();
    decisions[decision.tx_id()[0]] = decision;
  }
  EXPECT_EQ(decisions['a'].error(), "another schema change has made version 3 of the catalog");
  EXPECT_TRUE(decisions['a'].older_catalog());
  EXPECT_EQ(decisions['b'].error(), "the primary does not know version 5 of the catalog");
  EXPECT_FALSE(decisions['b'].older_catalog());
  EXPECT_EQ(decisions['c'].global_t(), 11);
  EXPECT_EQ(decisions['d'].error(), "another schema change has made version 4 of the catalog");
  EXPECT_TRUE(decisions['d'].older_catalog());
}

TEST_F(PrimaryCoreTest, TheLastRowOfAKeyInASchemaChangeCounts) {
  Hello("x", 1, "a", 10);
  Now();
  proto::WriteSet change = OneChange(kCatalogVersion + 1, 8, {9});
  for (const auto& [table_id, image] :
       {std::pair{8U, "first"}, std::pair{1U, "other"}, std::pair{8U, "last"}}) {
    proto::Row* row = change.add_rows();
    row->set_table_id(table_id);
    row->set_key(Text("k"));
    row->set_image(Text(image));
  }
  proto::Row* guard = change.add_rows();
  guard->set_table_id(77);  // of an index that is gone again
  guard->set_key("g");
  guard->set_access(proto::ACCESS_GUARD);
  Certify("x", 'a', change);
  for (const HouseWork& work : Now().house_works) {
    core_.OnHouseReport({work.number, Registry(), Tables({0, 1, 2}), 0}, now_us_);
  }
  const auto batch = core_.NextBatch(now_us_);
  ASSERT_TRUE(batch.has_value());
  ASSERT_THAT(batch->items, SizeIs(1));
  EXPECT_EQ(batch->items[0].abort_reason, "");
  std::vector<std::string> images;
  for (const proto::Row& row : batch->items[0].request->rows.rows()) {
    if (row.table_id() != 0 && row.has_image()) images.push_back(row.image());
  }
  EXPECT_THAT(images, testing::ElementsAre(Text("other"), Text("last")));
}

TEST_F(PrimaryCoreTest, ARepeatedSchemaChangeGetsTheSameAnswer) {
  Hello("x", 1, "a", 10);
  Now();
  const proto::WriteSet change = OneChange(kCatalogVersion + 1, 1, {});
  Certify("x", 'a', change);
  Decide();
  Certify("x", 'a', change);
  const auto batch = core_.NextBatch(now_us_);
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->items[0].global_t, 0) << "nothing is written again";
  core_.AnnounceDecisions(core_.Finish({batch->batch_id, {{11, std::nullopt, ""}}}, now_us_), now_us_);
  const auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(2));
  EXPECT_EQ(Parsed(actions.sends[1]).decision().global_t(), 11);
}

TEST_F(PrimaryCoreTest, TheCatalogNeverGoesBack) {
  Hello("x", 1, "a", 10);
  Now();
  Certify("x", 'a', OneChange(kCatalogVersion + 1, 1, {8}));
  Decide();
  core_.OnHouseReport({0, Registry(), Tables({1, 2}), 0}, now_us_);  // read before the change
  Certify("x", 'b', "k");
  proto::WriteSet rows = OneRow(Text("k"));
  rows.mutable_rows(0)->set_image(Text("image"));
  rows.set_catalog_version(kCatalogVersion + 1);
  Certify("x", 'c', rows);
  rows.mutable_rows(0)->set_key(Text("other"));
  proto::Row* guard = rows.add_rows();
  guard->set_table_id(8);
  guard->set_key("value");
  guard->set_access(proto::ACCESS_GUARD);
  Certify("x", 'd', rows);
  Decide();
  const auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(4));
  EXPECT_TRUE(Parsed(actions.sends[1]).decision().older_catalog());
  EXPECT_EQ(Parsed(actions.sends[2]).decision().global_t(), 12);
  EXPECT_EQ(Parsed(actions.sends[3]).decision().global_t(), 13) << "its new guard is known";
}

TEST_F(PrimaryCoreTest, ANewerCatalogIsLookedUpBeforeItsTransactionIsRefused) {
  Hello("x", 1, "a", 10);
  Now();
  proto::WriteSet rows = OneRow("k");
  rows.set_catalog_version(kCatalogVersion + 1);
  Certify("x", 'a', rows);
  rows.set_catalog_version(kCatalogVersion + 2);
  Certify("x", 'b', rows);
  Certify("x", 'c', "k", 5);
  const auto works = Now().house_works;
  ASSERT_THAT(works, SizeIs(3));
  core_.OnHouseReport({works[2].number, Registry(), Tables({1, 5}, kCatalogVersion + 1), 0}, now_us_);
  Decide();
  const auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(3));
  EXPECT_EQ(Parsed(actions.sends[0]).decision().global_t(), 11);
  EXPECT_EQ(Parsed(actions.sends[1]).decision().error(),
            "the primary does not know version 5 of the catalog");
  EXPECT_FALSE(Parsed(actions.sends[1]).decision().older_catalog());
  EXPECT_EQ(Parsed(actions.sends[2]).decision().global_t(), 12);
}

TEST_F(PrimaryCoreTest, UnknownKindsAreRefusedAndLoggedOnce) {
  Hello("x", 1, "a", 10);
  Now();
  proto::WriteSet rows = OneRow("k");
  rows.mutable_rows(0)->set_access(static_cast<proto::AccessKind>(7));
  Certify("x", 'a', rows);
  proto::WriteSet entry = OneRow("k");
  entry.set_kind(static_cast<proto::EntryKind>(5));
  Certify("x", 'b', entry);
  entry = OneRow("k");
  entry.clear_catalog_version();
  Certify("x", 'c', entry);
  auto batch = core_.NextBatch(now_us_);
  ASSERT_TRUE(batch.has_value());
  ASSERT_THAT(batch->items, SizeIs(3));
  for (const BatchItem& item : batch->items) EXPECT_EQ(item.global_t, 0) << "nothing is written for it";
  EXPECT_EQ(batch->items[0].abort_reason, "unknown access kind 7 in a write-set");
  EXPECT_EQ(batch->items[1].abort_reason, "unknown kind 5 of an entry");
  EXPECT_EQ(batch->items[2].abort_reason, "malformed write-set: no catalog version");
  const auto notes = Now().notes;
  ASSERT_THAT(notes, SizeIs(3));
  for (const Note& note : notes) EXPECT_TRUE(note.once) << note.text;
}

TEST_F(PrimaryCoreTest, WhoStandsAheadOrBeforeTheLogIsRefused) {
  core_.OnHouseReport({0, Registry(), Tables({1}), 5}, now_us_);
  Hello("x", 1, "a", 10);
  Now();
  RequestStream("x", 11);
  auto actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(1));
  EXPECT_EQ(Parsed(actions.sends[0]).refused().reason(), proto::Refused::UNSPECIFIED);
  Hello("x", 1, "a", 5);
  Now();
  RequestStream("x", 4);
  actions = Now();
  ASSERT_THAT(actions.sends, SizeIs(1));
  EXPECT_EQ(Parsed(actions.sends[0]).refused().reason(), proto::Refused::LOG_TRUNCATED);
  Certify("x", 'a', "k");
  EXPECT_TRUE(Parsed(Now().sends.at(0)).welcome().say_hello()) << "it was forgotten";
}

TEST_F(PrimaryCoreTest, UnreachableIsForgottenUnlessItHasComeOverAnotherRoute) {
  Hello("x", 1, "a", 10);
  const auto old = Now().sends.at(0);
  Hello("y", 1, "a", 10);
  Now();
  core_.OnUnreachable(old);
  RequestStream("y", 10);
  const auto actions = Now();
  EXPECT_THAT(Kinds(actions), ElementsAre(proto::ToSemiPrimary::kReplicate));
  core_.OnUnreachable(actions.sends[0]);
  RequestStream("y", 10);
  EXPECT_TRUE(Parsed(Now().sends.at(0)).welcome().say_hello());
}

TEST_F(PrimaryCoreTest, CopyBeginsWhenItIsWrittenDownFromWhereTheLogIsNeeded) {
  Hello("x", 3, "c", 0);
  Now();
  RequestStream("x", 0, true);
  auto actions = Now();
  EXPECT_THAT(actions.copy_reads, IsEmpty());
  ASSERT_THAT(actions.house_works, SizeIs(1));
  EXPECT_THAT(actions.house_works[0].joins, ElementsAre(testing::Pair(3, 10)));
  core_.OnHouseWorkRefused(actions.house_works[0]);
  core_.OnHouseReport({actions.house_works[0].number, Registry(), Tables({1}), 0}, now_us_);
  EXPECT_THAT(Now().copy_reads, IsEmpty()) << "it was not written down";
  core_.OnTime(now_us_);
  actions = Now();
  ASSERT_THAT(actions.house_works, SizeIs(1));
  EXPECT_THAT(actions.house_works[0].joins, ElementsAre(testing::Pair(3, 10)));
  core_.OnHouseReport({actions.house_works[0].number, Registry(), Tables({1}), 0}, now_us_);
  actions = Now();
  ASSERT_THAT(actions.copy_reads, SizeIs(1));
  EXPECT_EQ(actions.copy_reads[0].snapshot_t, 10);
}

TEST_F(PrimaryCoreTest, CopyDoesNotBeginForWhoHasSaidHelloAgain) {
  Hello("x", 3, "c", 0);
  RequestStream("x", 0, true);
  const auto works = Now().house_works;
  Hello("x", 3, "c", 0);
  core_.OnHouseReport({works.at(0).number, Registry(), Tables({1}), 0}, now_us_);
  EXPECT_THAT(Now().copy_reads, IsEmpty());
}

// However much has become old: pieces follow one another without a minute in between.
TEST_F(PrimaryCoreTest, WhatIsLeftToRemoveIsAskedForSoon) {
  core_.OnTime(now_us_);
  auto works = Now().house_works;
  ASSERT_THAT(works, SizeIs(1));
  EXPECT_TRUE(works[0].sweep);
  core_.OnHouseReport({works[0].number, Registry(), Tables({1}), 0, false, true}, now_us_);
  core_.OnTime(now_us_ += 50'000);
  EXPECT_THAT(Now().house_works, IsEmpty()) << "batches come in between";
  core_.OnTime(now_us_ += 50'000);
  works = Now().house_works;
  ASSERT_THAT(works, SizeIs(1));
  EXPECT_TRUE(works[0].sweep);
  EXPECT_FALSE(works[0].truncate_log);
  core_.OnHouseReport({works[0].number, Registry(), Tables({1}), 0, true, false}, now_us_);
  core_.OnTime(now_us_ += 100'000);
  works = Now().house_works;
  ASSERT_THAT(works, SizeIs(1));
  EXPECT_FALSE(works[0].sweep);
  EXPECT_TRUE(works[0].truncate_log);
  core_.OnHouseReport({works[0].number, Registry(), Tables({1}), 0, false, false}, now_us_);
  core_.OnTime(now_us_ += 100'000);
  EXPECT_THAT(Now().house_works, IsEmpty());
}

TEST_F(PrimaryCoreTest, StoppingDecidesWhatIsInFlightAndNothingNew) {
  Hello("x", 1, "a", 10);
  Certify("x", 'a', "k");
  core_.Stop();
  Certify("x", 'b', "l");
  EXPECT_EQ(core_.undecided(), 1U);
  Decide();
  EXPECT_TRUE(core_.idle());
}

class HearingCoreTest : public PrimaryCoreTest {
 protected:
  HearingCoreTest() {
    Options options = PrimaryCoreTest::Options();
    options.hearing.hear_us = 2'000'000;
    auto registry = Registry();
    registry.pop_back();  // nobody else is registered
    const Start start{kCluster, kEpoch, 10, 0, registry, Tables({1}), {{"older", 1}, {"now", 11}},
                      {},       {0, 10}};
    hearing_.emplace(options, start);
  }
  using Options = Core::Options;
  using Start = Core::Start;

  // What is answered.
  std::vector<proto::ToSemiPrimary> Say(const std::string& route, SpId sp_id, const std::string& name,
                                        GlobalT newest_t, const std::string& followed = "older",
                                        bool look = false) {
    proto::ToPrimary message;
    proto::Hello* hello = message.mutable_hello();
    hello->set_cluster_id(kCluster);
    hello->set_sp_id(sp_id);
    hello->set_name(name);
    hello->set_incarnation(1);
    hello->set_watermark(newest_t);
    hello->set_newest_t(newest_t);
    hello->set_history("older");
    hello->set_followed(followed);
    hello->set_look(look);
    hello->set_protocol_version(kProtocolVersion);
    return Answers(route, std::move(message));
  }
  std::vector<proto::ToSemiPrimary> Answers(const std::string& route, proto::ToPrimary message) {
    hearing_->OnMessage(route, &message, now_us_);
    std::vector<proto::ToSemiPrimary> answers;
    for (const Core::Send& send : hearing_->TakeActions().sends) answers.push_back(Parsed(send));
    return answers;
  }
  std::optional<Core> hearing_;
};

TEST_F(HearingCoreTest, NobodyIsWelcomedBeforeAllAreHeard) {
  const auto first = Say("x", 1, "a", 10);
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].refused().reason(), proto::Refused::NOT_YET);
  EXPECT_EQ(hearing_->standstill()->cause, Standstill::Cause::kHearing);
  proto::ToPrimary certify;
  certify.set_epoch(kEpoch);
  certify.mutable_certify()->set_tx_id(Id('a').ToBytes());
  EXPECT_TRUE(Answers("x", certify).at(0).welcome().say_hello());
  EXPECT_TRUE(hearing_->idle());
  const auto last = Say("y", 2, "b", 10);
  ASSERT_THAT(last, SizeIs(2));
  EXPECT_TRUE(last[0].welcome().say_hello()) << "to the first one";
  EXPECT_FALSE(last[1].welcome().say_hello());
  EXPECT_FALSE(hearing_->standstill());
  EXPECT_EQ(Say("x", 1, "a", 10).at(0).welcome().closed_t(), 10);
}

TEST_F(HearingCoreTest, WhoIsAheadIsNotToldToJoinAgainAndNobodyIsWelcomed) {
  const auto ahead = Say("x", 1, "a", 15);
  EXPECT_EQ(ahead.at(0).refused().reason(), proto::Refused::LACKS);
  EXPECT_THAT(ahead.at(0).refused().message(), HasSubstr("lacks what semi-primary a has"));
  EXPECT_EQ(Say("y", 2, "b", 10).at(0).refused().reason(), proto::Refused::LACKS);
  EXPECT_EQ(Say("y", 2, "b", 10, "older", true).at(0).refused().reason(), proto::Refused::LACKS);
  EXPECT_EQ(hearing_->standstill()->cause, Standstill::Cause::kAhead);
  EXPECT_EQ(hearing_->Numbers(now_us_).standstill, Standstill::Cause::kAhead);
  EXPECT_THAT(Say("x", 1, "a", 15, ""), SizeIs(2));
  EXPECT_FALSE(hearing_->standstill());
}

TEST_F(HearingCoreTest, WhoHasFollowedANewerPrimaryHearsThatAndBlocks) {
  EXPECT_EQ(Say("x", 1, "a", 10, "newer").at(0).refused().reason(), proto::Refused::STALE_PRIMARY);
  EXPECT_EQ(Say("y", 2, "b", 10).at(0).refused().reason(), proto::Refused::LACKS);
}

TEST_F(HearingCoreTest, WhoLooksMayCome) {
  EXPECT_TRUE(Say("x", 1, "a", 10, "older", true).at(0).welcome().look());
  EXPECT_FALSE(hearing_->hearing().is_over());
}

TEST_F(HearingCoreTest, AfterItsTimeItBeginsWithThoseWhoAreThere) {
  Say("x", 1, "a", 10);
  for (int i = 0; i < 22; ++i) {
    now_us_ += 100'000;
    hearing_->OnAllRead(now_us_);
    if (i == 15) Say("x", 1, "a", 10);
  }
  const auto sends = hearing_->TakeActions().sends;
  ASSERT_THAT(sends, SizeIs(1));
  EXPECT_TRUE(Parsed(sends[0]).welcome().say_hello());
  EXPECT_THAT(hearing_->hearing().unheard(), ElementsAre("b"));
}

TEST_F(PrimaryCoreTest, WhoIsConnectedIsToldThatItEndsForPlannedWork) {
  Hello("x", 1, "a", 10);
  Now();
  core_.SayAway(30'000);
  const auto sends = Now().sends;
  ASSERT_THAT(sends, SizeIs(1));
  proto::ToSemiPrimary message;
  ASSERT_TRUE(message.ParseFromString(sends[0].bytes));
  EXPECT_EQ(sends[0].route, "x");
  EXPECT_EQ(message.away().limit_ms(), 30'000U);
  EXPECT_THAT(core_.unaware(), ElementsAre("a"));
  Hello("x", 1, "a", 10);  // asked before it has heard it
  EXPECT_THAT(Now().sends, IsEmpty());
  Goodbye("x");
  EXPECT_THAT(core_.unaware(), IsEmpty());
  Hello("x", 1, "a", 10);
  EXPECT_THAT(Now().sends, IsEmpty()) << "it waits for the next primary";
}

TEST_F(PrimaryCoreTest, WhoConnectsAfterwardsIsToldToo) {
  Hello("x", 1, "a", 10);
  core_.SayAway(30'000);
  Now();
  Hello("y", 1, "a", 10);  // its connection was lost with what was under way
  EXPECT_THAT(Kinds(Now()), ElementsAre(proto::ToSemiPrimary::kWelcome, proto::ToSemiPrimary::kAway));
  Goodbye("x");
  EXPECT_THAT(core_.unaware(), ElementsAre("a")) << "an answer over the lost connection";
  Goodbye("y");
  EXPECT_THAT(core_.unaware(), IsEmpty());
}

TEST_F(PrimaryCoreTest, WhoIsSilentIsNotWaitedForWhenItEnds) {
  Hello("x", 1, "a", 10);
  core_.SayAway(30'000);
  core_.OnTime(now_us_ + 3'000'000);
  EXPECT_THAT(core_.unaware(), IsEmpty());
}

TEST_F(PrimaryCoreTest, WhoLooksForAPrimaryFindsNoneThatEnds) {
  Hello("z", 2, "b", 10, true);
  EXPECT_THAT(Now().sends, SizeIs(1));
  core_.SayAway(30'000);
  Hello("z", 2, "b", 10, true);
  EXPECT_THAT(Now().sends, IsEmpty());
}

}  // namespace
}  // namespace psp::primary
