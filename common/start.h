// The start of a daemon when its PostgreSQL is not there yet: after a reboot both come up in any order.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/pg_errors.h"
#include "common/result.h"
#include "common/signals.h"

namespace psp {

struct StartProblem {
  enum class Kind {
    kConfiguration,  // an operator must change it: the daemon ends with code 2, and its unit leaves it down
    kTaken,          // another daemon serves: this one ends with code 1, and its unit restarts it
    kPasses,         // the daemon waits and tries again
    kNotItsTurn,     // the same, and looks twice a second, since it is to serve soon after its turn has come
  };
  Kind kind = Kind::kConfiguration;
  std::string what;
};

// After a failed connection: kConfiguration when `conninfo` cannot be parsed, or when the server answers that
// the database, the role or its right to connect is not there; else kPasses.
StartProblem CannotConnect(const std::string& conninfo, const PgError& error);

// After a failed statement of the start.
StartProblem CannotStart(const std::string& what, const PgError& error);

// Waits between the attempts, each time longer; logs each problem when it is new.
class StartAttempts {
 public:
  explicit StartAttempts(StopSignals& stop) : stop_(stop) {}

  // Runs `attempt`, which returns Result<T, StartProblem>, until it succeeds. Nothing when the daemon has to
  // end with exit_code() instead.
  template <class Attempt>
  auto Run(Attempt attempt) {
    auto result = attempt();
    while (!result.ok() && MayTryAgain(result.error())) result = attempt();
    using Value = std::remove_reference_t<decltype(result.value())>;
    return result.ok() ? std::optional<Value>(std::move(result.value())) : std::nullopt;
  }
  int exit_code() const { return exit_code_; }

 private:
  bool MayTryAgain(const StartProblem& problem);

  StopSignals& stop_;
  std::string logged_;
  std::int64_t pause_ms_ = 100;
  int exit_code_ = 0;
};

}  // namespace psp
