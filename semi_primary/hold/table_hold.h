// What a local schema change asks of the primary: that transactions of other semi-primaries which write its tables wait
// (primary/certify/table_holds.h). Pure; one thread; time (monotonic microseconds) is an argument.
//
// The asker, a backend before its statement, may go on when the primary has granted the hold and everything up to then is applied
// here, or when the time of the hold is over: COMMIT tells then. It asks again and again meanwhile, since each answer comes soon: so it can be cancelled in between.
//
// A change that has lost may be one that cannot ask: TRUNCATE has locked the table when psp hears of it. So its tables are held for a while, for
// the next attempt.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "semi_primary/front/local_commit.h"

namespace psp::sp {

class TableHold {
 public:
  // A new transaction's request ends that of the last one: schema changes run one after the other here.
  // The primary is asked when everything up to `closed_t` is applied: others must not wait for a semi-primary that lacks much.
  void Ask(const HoldRequest& request, GlobalT watermark, GlobalT closed_t, std::int64_t now_us);
  void AskerGone(Ticket ticket);
  // The transaction has ended, one way or the other.
  void OnTransactionEnded(std::uint64_t transaction);
  // A schema change of this semi-primary has lost, since it lacked rows of tables that it changes; or it has committed.
  void OnLost(std::set<std::uint32_t> table_ids, GlobalT watermark, GlobalT closed_t);
  void OnCommitted();

  // From the primary.
  void OnConnected();     // what is asked for is asked for again
  void OnDisconnected();  // who waits gets 08006
  void OnReply(const proto::HoldReply& reply, GlobalT watermark);

  void OnApplied(GlobalT watermark);
  // To be called several times a second.
  void OnTime(std::int64_t now_us);

  // The transaction whose end must be told; none for a next attempt, which has none yet.
  std::optional<std::uint64_t> transaction() const;

  // What to send since the last call.
  std::vector<CommitReply> TakeReplies() { return std::exchange(replies_, {}); }
  std::vector<proto::ToPrimary> TakeMessages() { return std::exchange(messages_, {}); }

 private:
  struct Asked {
    std::uint64_t transaction = 0;
    std::set<std::uint32_t> table_ids;
    std::uint32_t timeout_ms = 0;
    GlobalT ask_at_t = 0;        // when this is applied
    std::uint64_t first_id = 0;  // of its requests; 0: none is sent yet
    std::uint64_t newest_id = 0;
    std::optional<GlobalT> granted_t;  // by the answer to it
    bool ended = false;                // its time was over
  };

  void GoOn(GlobalT watermark);
  void Send();
  void Answer(FrontAnswer answer);

  bool connected_ = false;
  std::uint64_t last_id_ = 0;
  std::optional<Asked> asked_;
  Ticket asker_ = 0;  // 0: nobody waits
  std::int64_t since_us_ = 0;
  std::vector<CommitReply> replies_;
  std::vector<proto::ToPrimary> messages_;
};

}  // namespace psp::sp
