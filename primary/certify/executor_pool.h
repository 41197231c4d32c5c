// The executors: threads with one PostgreSQL session each that decide batches, also when something happens to
// the session.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/pg_session.h"
#include "common/queue.h"
#include "primary/certify/types.h"

namespace psp::primary {

// Submit, free() and TakeResults belong to the main thread.
class ExecutorPool {
 public:
  struct Options {
    std::string database;  // libpq conninfo
    Epoch epoch = 0;  // this daemon's; another one in the database means that a newer daemon has taken over
    std::size_t executors = 2;
    // Called after each connect: false when another server has taken this one's place.
    std::function<PgResult<bool>(PgSession&)> is_same_server;
  };

  // `on_usurped` is called from an executor's thread when a newer daemon owns the database, or when another
  // server answers. Then nothing is decided.
  ExecutorPool(Options options, std::function<void()> on_usurped);
  // Ends the threads; a batch that cannot be decided now (PostgreSQL is away) is left undecided.
  ~ExecutorPool();
  ExecutorPool(const ExecutorPool&) = delete;
  ExecutorPool& operator=(const ExecutorPool&) = delete;

  // How many batches can be submitted now without waiting for another.
  std::size_t free() const { return options_.executors - busy_; }
  // Only while free() > 0.
  void Submit(Batch batch);

  // Readable when TakeResults has something.
  int fd() const { return results_.fd(); }
  std::vector<BatchResult> TakeResults();

 private:
  void Work(std::stop_token stop);
  // Tries until there are verdicts; nothing when stopped.
  std::vector<Verdict> Decide(PgSession& session, const Batch& batch, std::stop_token stop);
  std::vector<Verdict> DecideInHalves(PgSession& session, const Batch& batch, std::stop_token stop);
  bool Connect(PgSession& session, std::stop_token stop);

  const Options options_;
  const std::function<void()> on_usurped_;
  BoundedQueue<Batch> batches_;
  Mailbox<BatchResult> results_;
  std::size_t busy_ = 0;               // main thread's
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace psp::primary
