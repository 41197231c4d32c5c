// The real decisions of the apply worker, with a session that a test can read and break.
#include "semi_primary/apply/apply_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include "common/pg_binary.h"
#include "embedded/constants.h"
#include "semi_primary/apply/reaction.h"

namespace psp::sp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const PgError kLost{PgReaction::kReconnect, "57P01", "lost"};
const PgError kInDoubt{PgReaction::kInDoubt, "", "lost while committing"};
const PgError kDeadlock{PgReaction::kRetry, "40P01", "deadlock"};
const PgError kFull{PgReaction::kAbort, "53100", "disk full"};
const PgError kEnded{PgReaction::kAbort, "57014", "canceled"};
const PgError kPicky{PgReaction::kAbort, "23514", "check"};

std::string Key(std::int64_t id) {
  std::string value;
  AppendInt64(&value, id);
  std::string record;
  AppendRecord(&record, {{kOidInt8, value}});
  return record;
}

std::string Name(const ApplyStatement& statement) {
  struct Names {
    std::string operator()(const InsistOnLocks&) { return "insist"; }
    std::string operator()(const SetAside& aside) { return "aside " + std::to_string(aside.refusals.size()); }
    std::string operator()(const TakeAdvisoryLocks&) { return "locks"; }
    std::string operator()(const ClearTable&) { return "clear"; }
    std::string operator()(const BeginCopy&) { return "W=-1"; }
    std::string operator()(const DeleteRows&) { return "delete"; }
    std::string operator()(const MakeWay&) { return "make way"; }
    std::string operator()(const WriteRows& rows) { return rows.are_new ? "insert" : "upsert"; }
    std::string operator()(const ResolveOwn&) { return "resolve"; }
    std::string operator()(const ResetSession&) { return "reset"; }
    std::string operator()(const EndBatch& end) {
      return "W=" + std::to_string(end.upto) + (end.durable ? " durable" : "") +
             (end.joined ? " joined" : "");
    }
  };
  return std::visit(Names{}, statement);
}

// A database of which the test sees each transaction, and what was asked before it.
class FakeSession {
 public:
  explicit FakeSession(ApplyCore* core) : core_(*core) {}

  GlobalT watermark = 0;
  bool joining = false;
  Place place = Place::kSame;
  std::uint32_t catalog_version = 1;
  std::uint32_t tables = 1;  // 1, 2, …; each statement creates the next one
  std::set<GlobalT> proofs;
  std::deque<PgResult<Done>> results;    // of transactions that run, in this order; then all succeed
  bool commits_all_the_same = false;     // although the result is an error
  bool took_too_long = false;            // what fails was ended by the blocker watch
  std::optional<PgError> catalog_error;  // of the next catalog that is read in an open transaction
  int backend_stays = 0;                 // so many times a backend is still committing
  std::vector<std::string> log;
  std::int64_t now_us = 10'000'000;
  std::int64_t paused_ms = 0;

  // Until the core waits for steps, and `steps` are given to it.
  void Run(std::vector<ApplyStep> steps) {
    RunUntilIdle();
    core_.OnSteps(std::move(steps), now_us);
    RunUntilIdle();
  }
  void RunUntilIdle() {
    for (int i = 0; i < 1000; ++i) {
      const ApplyRequest request = core_.Next(now_us);
      if (std::holds_alternative<TakeSteps>(request) || std::holds_alternative<EndWorker>(request)) return;
      std::visit([this](const auto& one) { Do(one); }, request);
    }
    ADD_FAILURE() << "the core never waits for steps";
  }

