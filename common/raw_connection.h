// libpqxx's connection, whose libpq connection is known: libpqxx 6 always waits for the result of a statement.
#pragma once

#include <libpq-fe.h>

#include <pqxx/pqxx>
#include <string>

namespace psp {

// How the connection is made; a base, so that it is there before libpqxx's part uses it.
class RawConnectionPolicy : public pqxx::connect_direct {
 public:
  using pqxx::connect_direct::connect_direct;
  handle do_startconnect(handle before) override {
    return made_ = pqxx::connect_direct::do_startconnect(before);
  }

 protected:
  handle made_ = nullptr;
};

// One owner. Throws as libpqxx does.
class RawConnection : private RawConnectionPolicy, public pqxx::connection_base {
 public:
  explicit RawConnection(const std::string& conninfo)
      : RawConnectionPolicy(conninfo), pqxx::connection_base(static_cast<pqxx::connectionpolicy&>(*this)) {
    init();
  }
  ~RawConnection() noexcept override { close(); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // As long as this lives. The results of what is sent over it must be taken before libpqxx is used again.
  PGconn* raw() const { return made_; }

  // Frees the notifications that have arrived: code of users in a trigger or a CHECK can make a session listen, and libpq would keep them
  // all. (libpqxx takes none while there is a transaction.)
  void DropNotifications() noexcept {
    if (!is_open()) return;
    while (PGnotify* notification = PQnotifies(made_)) PQfreemem(notification);
  }
};

}  // namespace psp
