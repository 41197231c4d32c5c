#include "primary/startup.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/pg_binary.h"
#include "common/schema_version.h"
#include "embedded/constants.h"
#include "embedded/startup_sql.h"
#include "primary/certify/fence.h"
#include "writeset/load_catalog.h"

namespace psp::primary {
namespace {

constexpr const char* kLockNotAvailable = "55P03";
constexpr const char* kTaken = "another psp-primary is serving this database";
constexpr const char* kStandby = "this PostgreSQL is a standby";
constexpr const char* kHandsOver =
    "this PostgreSQL hands over to its standby (psp primary switchover; --withdraw if that was not promoted)";

// The lock of the one daemon that serves the database; certify/fence.cc has the class's other one.
bool TryLock(pqxx::transaction_base& tx) {
  return tx.exec_params1("SELECT pg_try_advisory_lock($1, $2)", kLockClass, kPrimaryDaemonLock)[0].as<bool>();
}

// Why the database cannot be served; empty when it can.
std::string Objection(pqxx::transaction_base& tx) {
  if (tx.exec1("SELECT to_regclass('psp.cluster') IS NULL OR to_regclass('psp.replication_log') IS NULL")[0]
          .as<bool>()) {
    return "this database is not a psp primary's: it has no schema psp of the primary: psp primary init "
           "makes one";
  }
  const int version = tx.exec1("SELECT schema_version FROM psp.cluster")[0].as<int>();
  std::string objection = VersionObjection(version, kPrimarySchemaVersion, "run psp primary upgrade");
  if (!objection.empty()) return objection;
  if (tx.exec1("SELECT pg_is_in_recovery()")[0].as<bool>()) return kStandby;
  return "";
}

// The session of a daemon that has just ended may live for a moment longer: an operator who starts the next
// one at once must not be refused for it.
PgResult<Done> WaitForLock(PgSession& session) {
  auto locked = session.Transaction([](pqxx::work& tx) {
    tx.exec0("SET LOCAL lock_timeout = '5s'");
    tx.exec_params1("SELECT pg_advisory_lock($1, $2)", kLockClass, kPrimaryDaemonLock);
  });
  if (!locked.ok() && locked.error().sqlstate == kLockNotAvailable) {
    return PgError{PgReaction::kAbort, "", kTaken};
  }
  return locked;
}

void ReadState(pqxx::transaction_base& tx, PrimaryState* state) {
  const pqxx::row row = tx.exec1(std::string(sql::kState));
  state->cluster_id = DecodeByteaText("\\x" + row[0].as<std::string>()).value_or("");
  state->truncated_t = row[1].as<GlobalT>();
  state->closed_t = row[2].as<GlobalT>();
  state->registry = ReadRegistry(tx);
  state->tables = LoadKnownTables(tx);
}

// Only which server it is, which any database can tell.
ServerFacts ReadServer(pqxx::transaction_base& tx) {
  const pqxx::row row = tx.exec1(std::string(sql::kThisServer));
  return {.is_standby = row[0].as<bool>(),
          .identity = row[1].as<std::string>() + " " + row[2].as<std::string>(),
          .timeline = row[3].as<std::string>(""),
          .written = row[4].as<WalPosition>(0)};
}

// From here on this daemon decides. The new epoch distinguishes its numbers, and those that may be missing
// here, from the numbers that a lost copy of this database gave out.
void BeginHistory(pqxx::transaction_base& tx, PrimaryState* state) {
  std::vector<NumberRange> batches;
  for (const pqxx::row& row : tx.exec("SELECT first_t, last_t FROM psp.decided")) {
    batches.push_back({row[0].as<GlobalT>(), row[1].as<GlobalT>()});
  }
  const auto settled_t = tx.exec1("SELECT settled_t FROM psp.log_start")[0].as<GlobalT>();
  const GlobalT start_t = std::min(state->closed_t, UnbrokenUpTo(settled_t, std::move(batches))) + 1;
  tx.exec(std::string(sql::kForgetEpochs));
  tx.exec_params(std::string(sql::kBeginEpoch), state->epoch, start_t, state->closed_t);
  state->epochs.clear();
  for (const pqxx::row& row : tx.exec(std::string(sql::kEpochs))) {
    state->epochs.push_back(
        {DecodeByteaText("\\x" + row[0].as<std::string>()).value_or(""), row[1].as<GlobalT>()});
    state->newest_ts.push_back(row[2].as<GlobalT>());
  }
  for (const pqxx::row& row : tx.exec(std::string(sql::kKeptCommits))) {
    state->kept.emplace(row[0].as<GlobalT>(), TxId::FromText(row[1].as<std::string>()).value_or(TxId()));
  }
}

// Whether the server hands over to its standby. If so, nobody has decided here after this, or can: an executor of an older daemon finds
// another epoch. It does not wait for standbys: one of them is waited for by who switches.
PgResult<bool> HandsOver(PgSession& session) {
  const auto found =
      session.Autocommit([](pqxx::nontransaction& tx) { return tx.exec(std::string(sql::kHandOver)); });
  if (!found.ok()) return found.error();
  if (found->empty()) return false;
  if ((*found)[0][0].as<bool>()) return true;
  const auto local = [](pqxx::work& tx) { tx.exec0("SET LOCAL synchronous_commit = local"); };
  const auto begun = session.Transaction([&](pqxx::work& tx) {
    local(tx);
    tx.exec0("UPDATE psp.cluster SET epoch = epoch + 1");
  });
  if (!begun.ok()) return begun.error();
  if (const auto fenced = RaiseFence(session); !fenced.ok()) return fenced.error();
  const auto ended = session.Transaction([&](pqxx::work& tx) {
    local(tx);
    tx.exec0(std::string(sql::kEndHandOver));
  });
  if (!ended.ok()) return ended.error();
  return true;
}

// Why the copies that are required cannot be there; nothing when they may be. Before anything is written, since its COMMIT would wait.
std::optional<StartProblem> MissingCopies(pqxx::transaction_base& tx, bool some_standbys,
                                          RequiredCopies* copies) {
  using Kind = StartProblem::Kind;
  const CopiesSetting setting = ReadCopiesSetting(tx);
  copies->Observe(setting.at_least, setting.named);
  const int required = copies->number();
  if (required == 0) return std::nullopt;
  if (!setting.may_see) return StartProblem{Kind::kConfiguration, kMayNotSee};
  std::string fewer = FewerThanListed(setting, required);
  // Patroni's strict mode has * until it has chosen a standby, and promotes none that it has not chosen.
  if (!fewer.empty() && !setting.any && !some_standbys) return StartProblem{Kind::kPasses, std::move(fewer)};
  if (setting.connected >= required) return std::nullopt;
  const std::string missing = std::to_string(required) +
                              " synchronous standby(s) must have what is decided, and " +
                              std::to_string(setting.connected) + " are connected: ";
  const bool is_named = setting.named > setting.connected;
  return StartProblem{Kind::kPasses, missing + (is_named ? "synchronous_standby_names asks for them"
                                                         : "psp primary copies asks for them")};
}

// What was read may have been committed by a session whose wait for the standbys was cancelled.
std::optional<StartProblem> UnprovenState(PgSession& session, const RequiredCopies& copies) {
  constexpr std::int64_t kWaitUs = 1'000'000;
  const auto proof = ProveWhatWasRead(session, copies, {}, MonotonicUs() + kWaitUs);
  if (proof && proof->ok()) return std::nullopt;
  if (proof) return CannotStart("", proof->error());
  return StartProblem{StartProblem::Kind::kPasses,
                      "the synchronous standbys do not have all that is decided here yet"};
}

}  // namespace

Result<PrimaryState, StartProblem> TakeOver(const std::string& database, bool some_standbys) {
  using Kind = StartProblem::Kind;
  using Out = Result<PrimaryState, StartProblem>;
  PrimaryState state;
  state.session = std::make_unique<PgSession>(
      PgSession::Options{.conninfo = database,
                         .application_name = "psp-primary",
                         .settings = {"SET synchronous_commit = on", "SET datestyle = 'ISO'"}});
  PgSession& session = *state.session;
  if (const auto connected = session.Connect(); !connected.ok())
    return Out(CannotConnect(database, connected.error()));
  const auto objection = session.Autocommit([](pqxx::nontransaction& tx) { return Objection(tx); });
  if (!objection.ok()) return Out(CannotStart("", objection.error()));
  if (*objection == kStandby) return Out(StartProblem{Kind::kNotItsTurn, *objection});
  if (!objection->empty()) return Out(StartProblem{Kind::kConfiguration, *objection});
  if (const auto locked = WaitForLock(session); !locked.ok()) {
    if (locked.error().message == kTaken) return Out(StartProblem{Kind::kTaken, kTaken});
    return Out(CannotStart("", locked.error()));
  }
  const auto hands_over = HandsOver(session);
  if (!hands_over.ok()) return Out(CannotStart("", hands_over.error()));
  if (*hands_over) return Out(StartProblem{Kind::kNotItsTurn, kHandsOver});
  const auto missing = session.Autocommit(
      [&](pqxx::nontransaction& tx) { return MissingCopies(tx, some_standbys, state.copies.get()); });
  if (!missing.ok()) return Out(CannotStart("", missing.error()));
  if (*missing) return Out(**missing);
  // Before anything is written, too: an attempt that cannot be proven begins no epoch.
  if (const auto unproven = UnprovenState(session, *state.copies)) return Out(*unproven);

  const auto epoch = session.Transaction([](pqxx::work& tx) {
    return tx.exec1("UPDATE psp.cluster SET epoch = epoch + 1 RETURNING epoch")[0].as<Epoch>();
  });
  if (!epoch.ok()) return Out(CannotStart("cannot begin a new epoch: ", epoch.error()));
  state.epoch = *epoch;
  if (const auto fenced = RaiseFence(session); !fenced.ok()) return Out(CannotStart("", fenced.error()));
  const auto read = session.Transaction([&state](pqxx::work& tx) {
    ReadState(tx, &state);
    ServerFacts server = ReadServer(tx);
    server.newest_t = state.closed_t;
    state.server = std::make_shared<ServedServer>(std::move(server));
    BeginHistory(tx, &state);
  });
  if (!read.ok()) return Out(CannotStart("", read.error()));
  if (const auto unproven = UnprovenState(session, *state.copies)) return Out(*unproven);
  return Out(std::move(state));
}

// What is known is read first: the server must have that, and may have more.
PgResult<std::string> OtherServer(PgSession& session, ServedServer* server) {
  const ServerFacts known = server->known();
  const auto found = session.Autocommit([&](pqxx::nontransaction& tx) {
    ServerFacts facts = ReadServer(tx);
    facts.newest_t = known.newest_t;
    if (!ServerObjection(known, facts).empty()) return facts;  // it may have no such tables
    facts.newest_t = tx.exec1(std::string(sql::kNewest))[0].as<GlobalT>();
    return facts;
  });
  if (!found.ok()) return found.error();
  std::string objection = ServerObjection(known, *found);
  if (objection.empty()) server->OnWritten(found->written);
  return objection;
}

PgResult<Done> TakeLockAgain(PgSession& session, Epoch epoch, ServedServer* server) {
  const PgResult<std::string> objection = OtherServer(session, server);
  if (!objection.ok()) return objection.error();
  if (!objection->empty()) return PgError{PgReaction::kAbort, "", *objection};
  const auto ours = session.Autocommit([&](pqxx::nontransaction& tx) {
    return TryLock(tx) && tx.exec1("SELECT epoch FROM psp.cluster")[0].as<Epoch>() == epoch;
  });
  if (!ours.ok()) return ours.error();
  if (!*ours) return PgError{PgReaction::kAbort, "", kTaken};
  return Done{};
}

}  // namespace psp::primary
