// SPDX-License-Identifier: PostgreSQL
// Transactions on psp from C++: the begin and commit of the thesis's section 3.4.3. The same program runs in
// views mode, in native mode and on a PostgreSQL without psp.
//
//   psp_client::Client client("host=sp1 dbname=shop");
//   client.Run([](pqxx::transaction_base& sql) {
//     sql.exec("UPDATE item SET stock = stock - 1 WHERE id = 7");
//   });
//
// Threads: only one thread at a time may use a Client.
//
// Errors: libpqxx's exceptions, the same in both modes, whether a statement or the commit has failed.
// - pqxx::serialization_failure (40001), pqxx::deadlock_detected (40P01): rolled back; Run tries again.
// - pqxx::transaction_rollback: aborted for another reason (class 40).
// - pqxx::broken_connection: PostgreSQL, or the primary of psp, cannot be reached (class 08).
// - OutcomeUnknown, a pqxx::in_doubt_error: committed or not; Commit(tx_id) asks again. Also of a transaction that is so old that
//   nobody knows it any more; views mode tells that by pqxx::sql_error with 25P01.
// - pqxx::in_doubt_error: in native mode, the connection was lost during COMMIT.
// - pqxx::sql_error: all others, by sqlstate(); 25P02: a statement had failed before.
// - pqxx::usage_error: a call out of place, such as a second Begin.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace psp_client {

// A transaction's uuid, as PostgreSQL writes it.
using TxId = std::string;

// kNative also on a PostgreSQL without psp, where everything works the same.
enum class Mode { kNative, kViews };

enum class Isolation { kReadCommitted, kRepeatableRead };

// kReadOnly: writing fails (25006), and no commit request is needed; the id is for Commit and Get only.
enum class Access { kReadWrite, kReadOnly };

struct Settings {
  Isolation isolation = Isolation::kRepeatableRead;  // unless Begin or Run says otherwise
  std::chrono::milliseconds retry_interval{2000};    // then an unanswered commit request is sent again
  std::chrono::milliseconds timeout{60000};          // after that the outcome counts as unknown
  std::string endpoint;  // the daemon's ZeroMQ address; empty: the database is asked for it
  // Run: the largest number of attempts. The pause after each is random, up to a bound that doubles from
  // first to longest.
  int attempts = 100;
  std::chrono::microseconds backoff_first{2000};
  std::chrono::microseconds backoff_longest{250000};
};

// What is known about a transaction. The last two are final.
enum class Status { kRunning, kWaiting, kPending, kCommitted, kAborted };

// A committed transaction.
struct Committed {
  TxId tx_id;
  std::optional<std::int64_t> global_t;  // its number at the primary, if known; 0: it has written nothing
};

// No answer came in time. The transaction may be committed or not; Client::Commit(tx_id) asks again at any
// time.
class OutcomeUnknown : public pqxx::in_doubt_error {
 public:
  OutcomeUnknown(TxId tx_id, const std::string& why);
  const TxId& tx_id() const { return tx_id_; }

 private:
  TxId tx_id_;
};

class Requests;

// One connection to a semi-primary's PostgreSQL. The destructor rolls back an open transaction; commits that
// were not waited for continue. It waits up to a second for commit requests that could not be sent yet.
class Client {
 public:
  // Connects with a libpq connection string and detects the mode. For hosts that do not answer, use libpq's
  // connect_timeout. Throws pqxx::broken_connection.
  explicit Client(std::string dsn, Settings settings = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Mode mode() const { return mode_; }

  // Begins a transaction and returns its id. Reconnects if the connection was lost.
  TxId Begin(Access access = Access::kReadWrite) { return Begin(settings_.isolation, access); }
  TxId Begin(Isolation isolation, Access access = Access::kReadWrite);

  // Runs the open transaction's statements, until Commit, CommitAsync or Abort. The client owns it; do not
  // begin or commit through it. Throws pqxx::usage_error if no transaction is open.
  pqxx::transaction_base& sql();

  // Commits the open transaction: in views mode PostgreSQL's COMMIT, then the commit request.
  Committed Commit();

  // Asks again about a transaction whose outcome is unknown, of this client or an earlier one; the answer is
  // always the same. In native mode only for the id of an OutcomeUnknown (PostgreSQL keeps no outcomes),
  // otherwise pqxx::usage_error.
  Committed Commit(const TxId& tx_id);

  // Commit in two steps. The connection is free for the next transaction while the request is under way. In
  // native mode the COMMIT has ended when this returns, and Get gives its result.
  TxId CommitAsync();

  // Waits for the outcome of a CommitAsync, once for each and in any order. Returns and throws what Commit
  // does.
  Committed Get(const TxId& tx_id);

  // A transaction's status, without asking for its commit. Throws what Commit(tx_id) does if it is not known.
  Status Outcome(const TxId& tx_id);

  // Rolls back the open transaction, if there is one.
  void Abort();

  // Runs function(pqxx::transaction_base&) in a transaction, commits, and returns the function's result.
  // After a serialization failure or deadlock it does all of this again. Any other exception rolls back and
  // is passed on; an unknown outcome is not retried. Inside an open transaction, such as another Run's, it
  // throws pqxx::usage_error and leaves that transaction as it is.
  template <class Function>
  auto Run(Function function, Access access = Access::kReadWrite) {
    return Run(std::move(function), settings_.isolation, access);
  }
  template <class Function>
  std::invoke_result_t<Function&, pqxx::transaction_base&> Run(Function function, Isolation isolation,
                                                               Access access = Access::kReadWrite) {
    RefuseSecond();
    for (int failures = 1;; ++failures) {
      try {
        Begin(isolation, access);
        if constexpr (std::is_void_v<std::invoke_result_t<Function&, pqxx::transaction_base&>>) {
          function(sql());
          Commit();
          return;
        } else {
          auto result = function(sql());
          Commit();
          return result;
        }
      } catch (...) {
        RollBackQuietly();
        PauseOrRethrow(failures);
      }
    }
  }

 private:
  // The outcome of a commit that was not waited for, or the number of its request.
  using Ticket = std::variant<std::uint64_t, Committed, std::exception_ptr>;

  void RefuseSecond() const;
  Ticket CommitByPostgres(const TxId& tx_id);
  void CommitInPostgres();
  Status AskDatabase(const TxId& tx_id) const;
  Committed AskDatabaseAgain(const TxId& tx_id) const;
  void RollBackQuietly() noexcept;
  // Called while the failure is being handled.
  void PauseOrRethrow(int failures) const;

  const std::string dsn_;
  const Settings settings_;
  Mode mode_ = Mode::kNative;
  std::unique_ptr<pqxx::connection> connection_;
  std::unique_ptr<pqxx::nontransaction> sql_;  // of the open transaction, whose BEGIN and COMMIT are ours
  TxId open_;                                  // empty: no transaction is open
  bool by_request_ = false;  // the open transaction needs psp's commit; else PostgreSQL's is all
  std::map<TxId, Ticket> tickets_;
  std::unique_ptr<Requests> requests_;  // in views mode
};

}  // namespace psp_client
