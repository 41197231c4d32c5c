#include "semi_primary/housekeeping/schema_watch.h"

#include <string_view>
#include <utility>

#include "common/log.h"

namespace psp::sp {
namespace {
constexpr std::string_view kLockNotAvailable = "55P03";
}  // namespace

SchemaWatch::SchemaWatch(PgSession* session) : session_(*session) {
  session_.Prepare("guard_warnings", "SELECT psp.guard_warnings()");
}

void SchemaWatch::LookForChanges() {
  const auto found =
      session_.Autocommit([](pqxx::nontransaction& tx) { return tx.exec_prepared("guard_warnings"); });
  if (!found && found.error().sqlstate == kLockNotAvailable) return;  // a table is being changed: later
  if (!found) return spdlog::warn("schema: {}", found.error().message);
  std::string warnings = (*found)[0][0].as<std::string>("");
  if (warnings != warnings_ && !warnings.empty()) spdlog::warn("schema: {}", warnings);
  warnings_ = std::move(warnings);
}

}  // namespace psp::sp
