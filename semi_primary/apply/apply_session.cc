#include "semi_primary/apply/apply_session.h"

#include "common/log.h"
#include "common/parse_number.h"
#include "common/pg_binary.h"
#include "common/this_database.h"
#include "embedded/apply_sql.h"
#include "writeset/load_catalog.h"

namespace psp::sp {
namespace {

// A SELECT cannot have more than 1664 columns.
constexpr std::size_t kCallsMax = 500;
constexpr std::string_view kLockNotAvailable = "55P03";
const PgError kIsStandby{PgReaction::kAbort, "25006", "this PostgreSQL is a standby"};
// PostgreSQL has crashed since the daemon started, and took the temporary rows of views mode.
constexpr const char* kMakePendingIfLost =
    "SELECT psp.make_pending() WHERE NOT EXISTS (SELECT FROM psp.temp_alive)";
constexpr const char* kApplyTemporary = "SELECT psp.apply($1::pg_catalog.uuid, $2::pg_catalog.int8)";

// Given when the session begins, so that RESET ALL brings them back.
const std::vector<std::pair<std::string, std::string>> kSettings = {
    {"application_name", "psp apply worker"},
    {"default_transaction_isolation", "read committed"},
    {"default_transaction_read_only", "off"},
    {"session_replication_role", "replica"},
    {"synchronous_commit", "off"},
    {"search_path", "pg_catalog, pg_temp"},  // pg_temp named, or it comes first
    {"client_encoding", "UTF8"},
    {"row_security", "off"},
    {"exit_on_error", "off"},
    {"default_transaction_deferrable", "off"},
    {"jit", "off"},  // it takes longer than the statements
    // How values are read.
    {"array_nulls", "on"},
    {"datestyle", "ISO, MDY"},
    {"intervalstyle", "postgres"},
    {"lc_monetary", "C"},
    {"xmloption", "content"},
    {"standard_conforming_strings", "on"},
    {"client_min_messages", "warning"},
    {"plan_cache_mode", "force_generic_plan"},
};

// In a deadlock with a local transaction the worker soon gives way and tries again. The other one then
// reaches its COMMIT and gets 40001. Otherwise it would be cancelled after conflict_grace_ms. PostgreSQL
// refuses a session that begins with a setting which its role may not set.
std::vector<std::pair<std::string, std::string>> SettingsOf(bool may_set_deadlock_timeout) {
  auto settings = kSettings;
  if (may_set_deadlock_timeout) settings.emplace_back("deadlock_timeout", "10ms");
  return settings;
}

}  // namespace

ApplySession::ApplySession(std::string conninfo, std::string database, bool views_mode,
                           bool may_set_deadlock_timeout)
    : database_(std::move(database)),
      views_mode_(views_mode),
      session_({.conninfo = std::move(conninfo),
                .application_name = "psp apply worker",
                .settings = {},
                .startup = SettingsOf(may_set_deadlock_timeout)}) {}

bool ApplySession::Connect(std::stop_token stop) { return Session().ConnectUntilStopped(std::move(stop)); }

PgResult<ApplyPosition> ApplySession::Position() {
  const PgResult<Place> place = PlaceOf(Session(), database_);
  if (!place) return place.error();
  if (*place == Place::kStandby) return kIsStandby;
  if (*place != Place::kSame) return ApplyPosition{*place, 0, false, {}, nullptr};
  auto position = session_.Transaction([this](pqxx::work& tx) {
    tx.exec1("SELECT psp.take_origin()");
    if (views_mode_) tx.exec(kMakePendingIfLost);
    const pqxx::row row = tx.exec1(std::string(sql::kApplyPosition));
    ApplyPosition found{Place::kSame, row[0].as<GlobalT>(), row[1].as<bool>(), {}, nullptr};
    tx.exec_params0(std::string(sql::kApplyForgetProofs), GlobalT{0}, found.watermark);
    for (const pqxx::row& proof : tx.exec("SELECT global_t, tx_id FROM psp.applied")) {
      found.own.emplace(proof[0].as<GlobalT>(), TxId::FromText(proof[1].as<std::string>()).value_or(TxId()));
    }
    return found;
  });
  if (!position) return position;
  auto catalog = LoadCatalog(session_);
  if (!catalog) return catalog.error();
  position->catalog = *catalog;
  return position;
}

PgResult<Done> ApplySession::Claim() {
  return Session().Autocommit([](pqxx::nontransaction& tx) { tx.exec0(std::string(sql::kApplyClaim)); });
}

PgResult<TableCatalogPtr> ApplySession::Catalog(bool in_open) {
  if (!in_open) return LoadCatalog(Session());
  return Session().InOpen([](pqxx::work& tx) { return LoadCatalog(tx); });
}

PgResult<std::vector<GlobalT>> ApplySession::MissingProofs(const std::vector<GlobalT>& own) {
  return Session().Autocommit([&](pqxx::nontransaction& tx) { return RunSome(tx, {}, own); });
}

// Another session may hold the same lock, and for as long as it likes: so it is waited for while somebody
// commits, for a moment, and then looked at again.
PgResult<bool> ApplySession::WaitForBackend(const TxId& tx_id) {
  const auto committing = Session().Autocommit([&](pqxx::nontransaction& tx) {
    return tx.exec_params1(std::string(sql::kApplyIsCommitting), tx_id.ToText())[0].as<bool>();
  });
  if (!committing) return committing.error();
  if (!*committing) return true;
  const auto ended = session_.Transaction([&](pqxx::work& tx) {
    tx.exec0("SET LOCAL lock_timeout = '50ms'");
    tx.exec_params(std::string(sql::kApplyWaitForBackend), tx_id.ToText());
  });
  if (ended) return true;
  if (ended.error().sqlstate == kLockNotAvailable) return false;
  return ended.error();
}

// A client's FOR UPDATE may be in the way, or in that of the local worker that is waited for: the blocker
// watch looks.
PgResult<Done> ApplySession::ApplyTemporary(const TxId& tx_id, GlobalT global_t) {
  return Session().Autocommit(
      [&](pqxx::nontransaction& tx) { tx.exec_params(kApplyTemporary, tx_id.ToText(), global_t); });
}

PgResult<std::vector<GlobalT>> ApplySession::Run(const RunStatements& run) {
  PgResult<std::vector<GlobalT>> missing = std::vector<GlobalT>();
  if (run.goes_on || run.stays_open) {
    missing = RunInOpen(run);
  } else if (run.statements.size() <= kCallsMax) {  // one statement is a transaction by itself
    missing = session_.Autocommit([&](pqxx::nontransaction& tx) { return RunAll(tx, run); });
  } else {
    missing = session_.Transaction([&](pqxx::work& tx) { return RunAll(tx, run); });
  }
  if (!missing) parsed_.clear();
  return missing;
}

PgResult<std::vector<GlobalT>> ApplySession::RunInOpen(const RunStatements& run) {
  if (!run.goes_on) {
    if (const auto begun = session_.Begin(); !begun) return begun.error();
  }
  const auto missing = session_.InOpen([&](pqxx::work& tx) { return RunAll(tx, run); });
  if (!missing || run.stays_open) return missing;
  const auto committed = session_.Commit();
  return committed ? missing : committed.error();
}

// Those of the own commits that are not in; then nothing has run.
template <class Tx>
std::vector<GlobalT> ApplySession::RunAll(Tx& tx, const RunStatements& run) {
  std::span<const ApplyStatement> left = run.statements;
  std::span<const GlobalT> own = run.own;
  std::vector<GlobalT> missing;
  while (!left.empty() && missing.empty()) {
    const std::size_t some = std::min(left.size(), kCallsMax);
    missing = RunSome(tx, left.first(some), std::exchange(own, {}));
    left = left.subspan(some);
  }
  return missing;
}

template <class Tx>
std::vector<GlobalT> ApplySession::RunSome(Tx& tx, std::span<const ApplyStatement> statements,
                                           std::span<const GlobalT> own) {
  const pqxx::result answer = RunCall(tx, SqlOf(statements, own));
  if (own.empty() || answer[0][0].is_null()) return {};
  return ParseNumbers<GlobalT>(answer[0][0].c_str()).value();  // throws: not our function's text
}

template <class Tx>
pqxx::result ApplySession::RunCall(Tx& tx, const SqlCall& call) {
  std::vector<pqxx::binarystring> values;
  for (const std::string& parameter : call.parameters) values.push_back(Binary(parameter));
  const auto parameters = pqxx::prepare::make_dynamic_params(values);
  const bool comes_again = std::exchange(last_, call.text) == call.text;
  if (!comes_again) {
    parsed_.clear();
    return tx.exec_params(call.text, parameters);
  }
  if (call.text != parsed_) {
    // libpqxx parses it when it is run, unless it knows the same text.
    session_.connection().prepare("", "");
    session_.connection().prepare("", call.text);
    parsed_ = call.text;
  }
  return tx.exec_prepared("", parameters);
}

PgResult<Done> ApplySession::LookAlive() {
  return Session().Autocommit([](pqxx::nontransaction& tx) { tx.exec("SELECT 1"); });
}

}  // namespace psp::sp
