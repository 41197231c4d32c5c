#include "primary/core/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/log_line.h"

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<CertifyRequest> Request() {
  auto request = std::make_shared<CertifyRequest>();
  request->tx_id = *TxId::FromBytes(std::string(16, 'a'));
  request->sp_id = 1;
  request->watermark = 40;
  request->arrived_us = 1'000;
  request->admitted_us = 3'000;
  return request;
}

class RequestLogTest : public ::testing::Test {
 protected:
  void Choose(const CommitChoice& choice) {
    log_ = std::make_unique<RequestLog>(choice, [](SpId sp_id) { return "sp" + std::to_string(sp_id); });
  }
  void Decide(Verdict verdict) {
    Scheduler::Decided decided;
    decided.request = Request();
    decided.asked_to_certify = true;
    decided.verdict = std::move(verdict);
    log_->OnDecided(decided, 7, 3'500, 9'500);
  }
  static Verdict Committed() {
    Verdict verdict;
    verdict.global_t = 41;
    return verdict;
  }
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (const Note& note : log_->TakeNotes()) lines.push_back(EventText(note.event, note.fields));
    return lines;
  }

  const std::string who_ = "tx=61616161-6161-6161-6161-616161616161 sp=sp1 ";
  const std::string parts_ = " batch=7 total_ms=8.500 parked_ms=2.000 queue_ms=0.500 certify_ms=6.000";
  std::unique_ptr<RequestLog> log_;
};

TEST_F(RequestLogTest, SaysNothingUnlessAsked) {
  Choose({});
  log_->OnReceived(*Request());
  log_->OnParked(Request()->tx_id, 1, RequestLog::ParkedFor::kHold, 1'500);
  log_->OnBatchSent({7, {{Request(), 41, "", {}}}, {}}, 3'500);
  Decide(Committed());
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(RequestLogTest, FollowsARequestStepByStep) {
  Choose({.one_in = 1});
  log_->OnReceived(*Request());
  log_->OnParked(Request()->tx_id, 1, RequestLog::ParkedFor::kReservation, 1'500);
  log_->OnBatchSent({7, {{Request(), 41, "", {}}}, {}}, 3'500);
  Decide(Committed());
  EXPECT_THAT(Lines(), ElementsAre("request_received " + who_ + "watermark=40 bytes=0",
                                   "request_parked " + who_ + "for=reservation",
                                   "batch_sent " + who_ + "batch=7 transactions=1",
                                   "decided " + who_ + "outcome=committed global_t=41" + parts_));
}

TEST_F(RequestLogTest, TellsWhyOneHasNotCommitted) {
  Choose({.over_ms = 8});
  Verdict lost;
  lost.conflict = Conflict{{1, "k"}, 39, 2};
  lost.reason = "conflict";
  Decide(lost);
  Verdict refused;
  refused.reason = "a key of (7) is too long";
  refused.sqlstate = "54000";
  Decide(refused);
  EXPECT_THAT(Lines(), ElementsAre("decided " + who_ + "outcome=lost winner_t=39 winner_sp=sp2" + parts_,
                                   "decided " + who_ + "outcome=refused sqlstate=54000" + parts_));
}

TEST_F(RequestLogTest, AnOutcomeThatWasAskedForIsTold) {
  Scheduler::Decided decided;
  decided.request = Request();
  decided.asked_for_outcome = true;
  decided.verdict.reason = "its outcome was asked for before it was certified";
  Choose({});
  log_->OnOutcomeTold(decided, 9'500);
  EXPECT_THAT(Lines(), IsEmpty());
  Choose({.over_ms = 100});
  log_->OnOutcomeTold(decided, 9'500);
  decided.verdict = Committed();
  log_->OnOutcomeTold(decided, 9'500);
  EXPECT_THAT(Lines(), ElementsAre("outcome_told " + who_ + "outcome=aborted",
                                   "outcome_told " + who_ + "outcome=committed global_t=41"));
}

TEST_F(RequestLogTest, FastOnesAreNotTold) {
  Choose({.over_ms = 9});
  log_->OnReceived(*Request());
  Decide(Committed());
  EXPECT_THAT(Lines(), IsEmpty());
}

}  // namespace
}  // namespace psp::primary
