// What the log tells of single transactions at this semi-primary: its own COMMITs, and what others have committed. The
// events and their fields are in docs/operating.md, and psp trace reads them. Pure; one thread; times are monotonic
// microseconds. While it is off, nothing is remembered.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/commit_choice.h"
#include "common/note.h"
#include "semi_primary/front/local_commit.h"

namespace psp::sp {

class CommitLog {
 public:
  using SpNames = std::function<std::string(SpId)>;

  CommitLog(const CommitChoice& choice, std::string sp_name, SpNames name_of)
      : choice_(choice), sp_name_(std::move(sp_name)), name_of_(std::move(name_of)) {}

  void OnReceived(const Submission& submission, std::int64_t now_us);
  // To the primary; again after a lost connection.
  void OnSent(const TxId& tx_id, std::int64_t now_us);
  // A reply to a COMMIT has left.
  void OnAnswered(const CommitEnd& end, std::int64_t now_us);
  // A transaction of another semi-primary has come with the stream.
  void OnRemote(GlobalT global_t, const TxId& tx_id, SpId sp_id, std::int64_t now_us);
  // Everything up to here is applied.
  void OnApplied(GlobalT watermark, std::int64_t now_us);
  // The stream begins again: what was not applied comes again.
  void OnStreamReset() { remote_.clear(); }

  std::vector<Note> TakeNotes() { return std::exchange(notes_, {}); }

 private:
  struct Remote {
    GlobalT global_t = 0;
    TxId tx_id;
    SpId sp_id = 0;
    std::int64_t arrived_us = 0;
  };

  std::vector<LogField>& Add(std::string_view event, const TxId& tx_id, std::int64_t at_us);

  const CommitChoice choice_;
  const std::string sp_name_;
  const SpNames name_of_;
  std::deque<Remote> remote_;  // not applied yet; ascending
  std::vector<Note> notes_;
};

}  // namespace psp::sp
