// Decides batches in one PostgreSQL session.
//
// The main loop sends a batch and takes its result when the session's socket is ready: nobody waits, and no other
// thread wakes up. All else is done by a thread of its own, which has the session meanwhile: connecting, schema changes, large
// batches, batches over an encrypted session, and a batch of which the main loop cannot tell what became.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/log.h"
#include "common/pg_session.h"
#include "common/poll_set.h"
#include "common/queue.h"
#include "primary/certify/batch_statement.h"
#include "primary/certify/copies.h"
#include "primary/certify/served_server.h"
#include "primary/certify/troubles.h"
#include "primary/certify/types.h"

namespace psp::primary {

struct ExecutorOptions {
  std::string database;  // libpq conninfo
  Epoch epoch = 0;  // this daemon's; another one in the database means that a newer daemon has taken over
  // Called after each connect: why this is not the server that the daemon serves; empty when it is.
  std::function<PgResult<std::string>(PgSession&)> other_server;
  std::shared_ptr<ServedServer> server;
  std::shared_ptr<const RequiredCopies> copies = std::make_shared<RequiredCopies>();
  bool may_use_module = false;  // where the server has psp_certify
  std::shared_ptr<std::atomic<int>> refused =
      std::make_shared<std::atomic<int>>(0);  // transactions of an error that came again
  std::shared_ptr<LogOnce> choice_logged = std::make_shared<LogOnce>();  // of all executors
  std::shared_ptr<Troubles> troubles = std::make_shared<Troubles>();
};

// What an executor has done.
struct ExecutorReport {
  std::optional<BatchResult> result;  // nothing: it had no batch
  Look look;                          // after that; of one that has only connected: proves nothing
};

// All but the constructor and destructor belong to the main thread.
class Executor {
 public:
  // Called on the executor's thread: OnReport is due.
  using Report = std::function<void(ExecutorReport)>;

  // `ready` tells by `name` when OnReady is due. `on_usurped` is called on the executor's thread when a newer daemon
  // owns the database, or when another server answers. Then nothing is decided.
  Executor(const ExecutorOptions& options, PollSet* ready, std::uint64_t name, Report report,
           std::function<void()> on_usurped);

  // Its thread ends as soon as it can; the destructor waits for it.
  void RequestStop() { thread_.request_stop(); }

  bool is_free() const { return has_session() && !sent_; }
  // False, too, while its thread has the session.
  bool has_session() const { return socket_ >= 0; }
  // What decides in its session; nothing without one.
  std::optional<CertifyBy> decides_by() const { return has_session() ? std::optional(by_) : std::nullopt; }
  // Only if it is free.
  void Submit(Batch batch);
  // Looks until the position is on the required copies. Only if it is free.
  void Prove(WalPosition position) { HandOver(position); }
  std::optional<ExecutorReport> OnReady();
  void OnReport();

 private:
  struct ConnectAgain {};
  using Task = std::variant<ConnectAgain, Batch, WalPosition>;

  // To the thread.
  void HandOver(Task task);

  // On the thread:
  void Work(std::stop_token stop);
  // Nothing when stopped.
  std::optional<ExecutorReport> Do(const Task& task, std::stop_token stop);
  std::optional<Look> LookUntil(WalPosition position, std::stop_token stop);
  // Tries until there are verdicts; nothing when stopped.
  std::vector<Verdict> Decide(const Batch& batch, CertifyBy by, std::stop_token stop);
  std::vector<Verdict> DecideInHalves(const Batch& batch, CertifyBy by, std::stop_token stop);
  // False when stopped.
  bool ConnectAfterTrouble(std::stop_token stop);
  bool Connect(std::stop_token stop);
  // False: the daemon must end. An error passes.
  PgResult<bool> IsOurs();
  PgResult<Done> ChooseStatement();
  void LogChoice(const std::string& objection);

  const ExecutorOptions options_;
  PollSet& ready_;
  const std::uint64_t name_;
  const Report report_;
  const std::function<void()> on_usurped_;
  BoundedQueue<Task> tasks_;
  // The thread's while socket_ is -1:
  PgSession session_;
  CertifyBy by_ = CertifyBy::kSql;
  // The main thread's:
  int socket_ = -1;
  std::optional<SentBatch> sent_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace psp::primary
