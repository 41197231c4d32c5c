#include "primary/certify/fence.h"

#include <string>

#include "embedded/certify_sql.h"

namespace psp {
namespace {

// Advisory locks of psp in its own database: (class, number).
constexpr int kLockClass = 0x707370;  // "psp"
constexpr int kDecidersLock = 2;

}  // namespace

PgResult<bool> JoinFence(PgSession& session, Epoch epoch) {
  return session.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_params("SELECT pg_advisory_lock_shared($1, $2)", kLockClass, kDecidersLock);
    return tx.exec1("SELECT epoch FROM psp.cluster")[0].as<Epoch>() == epoch;
  });
}

PgResult<Done> RaiseFence(PgSession& session) {
  return session.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_params(std::string(sql::kEndDeciders), kLockClass, kDecidersLock);
    tx.exec_params("SELECT pg_advisory_lock($1, $2)", kLockClass, kDecidersLock);
    tx.exec_params("SELECT pg_advisory_unlock($1, $2)", kLockClass, kDecidersLock);
  });
}

}  // namespace psp
