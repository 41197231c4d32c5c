// The core with a primary and an apply worker that are only the test itself.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/epochs_proto.h"
#include "semi_primary/core/core.h"

namespace psp::sp {

inline constexpr SpId kMe = 1;
inline constexpr SpId kOther = 2;
inline constexpr Epoch kEpoch = 7;
inline constexpr std::int64_t kTimeoutUs = 3'000'000;
inline const EpochStarts kEpochs = {{"older", 1}, {"now", 101}};

inline TxId Id(char number) { return *TxId::FromBytes(std::string(TxId::kSize, number)); }

inline WriteSetPtr Rows(const std::string& key) {
  auto write_set = std::make_shared<proto::WriteSet>();
  write_set->add_rows()->set_table_id(1);
  write_set->mutable_rows(0)->set_key(key);
  write_set->mutable_rows(0)->set_image("image");
  return write_set;
}

class SemiPrimaryCoreTest : public testing::Test {
 protected:
  Core::Actions Now() { return core_.TakeActions(); }

  void Hear(proto::ToSemiPrimary message, Epoch epoch = kEpoch) {
    message.set_epoch(epoch);
    core_.OnMessage(message, now_us_);
  }
  void Welcome(GlobalT closed_t = 0, Epoch epoch = kEpoch, const EpochStarts& epochs = kEpochs) {
    proto::ToSemiPrimary message;
    message.mutable_welcome()->set_closed_t(closed_t);
    for (const SpId sp_id : {kMe, kOther}) {
      proto::SemiPrimaryName* name = message.mutable_welcome()->add_semi_primaries();
      name->set_sp_id(sp_id);
      name->set_name("sp" + std::to_string(sp_id));
    }
    for (const EpochStart& one : epochs) AddTo(message.mutable_welcome()->mutable_epochs(), one);
    Hear(message, epoch);
  }
  void Started(GlobalT watermark, bool joining = false, const Commits& own = {}) {
    core_.OnApplyEvent(ApplyStarted{++generation_, watermark, joining, nullptr, own}, now_us_);
  }
  // The primary's daemon has restarted.
  void WelcomeAgain(GlobalT closed_t, const EpochStarts& epochs = kEpochs) {
    proto::ToSemiPrimary message;
    message.mutable_welcome()->set_say_hello(true);
    Hear(message, kEpoch + 1);
    core_.OnTime(now_us_);
    Now();
    Welcome(closed_t, kEpoch + 1, epochs);
  }
  // What Hello says after the connection was lost.
  proto::Hello LostAndHello() {
    now_us_ += kTimeoutUs + 1;
    core_.OnTime(now_us_);
    const auto actions = Now();
    return actions.messages.empty() ? proto::Hello() : actions.messages.back().hello();
  }
  static std::vector<std::tuple<GlobalT, std::string, std::string>> Own(const proto::Hello& hello) {
    std::vector<std::tuple<GlobalT, std::string, std::string>> own;
    for (const auto& one : hello.own_commits()) own.emplace_back(one.global_t(), one.tx_id(), one.history());
    return own;
  }
  // Connected and streaming.
  void Enter(GlobalT watermark = 0, bool joining = false) {
    Started(watermark, joining);
    core_.OnTime(now_us_);
    Welcome(watermark);
    Now();
  }
  void Submit(Ticket ticket, const WriteSetPtr& rows, GlobalT watermark = 0) {
    core_.Submit({ticket, Id(static_cast<char>(ticket)), {watermark, {}}, rows, rows->ByteSizeLong()},
                 now_us_);
  }
  static proto::ToSemiPrimary Replicate(GlobalT from_t, GlobalT closed_t) {
    proto::ToSemiPrimary message;
    message.mutable_replicate()->set_from_t(from_t);
    message.mutable_replicate()->set_closed_t(closed_t);
    return message;
  }
  static void Add(proto::ToSemiPrimary* message, GlobalT global_t, SpId sp_id, char id,
                  const WriteSetPtr& rows) {
    proto::Transaction* transaction = message->mutable_replicate()->add_transactions();
    transaction->set_global_t(global_t);
    transaction->set_sp_id(sp_id);
    transaction->set_tx_id(Id(id).ToBytes());
    if (rows) transaction->set_write_set(rows->SerializeAsString());
  }
  static proto::ToSemiPrimary Chunk(GlobalT snapshot_t, int rows, std::int64_t rows_done, bool last = false) {
    proto::ToSemiPrimary message;
    proto::CopyChunk* chunk = message.mutable_copy_chunk();
    chunk->set_snapshot_t(snapshot_t);
    for (int i = 0; i < rows; ++i) chunk->add_rows()->set_table_id(1);
    chunk->set_rows_done(rows_done);
    chunk->set_last(last);
    if (last) chunk->set_complete_t(snapshot_t);
    return message;
  }
  static std::vector<proto::ToPrimary::BodyCase> Kinds(const Core::Actions& actions) {
    std::vector<proto::ToPrimary::BodyCase> kinds;
    for (const proto::ToPrimary& message : actions.messages) kinds.push_back(message.body_case());
    return kinds;
  }
  static std::string Message(const CommitReply& reply) { return std::get<UserError>(reply.answer).message; }
  static std::string SqlState(const CommitReply& reply) {
    const auto* error = std::get_if<UserError>(&reply.answer);
    return error == nullptr ? "" : error->sqlstate;
  }

  std::int64_t now_us_ = 1'000'000;
  std::uint64_t generation_ = 0;
  Core core_{{.cluster_id = std::string(16, 'c'),
              .sp_id = kMe,
              .name = "sp1",
              .incarnation = 42,
              .watermark = 0,
              .epochs = kEpochs,
              .heartbeat_timeout_us = kTimeoutUs}};
};

}  // namespace psp::sp
