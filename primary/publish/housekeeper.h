// Keeps the books: acknowledgements, the log's beginning, what has become old, and what the psp command
// registers with SQL while the daemon runs. Holds the lock that makes this daemon the database's only one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/ids.h"
#include "common/pg_session.h"
#include "common/queue.h"
#include "primary/publish/housework.h"
#include "primary/publish/sweeper.h"

namespace psp::primary {

// TrySubmit and TakeReports belong to the main thread.
class Housekeeper {
 public:
  // `connect` connects a session, takes the database's lock and checks our epoch: kAbort when another daemon
  // has the lock. It is called at the start and after each loss of the session.
  using Connect = std::function<PgResult<Done>(PgSession&)>;

  struct Options {
    Connect connect;
    // Before each piece of work.
    std::function<PgResult<Done>(PgSession&)> observe_copies;
    // Called after each piece of work; returns when all that was read is on the required copies, or nothing when stopped.
    std::function<std::optional<PgResult<Done>>(PgSession&, std::stop_token)> prove;
    Sweeper::Retention retention{};
    // From this object's thread, when another daemon has the lock.
    std::function<void()> on_usurped;
  };

  // Owns the connected session.
  Housekeeper(std::unique_ptr<PgSession> session, const Options& options);
  ~Housekeeper();
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;

  // False, and nothing is taken, when older work is still waiting: offer it again later.
  bool TrySubmit(HouseWork& work) { return work_.TryPush(std::move(work)); }

  int fd() const { return reports_.fd(); }
  std::vector<HouseReport> TakeReports() { return reports_.TakeAll(); }

 private:
  void Run(std::stop_token stop);
  bool EnsureConnected(std::stop_token stop);
  // Nothing when stopped.
  std::optional<PgResult<HouseReport>> Do(const HouseWork& work, std::stop_token stop);
  PgResult<HouseReport> Write(const HouseWork& work);

  const Options options_;
  BoundedQueue<HouseWork> work_;
  Mailbox<HouseReport> reports_;
  // The thread's:
  std::unique_ptr<PgSession> session_;
  Sweeper sweeper_;
  std::jthread thread_;  // last: it uses all of the above
};

// What Do reads for its report, also read at the start.
std::vector<RegistryRow> ReadRegistry(pqxx::transaction_base& tx);

}  // namespace psp::primary
