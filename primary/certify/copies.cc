#include "primary/certify/copies.h"

#include <algorithm>
#include <array>

#include "common/clock.h"
#include "common/log.h"
#include "common/parse_number.h"
#include "embedded/certify_sql.h"

namespace psp::primary {
namespace {

constexpr const char* kLookName = "look_at_copies";
constexpr std::int64_t kPauseMaxMs = 100;
constexpr std::int64_t kLogAfterUs = 2'000'000;

// What a look that waits says once, and when it is over.
class WaitLog {
 public:
  void Waits(int copies) {
    if (logged_ || MonotonicUs() - since_us_ < kLogAfterUs) return;
    logged_ = true;
    spdlog::warn(
        "COMMITs wait: {} synchronous standby(s) must have what is decided, and do not have it yet. See "
        "pg_stat_replication, and docs/operating.md, \"High availability of the primary\"",
        copies);
  }
  void Ends() const {
    if (logged_) {
      spdlog::info("the synchronous standbys have what was decided, after {} ms",
                   (MonotonicUs() - since_us_) / 1000);
    }
  }

 private:
  const std::int64_t since_us_ = MonotonicUs();
  bool logged_ = false;
};

WalPosition Position(const char* text) { return ParseNumber<WalPosition>(text).value(); }

}  // namespace

CopiesSetting ReadCopiesSetting(pqxx::transaction_base& tx) {
  const pqxx::row row = tx.exec1(std::string(sql::kRequiredCopies));
  return {row[0].as<int>(),  row[1].as<int>(), row[2].as<int>(),
          row[3].as<bool>(), row[4].as<int>(), row[5].as<bool>()};
}

std::string FewerThanListed(const CopiesSetting& setting, int required) {
  if (setting.named == 0) return {};
  if (setting.any) {
    return "synchronous_standby_names has *, so that any standby will do: the one that is promoted may lack "
           "what was told";
  }
  if (required >= setting.listed) return {};
  return fmt::format(
      "synchronous_standby_names lists {} standbys, and {} must have what is decided: the one that is "
      "promoted may lack what was told. "
      "List only so many, or set some_standbys if the one that has everything is chosen",
      setting.listed, required);
}

PgResult<Done> CopiesWatch::Observe(PgSession& session) {
  const auto found = session.Autocommit([](pqxx::nontransaction& tx) { return ReadCopiesSetting(tx); });
  if (!found.ok()) return found.error();
  const int before = copies_->number();
  copies_->Observe(found->at_least, found->named);
  const int required = copies_->number();
  if (required != before) {
    spdlog::info("from now on {} synchronous standby(s) must have what is decided before it is told",
                 required);
  }
  if (required > 0 && !found->may_see && logged_.First("may see")) {
    spdlog::error("COMMITs wait: {}", kMayNotSee);
  }
  const bool is_emptied = required > std::max(found->at_least, found->named);
  if (is_emptied && logged_.First("emptied")) {
    spdlog::warn(
        "synchronous_standby_names is empty, but what is told must go on to be on {} synchronous standby(s), "
        "as it asked for "
        "before: a new start of psp-primary takes the empty list for granted",
        required);
  }
  if (!is_emptied) logged_.Forget("emptied");
  std::string fewer = some_standbys_ ? "" : FewerThanListed(*found, required);
  if (!fewer.empty() && fewer != fewer_) spdlog::warn("{}", fewer);
  fewer_ = std::move(fewer);
  return Done{};
}

void PrepareLook(PgSession& session) { session.Prepare(kLookName, std::string(sql::kLookAtCopies)); }

void PrepareLookNow(pqxx::nontransaction& tx) { tx.conn().prepare_now(kLookName); }

PgResult<Look> LookAtCopies(PgSession& session, int copies) {
  if (copies == 0) return kNoCopies;
  return session.Autocommit([copies](pqxx::nontransaction& tx) {
    const pqxx::row row = tx.exec_params1(std::string(sql::kLookAtCopies), copies);
    return Look{Position(row[0].c_str()), row[1].is_null() ? 0 : Position(row[1].c_str())};
  });
}

std::optional<PgResult<Look>> AwaitCopies(PgSession& session, const RequiredCopies& required,
                                          WalPosition position, std::stop_token stop, std::int64_t until_us) {
  WaitLog log;
  std::int64_t pause_ms = 1;
  while (true) {
    PgResult<Look> look = LookAtCopies(session, required.number());
    if (!look.ok()) return look;
    if (look->proves(position)) {
      log.Ends();
      return look;
    }
    log.Waits(required.number());
    if (MonotonicUs() > until_us || WaitOrStop(stop, pause_ms)) return std::nullopt;
    pause_ms = std::min(2 * pause_ms, kPauseMaxMs);
  }
}

std::optional<PgResult<Done>> ProveWhatWasRead(PgSession& session, const RequiredCopies& required,
                                               std::stop_token stop, std::int64_t until_us) {
  const PgResult<Look> look = LookAtCopies(session, required.number());
  if (!look.ok()) return PgResult<Done>(look.error());
  if (look->is_proof()) return PgResult<Done>(Done{});
  const auto proof = AwaitCopies(session, required, look->written, stop, until_us);
  if (!proof) return std::nullopt;
  return proof->ok() ? PgResult<Done>(Done{}) : PgResult<Done>(proof->error());
}

bool SendLook(PGconn* connection, int copies) {
  const std::string number = std::to_string(copies);
  const std::array<const char*, 1> values = {number.c_str()};
  return PQsendQueryPrepared(connection, kLookName, 1, values.data(), nullptr, nullptr, 0) == 1;
}

Look ReadLook(const PGresult* row) {
  return {Position(PQgetvalue(row, 0, 0)), PQgetisnull(row, 0, 1) == 1 ? 0 : Position(PQgetvalue(row, 0, 1))};
}

}  // namespace psp::primary
