#include "common/start.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "common/daemon.h"
#include "common/log.h"

namespace psp {
namespace {

constexpr std::int64_t kPauseMaxMs = 5'000;
constexpr std::int64_t kTurnPauseMaxMs = 500;
constexpr int kConnectTimeoutMs = 10'000;

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

bool CanBeParsed(const std::string& conninfo) {
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
      PQconninfoParse(conninfo.c_str(), nullptr), &PQconninfoFree);
  return options != nullptr;
}

// What the server says to a connection. (libpq gives it in no other way.) Empty: no objection.
std::string SqlStateOfRefusal(const std::string& conninfo) {
  const Connection connection(PQconnectStart(conninfo.c_str()), &PQfinish);
  if (connection == nullptr || PQstatus(connection.get()) == CONNECTION_BAD) return "";
  PQsetErrorVerbosity(connection.get(), PQERRORS_SQLSTATE);
  PostgresPollingStatusType status = PGRES_POLLING_WRITING;
  while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED) {
    const short events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    pollfd socket{.fd = PQsocket(connection.get()), .events = events, .revents = 0};
    if (poll(&socket, 1, kConnectTimeoutMs) <= 0) return "";
    status = PQconnectPoll(connection.get());
  }
  if (status == PGRES_POLLING_OK) return "";
  std::string text = PQerrorMessage(connection.get());
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  return text.size() < 5 ? "" : text.substr(text.size() - 5);
}

bool IsWrongConninfo(const std::string& conninfo) {
  if (!CanBeParsed(conninfo)) return true;
  const std::string sqlstate = SqlStateOfRefusal(conninfo);
  return sqlstate == "3D000" || sqlstate == "28000" || sqlstate == "28P01";
}

}  // namespace

StartProblem CannotConnect(const std::string& conninfo, const PgError& error) {
  const bool is_wrong = error.sqlstate.empty() ? IsWrongConninfo(conninfo) : !MayPass(error.sqlstate);
  return {is_wrong ? StartProblem::Kind::kConfiguration : StartProblem::Kind::kPasses, error.message};
}

StartProblem CannotStart(const std::string& what, const PgError& error) {
  const bool passes = error.reaction != PgReaction::kAbort || MayPass(error.sqlstate);
  return {passes ? StartProblem::Kind::kPasses : StartProblem::Kind::kConfiguration, what + error.message};
}

bool StartAttempts::MayTryAgain(const StartProblem& problem) {
  if (problem.kind == StartProblem::Kind::kConfiguration) {
    exit_code_ = BadConfiguration("database: " + problem.what);
    return false;
  }
  if (problem.kind == StartProblem::Kind::kTaken) {
    spdlog::error("database: {}", problem.what);
    exit_code_ = 1;
    return false;
  }
  if (problem.what != logged_)
    spdlog::warn("database: {}; trying again until it can be served", problem.what);
  logged_ = problem.what;
  if (problem.kind == StartProblem::Kind::kNotItsTurn) pause_ms_ = std::min(pause_ms_, kTurnPauseMaxMs);
  pollfd signal{.fd = stop_.fd(), .events = POLLIN, .revents = 0};
  poll(&signal, 1, static_cast<int>(pause_ms_));
  pause_ms_ = std::min(pause_ms_ * 2, kPauseMaxMs);
  return !stop_.TakeSignal();
}

}  // namespace psp
