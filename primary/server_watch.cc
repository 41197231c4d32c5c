#include "primary/server_watch.h"

#include <optional>
#include <utility>

#include "common/clock.h"
#include "embedded/startup_sql.h"

namespace psp::primary {
namespace {

constexpr std::int64_t kPauseMs = 500;
constexpr const char* kName = "psp-primary watch";

}  // namespace

ServerWatch::ServerWatch(const std::string& database, std::shared_ptr<const RequiredCopies> copies)
    : copies_(std::move(copies)),
      name_(kName),
      session_({.conninfo = database, .application_name = kName, .settings = {}}),
      thread_([this](std::stop_token stop) { Run(std::move(stop)); }) {}

Sight ServerWatch::sight() const {
  const std::lock_guard lock(mutex_);
  return sight_;
}

// A name has 63 bytes at most, and PostgreSQL takes ASCII only.
void ServerWatch::Tell(const std::optional<Standstill::Reason>& standstill, std::int64_t now_us) {
  std::string name = kName;
  if (standstill) {
    name +=
        ": " + ShortText(*standstill) + ", " + std::to_string(standstill->age_us(now_us) / 1'000'000) + " s";
  }
  const std::lock_guard lock(mutex_);
  name_ = std::move(name);
}

void ServerWatch::Run(std::stop_token stop) {
  session_.Prepare("look_at_server", std::string(sql::kLookAtServer));
  do {
    Sight found;
    found.error = Look(&found);
    found.looked_us = MonotonicUs();
    const std::lock_guard lock(mutex_);
    sight_ = std::move(found);
  } while (!WaitOrStop(stop, kPauseMs));
}

// Only what was written at an earlier look can be asked of a standby that follows.
std::string ServerWatch::Look(Sight* found) {
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    name = name_;
  }
  if (!session_.connected()) {
    const PgResult<Done> connected = session_.Connect();
    if (!connected.ok()) return connected.error().message;
  }
  const auto seen = session_.Autocommit([&](pqxx::nontransaction& tx) {
    const pqxx::row row = tx.exec_prepared1("look_at_server", written_, name);
    found->connected = row[1].as<int>();
    found->copied = row[2].as<int>();
    if (!row[4].is_null()) found->hand_over_ms = row[4].as<std::int64_t>();
    return row[0].as<WalPosition>();
  });
  if (!seen.ok()) return seen.error().message;
  found->copies = copies_->number();
  if (found->copied >= found->copies) written_ = *seen;
  return {};
}

}  // namespace psp::primary
