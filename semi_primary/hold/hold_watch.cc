#include "semi_primary/hold/hold_watch.h"

#include <utility>

#include "common/clock.h"
#include "common/this_database.h"
#include "embedded/hold_sql.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kLookEveryMs = 50;

}  // namespace

HoldWatch::HoldWatch(const std::string& conninfo, std::string database,
                     std::function<void(std::uint64_t)> on_ended)
    : database_(std::move(database)),
      on_ended_(std::move(on_ended)),
      session_({.conninfo = conninfo, .application_name = "psp hold watch", .settings = {}}) {
  session_.Prepare("has_ended", std::string(sql::kTransactionHasEnded));
}

void HoldWatch::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void HoldWatch::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void HoldWatch::Watch(std::optional<std::uint64_t> transaction) {
  const std::lock_guard lock(mutex_);
  if (transaction_ == transaction) return;
  transaction_ = transaction;
  wake_up_.notify_one();
}

void HoldWatch::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::optional<std::uint64_t> transaction;
    {
      std::unique_lock lock(mutex_);
      if (!wake_up_.wait(lock, stop, [this] { return transaction_.has_value(); })) return;
      transaction = transaction_;
    }
    if (!session_.connected() && !ConnectToDatabase(session_, database_, stop)) return;
    if (HasEnded(*transaction)) on_ended_(*transaction);
    WaitOrStop(stop, kLookEveryMs);
  }
}

// False also if it cannot be known: the primary ends the hold when its time is over.
bool HoldWatch::HasEnded(std::uint64_t transaction) {
  const auto ended = session_.Autocommit([&](pqxx::nontransaction& tx) {
    return tx.exec_prepared1("has_ended", std::to_string(transaction))[0].as<bool>();
  });
  if (!ended && logged_.First(ended.error().sqlstate)) spdlog::warn("hold watch: {}", ended.error().message);
  return ended && *ended;
}

}  // namespace psp::sp
