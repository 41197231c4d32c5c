#include "semi_primary/jobs/job_runner.h"

#include <utility>

#include "common/clock.h"
#include "common/this_database.h"
#include "embedded/jobs_sql.h"

namespace psp::sp {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(5);  // for those that wait for another attempt
constexpr auto kEndWait = std::chrono::milliseconds(1000);

PgSession::Options SessionOf(const std::string& conninfo, const char* name) {
  return {.conninfo = conninfo, .application_name = name, .settings = {}};
}

// A job that failed so may succeed later.
bool IsToBeTriedAgain(const PgError& error) {
  return error.reaction != PgReaction::kAbort || MayPass(error.sqlstate);
}

// What is to be dropped: by an earlier attempt, or it was never made here.
bool IsGone(const PgError& error) {
  return error.sqlstate == "42704" || error.sqlstate == "3F000";  // the index, its schema
}

}  // namespace

JobRunner::JobRunner(const std::string& conninfo, std::string database)
    : conninfo_(conninfo), database_(std::move(database)), session_(SessionOf(conninfo, "psp job runner")) {
  session_.Prepare("begin", std::string(sql::kBeginJob));
  session_.Prepare("end", "SELECT psp.end_job($1, $2, $3, $4)");
}

void JobRunner::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void JobRunner::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void JobRunner::WakeUp() {
  const std::lock_guard lock(mutex_);
  awake_ = true;
  wake_up_.notify_one();
}

void JobRunner::Run(std::stop_token stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_up_.wait_for(lock, stop, kLookEvery, [this] { return awake_; });
      awake_ = false;
    }
    if (stop.stop_requested()) return;
    if (!session_.connected() && !ConnectToDatabase(session_, database_, stop)) return;
    while (!stop.stop_requested()) {
      const auto job = Begin();
      if (!job && logged_.First(job.error().sqlstate)) spdlog::warn("jobs: {}", job.error().message);
      if (!job || !*job) break;
      const auto ended = End(**job, Execute(**job, stop));
      if (!ended) break;  // it is begun again
    }
  }
}

PgResult<std::optional<JobRunner::Job>> JobRunner::Begin() {
  return session_.Autocommit([](pqxx::nontransaction& tx) -> std::optional<Job> {
    const pqxx::result found = tx.exec_prepared("begin");
    if (found.empty()) return std::nullopt;
    const pqxx::row row = found[0];
    return Job{row[0].as<int>(),          row[1].as<int>(),         row[2].as<std::string>(),
               row[3].as<std::string>(),  row[4].as<std::string>(), row[5].as<bool>(),
               row[6].as<std::string>("")};
  });
}

// In a session of its own: nothing of it lasts.
PgResult<Done> JobRunner::Execute(const Job& job, std::stop_token stop) {
  PgSession session(SessionOf(conninfo_, "psp job"));
  auto connected = session.Connect();
  if (!connected) return connected;
  spdlog::info("job {}.{} begins: {}", job.change, job.statement_n, job.statement);
  const std::stop_callback at_stop(stop, [&] { EndSession(session.backend_pid(), session.backend_start()); });
  return session.Autocommit([&job](pqxx::nontransaction& tx) {
    const pqxx::row wanted = tx.exec_params1("SELECT psp.is_wanted_job($1, $2)", job.change, job.statement_n);
    if (!wanted[0].as<bool>()) return;
    tx.exec_params(std::string(sql::kTakeJobSettings), job.settings, job.role);
    tx.exec0("SET ROLE " + tx.quote_name(job.role));
    if (!job.leftover.empty()) tx.exec0("DROP INDEX CONCURRENTLY " + job.leftover);
    tx.exec_params0(job.statement);  // a single statement, as the extended protocol takes it
  });
}

// On the thread that stops the runner. (A cancel could come between two statements and miss both.)
void JobRunner::EndSession(int pid, const std::string& backend_start) const {
  PgSession session(SessionOf(conninfo_, "psp job runner"));
  const auto connected = session.Connect();
  if (!connected) {
    spdlog::warn("jobs: {}", connected.error().message);
    return;
  }
  const auto ended = TerminateBackend(session, pid, backend_start, kEndWait);
  if (!ended) spdlog::warn("jobs: {}", ended.error().message);
}

PgResult<Done> JobRunner::End(const Job& job, const PgResult<Done>& result) {
  const bool is_done = result || (job.is_drop && IsGone(result.error()));
  const std::string state = is_done ? "done" : IsToBeTriedAgain(result.error()) ? "waiting" : "failed";
  const std::optional<std::string> error =
      is_done ? std::nullopt : std::optional(result.error().sqlstate + " " + result.error().message);
  if (error) {
    spdlog::warn("job {}.{} ({}) is {}: {}", job.change, job.statement_n, job.statement, state, *error);
  } else {
    spdlog::info("job {}.{} is done", job.change, job.statement_n);
  }
  return session_.Autocommit(
      [&](pqxx::nontransaction& tx) { tx.exec_prepared("end", job.change, job.statement_n, state, error); });
}

}  // namespace psp::sp
