#include "primary/certify/fence.h"

#include <string>

#include "embedded/certify_sql.h"
#include "embedded/constants.h"

namespace psp::primary {

PgResult<bool> JoinFence(PgSession& session, Epoch epoch) {
  return session.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_params("SELECT pg_advisory_lock_shared($1, $2)", kLockClass, kPrimaryDecidersLock);
    return tx.exec1("SELECT epoch FROM psp.cluster")[0].as<Epoch>() == epoch;
  });
}

PgResult<Done> RaiseFence(PgSession& session) {
  return session.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_params(std::string(sql::kEndDeciders), kLockClass, kPrimaryDecidersLock);
    tx.exec_params("SELECT pg_advisory_lock($1, $2)", kLockClass, kPrimaryDecidersLock);
    tx.exec_params("SELECT pg_advisory_unlock($1, $2)", kLockClass, kPrimaryDecidersLock);
  });
}

}  // namespace psp::primary
