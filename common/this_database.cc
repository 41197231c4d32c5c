#include "common/this_database.h"

namespace psp {
namespace {

constexpr std::int64_t kOtherWaitMs = 500;

}  // namespace

PgResult<Place> PlaceOf(PgSession& session, const std::string& database) {
  return session.Autocommit([&](pqxx::nontransaction& tx) {
    if (tx.exec1("SELECT to_regprocedure('psp.this_database()') IS NULL")[0].as<bool>()) return Place::kOther;
    return PlaceOf(database, tx.exec1("SELECT psp.this_database()")[0].as<std::string>());
  });
}

bool ConnectToDatabase(PgSession& session, const std::string& database, std::stop_token stop) {
  while (session.ConnectUntilStopped(stop)) {
    const PgResult<Place> place = PlaceOf(session, database);
    if (place.ok() && *place == Place::kSame) return true;
    session.Close();
    if (WaitOrStop(stop, kOtherWaitMs)) return false;
  }
  return false;
}

}  // namespace psp