 private:
  void Do(const ConnectSession&) {
    log.emplace_back("connect");
    core_.OnConnected();
  }
  void Do(const ReadPosition&) {
    log.emplace_back("position");
    core_.OnPosition(ApplyPosition{place, watermark, joining, {}, Catalog()});
  }
  void Do(const ClaimApply&) {
    log.emplace_back("claim");
    core_.OnClaimed(Done{});
  }
  void Do(const ReadCatalog& read) {
    log.emplace_back(read.in_open ? "catalog inside" : "catalog");
    EXPECT_TRUE(!read.in_open || tables_inside_);
    if (!read.in_open || !catalog_error) return core_.OnCatalog(Catalog());
    log.back() += " FAILS";
    tables_inside_.reset();
    core_.OnCatalog(*std::exchange(catalog_error, std::nullopt));
  }
  void Do(const TakeSteps&) {}
  void Do(const FindMissingProofs& find) {
    log.emplace_back("proofs");
    core_.OnMissingProofs(MissingOf(find.own));
  }
  void Do(const WaitForBackend&) {
    log.emplace_back("backend");
    core_.OnBackend(backend_stays-- <= 0);
  }
  void Do(const ApplyTemporaryRows&) {
    log.emplace_back("temporary");
    core_.OnTemporaryRows(Done{});
  }
  void Do(const RunStatements& run) {
    std::string text;
    for (const ApplyStatement& statement : run.statements)
      text += (text.empty() ? "" : " ") + Name(statement);
    if (!run.own.empty()) text = "if in: " + text;
    if (const auto missing = MissingOf(run.own); !missing.empty()) {
      log.push_back(text + " NOT IN");
      return core_.OnStatements(missing, now_us);
    }
    PgResult<Done> result = Done{};
    if (!results.empty()) {
      result = results.front();
      results.pop_front();
    }
    log.push_back((run.goes_on ? "… " : "") + text + (run.stays_open ? " …" : "") + (result ? "" : " FAILS"));
    EXPECT_TRUE(!run.goes_on || tables_inside_);
    const std::uint32_t before = run.goes_on ? *tables_inside_ : tables;
    tables_inside_.reset();
    if (result || commits_all_the_same) {
      const std::uint32_t after = before + StatementsIn(run);
      if (run.stays_open) {
        tables_inside_ = after;
      } else {
        tables = after;
      }
      if (const auto* end = std::get_if<EndBatch>(&run.statements.back())) watermark = end->upto;
    }
    if (!result && took_too_long) return core_.OnTookTooLong(result.error());
    if (!result) return core_.OnStatements(result.error(), now_us);
    core_.OnStatements(std::vector<GlobalT>(), now_us);
  }
  std::vector<GlobalT> MissingOf(const std::vector<GlobalT>& own) const {
    std::vector<GlobalT> missing;
    std::ranges::copy_if(own, std::back_inserter(missing),
                         [&](GlobalT one) { return !proofs.contains(one); });
    return missing;
  }
  static std::uint32_t StatementsIn(const RunStatements& run) {
    return static_cast<std::uint32_t>(std::ranges::count_if(run.statements, [](const ApplyStatement& one) {
      const auto* rows = std::get_if<WriteRows>(&one);
      return rows != nullptr && rows->table_id == kSchemaHistoryId;
    }));
  }
  void Do(const LookAlive&) {
    log.emplace_back("alive");
    core_.OnLookAlive(Done{});
  }
  void Do(const Pause& pause) {
    paused_ms += pause.ms;
    now_us += pause.ms * 1000;
    if (pause.disconnect) log.emplace_back("disconnect");
    core_.OnPaused();
  }
  void Do(const EndWorker&) {}

  TableCatalogPtr Catalog() const {
    const RowType int8 = {20000, {kOidInt8}};
    auto catalog = std::make_shared<TableCatalog>();
    catalog->version = catalog_version;
    for (std::uint32_t id = 1; id <= tables_inside_.value_or(tables); ++id) {
      catalog->tables[id] = {id, "public", "t", {"id"}, int8, int8};
    }
    catalog->tables[kSchemaHistoryId] = {kSchemaHistoryId, "psp", "schema_history", {"n"}, int8, int8};
    return catalog;
  }

  ApplyCore& core_;
  std::optional<std::uint32_t> tables_inside_;  // as the open transaction has them
};

class ApplyCoreTest : public ::testing::Test {
 protected:
  ApplyCoreTest() { session_.RunUntilIdle(); }

