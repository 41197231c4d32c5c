// The executors, and their results, held until they are proven to be on the required copies. All functions belong to the main thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/poll_set.h"
#include "common/queue.h"
#include "primary/certify/executor.h"
#include "primary/certify/proof_gate.h"
#include "primary/certify/types.h"

namespace psp::primary {

class ExecutorPool {
 public:
  static constexpr std::size_t kHeldResultsMax = 64;

  // `on_usurped` is called from an executor's thread when a newer daemon owns the database, or when another
  // server answers. Then nothing is decided.
  ExecutorPool(const ExecutorOptions& options, std::size_t executors,
               const std::function<void()>& on_usurped);
  // A batch that cannot be decided now (PostgreSQL is away) is left undecided.
  ~ExecutorPool();
  ExecutorPool(const ExecutorPool&) = delete;
  ExecutorPool& operator=(const ExecutorPool&) = delete;

  // False, too, while so many results are held that no more batches should be decided.
  bool has_free() const;
  // Only while has_free().
  void Submit(Batch batch);

  // Whether an executor is known to have a session.
  bool has_session() const;
  // How many have one in which this decides.
  std::size_t sessions_by(CertifyBy by) const;
  std::size_t held_results() const { return gate_.held(); }
  // Of a batch that fails and is tried again.
  std::optional<PgError> trouble() const { return troubles_->Any(); }

  // Readable when TakeResults has something to do: there may be results, or a free executor again.
  int fd() const { return ready_.fd(); }
  std::vector<BatchResult> TakeResults();

 private:
  struct FromThread {
    std::size_t executor = 0;
    ExecutorReport report;
  };

  void Take(ExecutorReport report);
  // They are about to be told.
  void Note(const std::vector<BatchResult>& proven);
  void ProveWhatIsHeld();

  const std::shared_ptr<Troubles> troubles_;
  const std::shared_ptr<ServedServer> server_;
  PollSet ready_;
  Mailbox<FromThread> reports_;
  ProofGate gate_;
  std::optional<std::size_t> prover_;                 // the executor that looks for the gate
  std::vector<std::unique_ptr<Executor>> executors_;  // last: their threads use the others
};

}  // namespace psp::primary
