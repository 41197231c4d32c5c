#include "semi_primary/housekeeping/claim.h"

#include "common/log.h"
#include "common/schema_version.h"
#include "embedded/constants.h"
#include "embedded/housekeeping_sql.h"
#include "semi_primary/housekeeping/epoch_store.h"

namespace psp::sp {
namespace {

constexpr const char* kTaken = "PSP01";  // sql/semi_primary/daemon/claim_database.sql
constexpr const char* kUndefinedTable = "42P01";

Identity ReadIdentity(const pqxx::row& row) {
  Identity identity;
  identity.cluster_id = pqxx::binarystring(row["cluster_id"]).str();
  identity.sp_id = row["sp_id"].as<SpId>();
  identity.token = row["token"].as<std::string>();
  identity.database = row["database"].as<std::string>();
  identity.watermark = row["watermark"].as<GlobalT>();
  identity.joining = row["joining"].as<bool>();
  identity.may_lack_own = row["may_lack_own"].as<bool>();
  identity.may_set_deadlock_timeout = row["may_set_deadlock_timeout"].as<bool>();
  return identity;
}

// Why a daemon with these options cannot serve the database; empty: it can.
std::string ObjectionTo(const pqxx::row& row, const ClaimOptions& options) {
  const auto name = row["name"].as<std::string>();
  const auto mode = row["mode"].as<std::string>();
  const std::string own_mode = options.views_mode ? "views" : "native";
  if (name != options.name) {
    return "this database belongs to semi-primary \"" + name + "\", not to \"" + options.name + "\"";
  }
  if (mode != own_mode) return "this database is in mode " + mode + ", this daemon in mode " + own_mode;
  return VersionObjection(row["schema_version"].as<int>(), kSemiPrimarySchemaVersion,
                          "release it (psp schema release) and let it adopt or join again");
}

void WriteServedAt(pqxx::work& tx, const ClaimOptions& options) {
  if (!options.views_mode) {
    tx.exec_params("UPDATE psp.identity SET hook_conninfo = $1 WHERE hook_conninfo <> $1", options.served_at);
    return;
  }
  tx.exec_params("UPDATE psp.identity SET client_endpoint = $1 WHERE client_endpoint IS DISTINCT FROM $1",
                 options.served_at);
  const auto pending = tx.exec1("SELECT psp.make_pending()")[0].as<std::int64_t>();
  if (pending > 0) spdlog::info("{} transactions are pending: the primary's log will tell", pending);
}

}  // namespace

PgSession::Options ClaimingSession(const std::string& conninfo) {
  return {.conninfo = conninfo,
          .application_name = "psp semi-primary",
          .settings = {"SET synchronous_commit = off", "SET search_path = pg_catalog",
                       std::string(sql::kClaimDatabase)}};
}

Result<Identity, StartProblem> ClaimDatabase(PgSession* session, const ClaimOptions& options) {
  using Kind = StartProblem::Kind;
  const auto connected = session->Connect();
  if (!connected) {
    if (connected.error().sqlstate == kTaken) return StartProblem{Kind::kTaken, connected.error().message};
    return CannotConnect(options.conninfo, connected.error());
  }
  Identity identity;
  std::string objection;
  bool is_standby = false;
  const auto read = session->Transaction([&](pqxx::work& tx) {
    is_standby = tx.exec1("SELECT pg_is_in_recovery()")[0].as<bool>();
    if (is_standby) return;
    const pqxx::row row = tx.exec1(std::string(sql::kReadIdentity));
    identity = ReadIdentity(row);
    objection = ObjectionTo(row, options);
    if (!objection.empty()) return;
    identity.saved = ReadEpochs(tx);
    tx.exec1("SELECT psp.refresh_guards()");
    WriteServedAt(tx, options);
  });
  if (!read) {
    if (read.error().sqlstate == kUndefinedTable) {
      return StartProblem{
          Kind::kConfiguration,
          "this is no semi-primary's database: psp schema adopt or psp schema join makes it one"};
    }
    return CannotStart("psp.identity cannot be read: ", read.error());
  }
  if (is_standby) return StartProblem{Kind::kNotItsTurn, "this PostgreSQL is a standby"};
  if (!objection.empty()) return StartProblem{Kind::kConfiguration, objection};
  return identity;
}

}  // namespace psp::sp