  static ApplyTransaction Writes(GlobalT global_t, bool own = false) {
    auto rows = std::make_shared<proto::WriteSet>();
    proto::Row* row = rows->add_rows();
    row->set_table_id(1);
    row->set_key(Key(global_t));
    row->set_image(Key(global_t));
    return {global_t, TxId(), own, rows};
  }
  static ApplyTransaction ChangesSchema(GlobalT global_t) {
    auto rows = std::make_shared<proto::WriteSet>();
    rows->set_kind(proto::ENTRY_SCHEMA_CHANGE);
    proto::Row* row = rows->add_rows();
    row->set_table_id(kSchemaHistoryId);
    row->set_key(Key(global_t));
    row->set_image(Key(global_t));
    return {global_t, TxId(), false, rows};
  }
  // A statement that creates table 2, a row of it, a statement that creates table 3, rows of both.
  static ApplyTransaction ChangesSchemaWithRows(GlobalT global_t) {
    auto rows = std::make_shared<proto::WriteSet>();
    rows->set_kind(proto::ENTRY_SCHEMA_CHANGE);
    rows->set_catalog_version(2);
    for (const int table_id : {kSchemaHistoryId, 2, kSchemaHistoryId, 2, 3}) {
      proto::Row* row = rows->add_rows();
      row->set_table_id(static_cast<std::uint32_t>(table_id));
      row->set_key(Key(global_t));
      row->set_image(Key(global_t));
    }
    return {global_t, TxId(), false, rows};
  }
  static ApplyTransaction Marker(GlobalT global_t) { return {global_t, TxId(), true, nullptr}; }
  static ApplyStep Step(std::vector<ApplyTransaction> transactions, std::uint64_t generation = 1) {
    ApplyStep step;
    step.generation = generation;
    step.closed_t = transactions.back().global_t;
    step.transactions = std::move(transactions);
    return step;
  }
  // What the worker has told last of how far it is.
  ApplyProgress Progress() const {
    for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
      if (const auto* progress = std::get_if<ApplyProgress>(&*event)) return *progress;
    }
    return {};
  }
  ApplyTrouble LastTrouble() const {
    for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
      if (const auto* trouble = std::get_if<ApplyTrouble>(&*event)) return *trouble;
    }
    return {};
  }
  std::ptrdiff_t CatalogsTold() const {
    return std::ranges::count_if(
        events_, [](const ApplyEvent& event) { return std::holds_alternative<ApplyCatalog>(event); });
  }
  // The log since the last call.
  std::vector<std::string> Log() { return std::exchange(session_.log, {}); }

  std::vector<ApplyEvent> events_;
  ApplyCore core_{
      {.ack_interval_us = 1'000'000, .conflict_grace_us = 1'000'000, .time_of_day = [] { return "noon"; }},
      [this](ApplyEvent event) { events_.push_back(std::move(event)); }};
  FakeSession session_{&core_};
};

TEST_F(ApplyCoreTest, RowsAndTheirWatermarkAreOneTransactionAndTheWatermarkIsLast) {
  EXPECT_THAT(Log(), ElementsAre("connect", "position", "claim"));
  session_.Run({Step({Writes(1), Writes(2)}), Step({Writes(3)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=3 durable"));
  session_.Run({Step({Writes(4)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=4"));
  EXPECT_EQ(Progress().watermark, 4);
  EXPECT_EQ(Progress().durable, 3);
}

TEST_F(ApplyCoreTest, WhatWantsNothingIsNotEndedByTheWatch) {
  EXPECT_FALSE(core_.IsEnded(0)) << "a session that is lost while W is made durable";
  core_.OnSteps({Step({Writes(1)})}, session_.now_us);
  ASSERT_TRUE(std::holds_alternative<RunStatements>(core_.Next(session_.now_us)));
  EXPECT_FALSE(core_.IsEnded(0));
  EXPECT_TRUE(core_.IsEnded(core_.wanting_since_us()));
}

TEST_F(ApplyCoreTest, NothingIsReportedBeforeItsCommit) {
  core_.OnSteps({Step({Writes(1)})}, session_.now_us);
  for (const PgError& error : {kDeadlock, kFull, kDeadlock}) {
    ASSERT_TRUE(std::holds_alternative<RunStatements>(core_.Next(session_.now_us)));
    EXPECT_EQ(Progress().watermark, 0);
    core_.OnStatements(error, session_.now_us);
    EXPECT_EQ(Progress().watermark, 0) << error.sqlstate;
    core_.OnPaused();
  }
  session_.RunUntilIdle();
  EXPECT_EQ(Progress().watermark, 1);
}

TEST_F(ApplyCoreTest, OwnCommitsAreProvenBeforeTheFirstRowIsLocked) {
  Log();
  session_.proofs = {2};
  session_.Run({Step({Writes(1), Marker(2)})});
  EXPECT_THAT(Log(), ElementsAre("if in: upsert W=2 durable"));
  session_.backend_stays = 2;
  session_.Run({Step({Writes(3), Writes(4, true)})});
  EXPECT_THAT(Log(), ElementsAre("if in: upsert W=4 NOT IN", "backend", "backend", "backend", "proofs",
                                 "upsert W=4"));
}

TEST_F(ApplyCoreTest, ABatchThatHasToBeginAgainLooksForItsProofsAgain) {
  Log();
  session_.proofs = {2, 4};
  session_.results = {kDeadlock, kPicky};
  session_.Run({Step({Writes(1), Marker(2)})});
  EXPECT_THAT(Log(), ElementsAre("if in: upsert W=2 durable FAILS", "if in: upsert W=2 durable FAILS",
                                 "if in: upsert W=1 durable", "W=2"));
  session_.results = {kLost};
  session_.Run({Step({Writes(3), Marker(4)})});
  EXPECT_THAT(Log(), ElementsAre("if in: upsert W=4 FAILS", "disconnect", "connect", "position", "claim"));
  session_.Run({Step({Writes(3)}, 2)});
  EXPECT_THAT(Log(), ElementsAre("upsert W=3 durable"));
}

TEST_F(ApplyCoreTest, AnOwnCommitWhoseRowsAreNotKnownIsAskedForAgain) {
  Log();
  session_.Run({Step({Marker(1)})});
  EXPECT_THAT(Log(), ElementsAre("if in: W=1 durable NOT IN", "backend", "proofs", "disconnect", "connect",
                                 "position", "claim"));
  EXPECT_EQ(session_.watermark, 0) << "nothing is skipped";
  session_.Run({Step({Writes(1, true)})});  // of the old stream
  EXPECT_EQ(session_.watermark, 0);
  session_.Run({Step({Writes(1, true)}, 2)});
  EXPECT_EQ(session_.watermark, 1);
}

TEST_F(ApplyCoreTest, AfterACommitInDoubtTheDatabaseTellsWhereItStands) {
  session_.Run({Step({Writes(1)})});
  Log();
  session_.results = {kInDoubt};
  session_.commits_all_the_same = true;
  session_.Run({Step({Writes(2)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=2 FAILS", "disconnect", "connect", "position", "claim"));
  const auto* started = std::get_if<ApplyStarted>(&events_.back());
  ASSERT_NE(started, nullptr);
  EXPECT_EQ(started->watermark, 2);
  EXPECT_EQ(started->generation, 2U);
}

TEST_F(ApplyCoreTest, ABatchThatFailsByItselfIsAppliedOneByOneAndThenWithoutOnConflict) {
  Log();
  session_.results = {kPicky, Done{}, kPicky, Done{}};
  session_.Run({Step({Writes(1), Writes(2), Writes(3)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=3 durable FAILS", "upsert W=1 durable", "upsert W=2 FAILS",
                                 "delete insert W=2", "upsert W=3"));
  EXPECT_EQ(LastTrouble().message, "");
}

TEST_F(ApplyCoreTest, ASchemaChangeIsAppliedBetweenTheTransactionsBeforeAndAfterIt) {
  Log();
  session_.Run({Step({Writes(1), Writes(2), ChangesSchema(3), ChangesSchema(4), Writes(5), Writes(6)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=2 durable", "upsert W=3", "catalog", "upsert W=4", "catalog",
                                 "upsert W=6"));
  session_.Run({Step({ChangesSchema(7)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=7", "catalog"));
  EXPECT_TRUE(std::holds_alternative<ApplyCatalog>(events_.back())) << "messages name today's tables";
}

TEST_F(ApplyCoreTest, ASchemaChangeThatFailsIsTriedWithoutWhatStandsInItsWay) {
  session_.results = {kPicky, kPicky};
  Log();
  session_.Run({Step({ChangesSchema(1)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=1 durable FAILS", "delete insert W=1 durable FAILS",
                                 "aside 1 delete insert W=1 durable", "catalog"));
  EXPECT_EQ(LastTrouble().message, "");
}

TEST_F(ApplyCoreTest, AnOwnSchemaChangeHasChangedTheCatalogBeforeAnythingIsBuilt) {
  Log();
  ApplyTransaction own = ChangesSchema(2);
  own.own = true;
  session_.proofs = {2};
  session_.Run({Step({Writes(1), own, Writes(3)})});
  EXPECT_THAT(Log(), ElementsAre("proofs", "catalog", "upsert W=3 durable"));
  session_.Run({Step({Writes(4)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=4"));
}

TEST_F(ApplyCoreTest, RowsAmongStatementsAreAppliedInOneTransactionWithTheCatalogThatTheyNeed) {
  Log();
  session_.Run({Step({Writes(1), ChangesSchemaWithRows(2), Writes(3)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=1 durable", "upsert reset …", "catalog inside", "… upsert reset …",
                                 "… upsert reset …", "catalog inside", "… upsert upsert W=2", "catalog",
                                 "upsert W=3"));
  EXPECT_EQ(LastTrouble().message, "");
}

TEST_F(ApplyCoreTest, AfterAnErrorInALaterSegmentTheFirstOneIsNext) {
  Log();
  session_.results = {Done{}, Done{}, kDeadlock};
  session_.catalog_error = kFull;
  session_.Run({Step({ChangesSchemaWithRows(1)})});
  EXPECT_THAT(Log(), ElementsAre("upsert reset …", "catalog inside FAILS",                             //
                                 "upsert reset …", "catalog inside", "… upsert reset … FAILS",         //
                                 "upsert reset …", "catalog inside", "… upsert reset …",               //
                                 "… upsert reset …", "catalog inside", "… upsert upsert W=1 durable",  //
                                 "catalog"));
  EXPECT_EQ(CatalogsTold(), 1) << "none that was rolled back";
  EXPECT_EQ(session_.tables, 3U);
}

TEST_F(ApplyCoreTest, WithoutOnConflictAllSegmentsAreAppliedAgain) {
  Log();
  session_.results = {Done{}, Done{}, Done{}, kPicky};
  session_.Run({Step({ChangesSchemaWithRows(1)})});
  EXPECT_THAT(Log(), ElementsAre("upsert reset …", "catalog inside", "… upsert reset …", "… upsert reset …",
                                 "catalog inside", "… upsert upsert W=1 durable FAILS",  //
                                 "delete insert reset …", "catalog inside", "… delete insert reset …",
                                 "… delete insert reset …", "catalog inside",
                                 "… delete insert delete insert W=1 durable", "catalog"));
}

TEST_F(ApplyCoreTest, WhatRefusesRowsBehindAStatementIsSetAsideForThem) {
  Log();
  session_.results = {Done{}, kPicky, Done{}, kPicky};
  session_.Run({Step({ChangesSchemaWithRows(1)})});
  const std::vector<std::string> log = Log();
  EXPECT_THAT(std::vector(log.begin() + 6, log.end()),
              ElementsAre("delete insert reset …", "catalog inside", "… aside 1 delete insert reset …",
                          "… delete insert reset …", "catalog inside",
                          "… aside 1 delete insert delete insert W=1 durable", "catalog"))
      << "not before the statement: there nothing was refused";
  EXPECT_EQ(LastTrouble().message, "");
}

TEST_F(ApplyCoreTest, ASegmentThatCannotBeAppliedStopsAndNothingIsTold) {
  for (int i = 0; i < 3; ++i) session_.results.insert(session_.results.end(), {Done{}, kPicky});
  session_.Run({Step({ChangesSchemaWithRows(1)})});
  EXPECT_TRUE(LastTrouble().stops);
  EXPECT_EQ(CatalogsTold(), 0);
  EXPECT_EQ(Progress().watermark, 0);
  ApplyTransaction lacks_a_table = ChangesSchemaWithRows(1);
  auto rows = std::make_shared<proto::WriteSet>(*lacks_a_table.write_set);
  rows->mutable_rows(1)->set_table_id(4);
  lacks_a_table.write_set = rows;
  session_.Run({Step({lacks_a_table}, 2)});
  EXPECT_THAT(LastTrouble().message, HasSubstr("table_id 4 is not in psp.tables"));
  session_.Run({Step({ChangesSchemaWithRows(1)}, 3)});
  EXPECT_EQ(LastTrouble().message, "") << "it is over";
  EXPECT_EQ(CatalogsTold(), 1);
}

TEST_F(ApplyCoreTest, ASegmentThatLosesEachTimeIsTriedSlowerAndSlowerAndInsists) {
  for (int i = 0; i < 20; ++i) {
    session_.results.insert(session_.results.end(), {Done{}, Done{}, Done{}, kDeadlock});
  }
  session_.Run({Step({ChangesSchemaWithRows(1)})});
  EXPECT_GE(session_.paused_ms, 20'000);
  const std::vector<std::string> log = Log();
  EXPECT_EQ(log.at(log.size() - 2), "… insist upsert upsert W=1 durable");
  EXPECT_EQ(core_.wanting_since_us(), 0);
}

TEST_F(ApplyCoreTest, BetweenTwoSegmentsItHoldsLocksAndHasToldNothing) {
  events_.clear();
  core_.OnSteps({Step({ChangesSchemaWithRows(1)})}, session_.now_us);
  core_.Next(session_.now_us);
  core_.OnStatements(std::vector<GlobalT>(), session_.now_us);
  EXPECT_EQ(core_.wanting_since_us(), session_.now_us);
  EXPECT_TRUE(events_.empty());
}

TEST_F(ApplyCoreTest, WhenItStopsAnOpenTransactionIsRolledBack) {
  core_.OnSteps({Step({ChangesSchemaWithRows(1)})}, session_.now_us);
  core_.OnStatements(std::vector<GlobalT>(), session_.now_us);
  ASSERT_TRUE(std::get<ReadCatalog>(core_.Next(session_.now_us)).in_open);
  core_.Stop();
  const auto last = std::get<RunStatements>(core_.Next(session_.now_us));
  EXPECT_FALSE(last.goes_on);
  EXPECT_EQ(std::get<EndBatch>(last.statements.at(0)).upto, 0);
}

TEST_F(ApplyCoreTest, WhatRefusesRowsIsSetAsideOneByOne) {
  const PgError other{PgReaction::kAbort, "54000", "too long"};
  Log();
  session_.results = {kPicky, kPicky, kDeadlock, other};
  session_.Run({Step({Writes(1)})});
  EXPECT_THAT(
      Log(), ElementsAre("upsert W=1 durable FAILS", "delete insert W=1 durable FAILS",
                         "aside 1 delete insert W=1 durable FAILS", "aside 1 delete insert W=1 durable FAILS",
                         "aside 2 delete insert W=1 durable"));
  session_.Run({Step({Writes(2)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=2"));
}

TEST_F(ApplyCoreTest, RowsThatDoNotEndAreTriedOnceAgainThenOneByOneThenWhatMayHoldThemMakesWay) {
  Log();
  session_.took_too_long = true;
  session_.results = {kEnded, kEnded};
  session_.Run({Step({Writes(1), Writes(2)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=2 durable FAILS", "upsert W=2 durable FAILS", "upsert W=1 durable",
                                 "upsert W=2"));
  session_.results = {kEnded, kEnded};
  session_.Run({Step({Writes(3)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=3 FAILS", "upsert W=3 FAILS", "aside 1 upsert W=3"));
  session_.results = {kEnded, kEnded, kEnded};
  session_.Run({Step({Writes(4)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=4 FAILS", "upsert W=4 FAILS", "aside 1 upsert W=4 FAILS",
                                 "disconnect", "connect", "position", "claim"));
  EXPECT_TRUE(LastTrouble().stops);
  EXPECT_THAT(LastTrouble().message, HasSubstr("57014 canceled; ways out"));
}

TEST_F(ApplyCoreTest, RowsThatCatchTheirCancelAreTold) {
  Log();
  session_.took_too_long = true;
  session_.results = {kLost};
  session_.Run({Step({Writes(1)})});
  EXPECT_TRUE(LastTrouble().stops);
}

TEST_F(ApplyCoreTest, WhatCannotBeAppliedStopsWithItsReasonAndSkipsNothing) {
  Log();
  session_.results = {kPicky, kPicky, kPicky, kPicky};
  session_.Run({Step({Writes(1), Writes(2)})});
  EXPECT_THAT(Log(), ElementsAre("upsert W=2 durable FAILS", "upsert W=1 durable FAILS",
                                 "delete insert W=1 durable FAILS", "aside 1 delete insert W=1 durable FAILS",
                                 "disconnect", "connect", "position", "claim"));
  EXPECT_TRUE(LastTrouble().stops);
  EXPECT_THAT(LastTrouble().message, HasSubstr("has stopped since noon: 23514 check"));
  session_.results.clear();
  session_.Run({Step({Writes(1), Writes(2)}, 2)});
  EXPECT_EQ(session_.watermark, 2);
  EXPECT_EQ(LastTrouble().message, "") << "it is over";
}

TEST_F(ApplyCoreTest, ADeadlockIsTriedAgainAtOnceAndTheWorkerInsistsAfterTheGrace) {
  Log();
  session_.results = {kDeadlock, kDeadlock};
  session_.Run({Step({Writes(1)})});
  EXPECT_EQ(session_.paused_ms, 0);
  Log();
  for (int i = 0; i < 13; ++i) session_.results.emplace_back(kDeadlock);  // pauses of 1, 2, 4 … ms
  session_.Run({Step({Writes(2)})});
  EXPECT_EQ(session_.log.front(), "upsert W=2 FAILS");
  EXPECT_THAT(session_.log.back(), HasSubstr("insist upsert W=2"));
  EXPECT_EQ(core_.wanting_since_us(), 0);
}

TEST_F(ApplyCoreTest, CodeThatRaises40001EachTimeIsTriedSlowerAndSlowerAndIsTold) {
  const PgError raised{PgReaction::kRetry, "40001", "always"};
  for (int i = 0; i < 20; ++i) session_.results.emplace_back(raised);
  session_.Run({Step({Writes(1)})});
  EXPECT_GE(session_.paused_ms, 20'000);
  bool is_told = false;
  for (const ApplyEvent& event : events_) {
    const auto* trouble = std::get_if<ApplyTrouble>(&event);
    is_told =
        is_told || (trouble != nullptr && trouble->message == "applying waits since noon: 40001 always");
  }
  EXPECT_TRUE(is_told);
  EXPECT_EQ(LastTrouble().message, "") << "it is over";
  EXPECT_EQ(session_.watermark, 1);
}

TEST_F(ApplyCoreTest, ACopyIsJoinedWhenTheLogHasBroughtWhatItLeftOut) {
  session_.joining = true;
  session_.results = {kLost};
  session_.Run({Step({Writes(1)})});  // begins again, and joins now
  Log();
  ApplyStep first = Step({Writes(5)}, 2);
  first.copied_rows = first.transactions[0].write_set;
  first.copy_begins = true;
  ApplyStep last = first;
  last.copy_begins = false;
  last.copy_is_complete = true;
  last.complete_t = 7;
  session_.Run({first});
  session_.Run({last});
  EXPECT_TRUE(Progress().joining);
  session_.Run({Step({Writes(6)}, 2)});
  EXPECT_TRUE(Progress().joining);
  session_.Run({Step({Writes(7)}, 2)});
  EXPECT_FALSE(Progress().joining);
  EXPECT_THAT(Log(), ElementsAre("clear clear W=-1 insert reset", "insert W=5", "upsert W=6",
                                 "upsert W=7 joined", "catalog"));
}

TEST_F(ApplyCoreTest, ARowThatIsInTheWayOfACopyIsReplaced) {
  session_.joining = true;
  session_.results = {kLost};
  session_.Run({Step({Writes(1)})});  // begins again, and joins now
  Log();
  ApplyStep copy = Step({Writes(5)}, 2);
  copy.copied_rows = copy.transactions[0].write_set;
  copy.copy_begins = true;
  session_.results = {kPicky};
  session_.Run({copy});
  EXPECT_THAT(Log(),
              ElementsAre("clear clear W=-1 insert reset FAILS", "clear clear W=-1 delete insert reset"));
}

TEST_F(ApplyCoreTest, WhatRefusesARowOfACopyIsSetAside) {
  session_.joining = true;
  session_.results = {kLost};
  session_.Run({Step({Writes(1)})});  // begins again, and joins now
  ApplyStep copy = Step({Writes(5)}, 2);
  copy.copied_rows = copy.transactions[0].write_set;
  copy.copy_begins = true;
  session_.results = {kPicky, kPicky};
  Log();
  session_.Run({copy});
  EXPECT_THAT(Log(),
              ElementsAre("clear clear W=-1 insert reset FAILS", "clear clear W=-1 delete insert reset FAILS",
                          "clear clear W=-1 aside 1 delete insert reset"));
}

TEST_F(ApplyCoreTest, ASchemaChangeThatFailsOnAnIncompleteCopyMakesTheCopyBeginAgain) {
  session_.joining = true;
  session_.results = {kLost};
  session_.Run({Step({Writes(1)})});  // begins again, and joins now
  ApplyStep copy = Step({Writes(5)}, 2);
  copy.copied_rows = copy.transactions[0].write_set;
  copy.copy_begins = true;
  copy.copy_is_complete = true;
  copy.complete_t = 7;
  session_.Run({copy});
  Log();
  session_.results = {Done{}, kPicky, kPicky};
  session_.Run({Step({Writes(6), ChangesSchema(7)}, 2)});
  EXPECT_THAT(Log(), ElementsAre("upsert W=6", "upsert W=7 joined FAILS", "delete insert W=7 joined FAILS",
                                 "disconnect", "connect", "position", "claim"));
  const auto* started = std::get_if<ApplyStarted>(&events_.back());
  ASSERT_NE(started, nullptr);
  EXPECT_TRUE(started->joining) << "so the copy is asked for";
  EXPECT_EQ(LastTrouble().message, "") << "nobody has to do anything";
}

TEST_F(ApplyCoreTest, AStatementOfACopyHasRunBeforeTheRowsThatNeedItsTables) {
  session_.joining = true;
  session_.watermark = -1;
  session_.results = {kLost};
  session_.Run({Step({Writes(1)})});  // begins again, and joins now
  Log();
  ApplyStep statement = Step({ChangesSchema(5)}, 2);
  auto its_row = std::make_shared<proto::WriteSet>(*statement.transactions[0].write_set);
  its_row->set_catalog_version(2);
  statement.copied_rows = its_row;
  statement.copy_begins = true;
  session_.catalog_version = 2;  // it makes this one
  ApplyStep rows = Step({Writes(5)}, 2);
  auto its_rows = std::make_shared<proto::WriteSet>(*rows.transactions[0].write_set);
  its_rows->set_catalog_version(2);
  rows.copied_rows = its_rows;
  session_.Run({statement});
  session_.Run({rows});
  EXPECT_THAT(Log(), ElementsAre("clear clear W=-1 insert reset", "catalog", "insert reset"));
}

// The tables of a joining semi-primary are as of one version of the catalog, and the copy may be of a newer one.
TEST_F(ApplyCoreTest, ACopyOfAnUnknownVersionOfTheCatalogIsNotStored) {
  session_.joining = true;
  session_.watermark = -1;
  session_.results = {kLost};
  session_.Run({Step({Writes(1)})});  // begins again, and joins now
  Log();
  ApplyStep chunk = Step({Writes(5)}, 2);
  auto rows = std::make_shared<proto::WriteSet>(*chunk.transactions[0].write_set);
  rows->set_catalog_version(2);
  chunk.copied_rows = rows;
  chunk.copy_begins = true;
  session_.Run({chunk});
  EXPECT_THAT(Log(), ElementsAre("catalog", "disconnect", "connect", "position", "claim"));
  EXPECT_TRUE(LastTrouble().stops);
  EXPECT_THAT(LastTrouble().message,
              testing::HasSubstr("version 2 of the catalog, this semi-primary has version 1"));
  session_.catalog_version = 2;
  chunk.generation = 3;
  chunk.copy_is_complete = true;
  chunk.complete_t = 5;
  session_.Run({chunk});
  EXPECT_THAT(Log(), ElementsAre("catalog", "clear clear W=-1 insert W=5 joined", "catalog"));
  EXPECT_EQ(LastTrouble().message, "") << "it is over";
}

TEST_F(ApplyCoreTest, WhenItStopsItMakesDurableWhatIsApplied) {
  session_.Run({Step({Writes(1)})});
  session_.Run({Step({Writes(2)})});
  Log();
  core_.Stop();
  session_.RunUntilIdle();
  core_.Stop();
  EXPECT_TRUE(std::holds_alternative<EndWorker>(core_.Next(session_.now_us)));
  EXPECT_THAT(Log(), ElementsAre("W=2 durable"));
}

TEST_F(ApplyCoreTest, NothingIsWrittenToAnotherDatabase) {
  session_.results = {kLost};
  session_.place = Place::kOther;
  session_.Run({Step({Writes(1)})});
  Log();
  EXPECT_TRUE(std::holds_alternative<EndWorker>(core_.Next(session_.now_us)));
  EXPECT_FALSE(std::get<ApplyFailed>(events_.back()).begins_again);
}

TEST_F(ApplyCoreTest, AServerThatWasPromotedIsForTheNextStart) {
  session_.results = {kLost};
  session_.place = Place::kPromoted;
  session_.Run({Step({Writes(1)})});
  Log();
  EXPECT_TRUE(std::holds_alternative<EndWorker>(core_.Next(session_.now_us)));
  EXPECT_TRUE(std::get<ApplyFailed>(events_.back()).begins_again);
}

TEST(ApplyCoreViewsMode, OwnRowsThatAreAppliedHereAreResolvedBeforeTheWatermark) {
  ApplyCore core({.views_mode = true, .time_of_day = [] { return "noon"; }}, [](const ApplyEvent&) {});
  FakeSession session(&core);
  session.RunUntilIdle();
  session.log.clear();
  ApplyStep step;
  step.generation = 1;
  step.closed_t = 1;
  auto rows = std::make_shared<proto::WriteSet>();
  rows->add_rows()->set_table_id(1);
  rows->mutable_rows(0)->set_key(Key(1));
  rows->mutable_rows(0)->set_image(Key(1));
  step.transactions = {{1, TxId(), true, rows}};
  session.Run({step});
  EXPECT_THAT(session.log, ElementsAre("proofs", "temporary", "proofs", "upsert resolve W=1 durable"));
}

}  // namespace
}  // namespace psp::sp
