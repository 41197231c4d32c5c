#include "primary/certify/executor.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include "common/log.h"
#include "primary/certify/fence.h"

namespace psp::primary {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSentBytesMax = 256 << 10;  // more takes the main loop longer than a millisecond
constexpr milliseconds kTerminateWait{5000};
constexpr std::int64_t kTroubleWaitMs = 500;  // between attempts while PostgreSQL refuses everything

// psp primary status reads it (sql/primary/command/cluster_status.sql).
constexpr const char* kNamedBySql = "SET application_name = 'psp-primary executor'";
constexpr const char* kNamedByModule = "SET application_name = 'psp-primary executor, module'";

// The same transaction, but only to be recorded as aborted. Its number will never be committed.
Batch Refused(const Batch& alone, const PgError& error) {
  BatchItem refused{alone.items[0].request, 0, "refused by the primary's PostgreSQL: " + error.message,
                    std::nullopt, error.sqlstate};
  return {alone.batch_id, {std::move(refused)}, alone.numbers};
}

Batch PartOf(const Batch& batch, std::span<const BatchItem> items) {
  Batch part{batch.batch_id, {items.begin(), items.end()}, {}};
  for (const BatchItem& item : items) {
    if (item.global_t == 0) continue;
    part.numbers = {part.numbers.first_t > 0 ? part.numbers.first_t : item.global_t, item.global_t};
  }
  return part;
}

bool IsSmall(const Batch& batch) {
  std::size_t bytes = 0;
  for (const BatchItem& item : batch.items) bytes += item.request->bytes();
  return bytes <= kSentBytesMax;
}

// Then libpq may hold more of an answer than it has looked at while its socket has nothing more: nothing tells when to go on.
bool IsEncrypted(PGconn* connection) { return PQsslInUse(connection) == 1 || PQgssEncInUse(connection) == 1; }

}  // namespace

Executor::Executor(const ExecutorOptions& options, PollSet* ready, std::uint64_t name, Report report,
                   std::function<void()> on_usurped)
    : options_(options),
      ready_(*ready),
      name_(name),
      report_(std::move(report)),
      on_usurped_(std::move(on_usurped)),
      tasks_(1),
      session_({.conninfo = options.database,
                .application_name = "psp-primary executor",
                .settings = BatchSessionSettings()}),
      thread_([this](std::stop_token stop) { Work(std::move(stop)); }) {}

void Executor::Submit(Batch batch) {
  PGconn* const connection = session_.connection().raw();
  if (!CanBeSent(batch) || !IsSmall(batch) || IsEncrypted(connection)) return HandOver(std::move(batch));
  sent_.emplace(connection, by_, std::move(batch), *options_.copies);
  if (!sent_->is_sent()) return HandOver(sent_->TakeBatch());
  if (sent_->has_unsent()) ready_.Change(socket_, name_, PollSet::For::kReadOrWrite);
}

void Executor::OnReport() {
  socket_ = PQsocket(session_.connection().raw());
  ready_.Add(socket_, name_, PollSet::For::kRead);
}

std::optional<ExecutorReport> Executor::OnReady() {
  if (!sent_) {
    if (PQconsumeInput(session_.connection().raw()) != 1) HandOver(ConnectAgain());
    return std::nullopt;
  }
  const bool had_unsent = sent_->has_unsent();
  const SentBatch::State state = sent_->Advance();
  if (state == SentBatch::State::kFailed) {
    HandOver(sent_->TakeBatch());
    return std::nullopt;
  }
  if (had_unsent != sent_->has_unsent()) {
    ready_.Change(socket_, name_, had_unsent ? PollSet::For::kRead : PollSet::For::kReadOrWrite);
  }
  if (state == SentBatch::State::kUnderWay) return std::nullopt;
  ExecutorReport report{BatchResult{sent_->batch().batch_id, sent_->Verdicts()}, sent_->look()};
  sent_.reset();
  return report;
}

void Executor::HandOver(Task task) {
  PGconn* const connection = session_.connection().raw();
  if (!session_.connected()) {
    spdlog::warn("an executor's session is lost: {}", OneLine(PQerrorMessage(connection)));
  }
  sent_.reset();
  PQsetnonblocking(connection, 0);  // libpq sends much at once in quadratic time otherwise
  ready_.Remove(std::exchange(socket_, -1));
  tasks_.Push(std::move(task));
}

void Executor::Work(std::stop_token stop) {
  PrepareBatchStatements(session_);
  if (!Connect(stop)) return;
  options_.troubles->Clear(name_);
  report_({});
  while (const auto task = tasks_.Pop(stop)) {
    std::optional<ExecutorReport> report = Do(*task, stop);
    if (!report || (!session_.connected() && !Connect(stop))) return;
    options_.troubles->Clear(name_);
    report_(std::move(*report));
  }
}

std::optional<ExecutorReport> Executor::Do(const Task& task, std::stop_token stop) {
  ExecutorReport report;
  WalPosition position = 0;
  if (const auto* batch = std::get_if<Batch>(&task)) {
    std::vector<Verdict> verdicts = Decide(*batch, by_, stop);
    if (verdicts.empty()) return std::nullopt;
    report.result = {batch->batch_id, std::move(verdicts)};
  } else if (const auto* wanted = std::get_if<WalPosition>(&task)) {
    position = *wanted;
  } else {
    return report;
  }
  const auto look = LookUntil(position, stop);
  if (!look) return std::nullopt;
  report.look = *look;
  return report;
}

// After a lost session, too: what it had committed or seen is below what this server has written by now.
std::optional<Look> Executor::LookUntil(WalPosition position, std::stop_token stop) {
  LogOnce logged;
  while (true) {
    if (!session_.connected() && !Connect(stop)) return std::nullopt;
    const auto look = AwaitCopies(session_, *options_.copies, position, stop);
    if (!look) return std::nullopt;
    if (look->ok()) return look->value();
    const PgError& error = look->error();
    options_.troubles->Set(name_, error);
    if (logged.First(error.sqlstate)) {
      spdlog::warn("the standbys cannot be looked at: {} {}", error.sqlstate, error.message);
    }
    if (WaitOrStop(stop, kTroubleWaitMs)) return std::nullopt;
  }
}

bool Executor::Connect(std::stop_token stop) {
  LogOnce logged;
  while (session_.ConnectUntilStopped(stop)) {
    const PgResult<bool> ours = IsOurs();
    if (ours.ok() && *ours) {
      const PgResult<Done> prepared = ChooseStatement();
      if (prepared.ok()) return true;
      options_.troubles->Set(name_, prepared.error());
      if (logged.First(prepared.error().message))
        spdlog::warn("batches cannot be prepared: {}", prepared.error().message);
    } else if (!ours.ok()) {
      if (logged.First(ours.error().message))
        spdlog::warn("which server answers cannot be asked: {}", ours.error().message);
    } else {
      on_usurped_();
      return false;
    }
    session_.Close();
    if (WaitOrStop(stop, kTroubleWaitMs)) return false;
  }
  return false;
}

PgResult<bool> Executor::IsOurs() {
  const PgResult<std::string> objection = options_.other_server(session_);
  if (!objection.ok()) return objection.error();
  if (objection->empty()) return JoinFence(session_, options_.epoch);
  if (options_.choice_logged->First(*objection)) spdlog::error("{}", *objection);
  return false;
}

// At each connect: the server may be another one, and what is installed may have changed.
PgResult<Done> Executor::ChooseStatement() {
  const PgResult<std::string> objection =
      options_.may_use_module ? ObjectionToModule(session_) : PgResult<std::string>("certify: sql");
  if (!objection.ok()) return objection.error();
  by_ = objection->empty() ? CertifyBy::kModule : CertifyBy::kSql;
  LogChoice(*objection);
  const PgResult<Done> named = session_.Autocommit([this](pqxx::nontransaction& tx) {
    tx.exec0(by_ == CertifyBy::kModule ? kNamedByModule : kNamedBySql);
  });
  return named.ok() ? PrepareToSend(session_, by_) : named;
}

// Executors that agree say so once.
void Executor::LogChoice(const std::string& objection) {
  LogOnce& logged = *options_.choice_logged;
  const bool is_module = by_ == CertifyBy::kModule;
  if (logged.First(is_module ? "module" : "sql")) {
    spdlog::info("batches are certified by {}",
                 is_module ? "the server module psp_certify" : "SQL: " + OneLine(objection));
  }
  logged.Forget(is_module ? "sql" : "module");
}

std::vector<Verdict> Executor::Decide(const Batch& batch, CertifyBy by, std::stop_token stop) {
  LogOnce logged;
  BatchTrouble trouble;
  while (!stop.stop_requested()) {
    PgResult<std::vector<Verdict>> verdicts = RunBatch(session_, by, batch);
    if (verdicts.ok()) return std::move(verdicts.value());
    const PgError& error = verdicts.error();
    const BatchTrouble::Step step = trouble.Next(error, by, batch);
    if (step == BatchTrouble::Step::kRefuse) {
      Log({.level = Note::Level::kWarning,
           .text = fmt::format("a transaction is refused, the {}. since the start: {} {}",
                               ++*options_.refused, error.sqlstate, error.message),
           .event = "rows_refused",
           .fields = {LogField::Text("tx", batch.items.front().request->tx_id.ToText()),
                      LogField::Text("sqlstate", error.sqlstate)}});
      return Decide(Refused(batch, error), by, stop);
    }
    if (step == BatchTrouble::Step::kInHalves) return DecideInHalves(batch, by, stop);
    options_.troubles->Set(name_, error);
    if (logged.First(error.sqlstate)) spdlog::warn("a batch failed: {} {}", error.sqlstate, error.message);
    switch (step) {
      case BatchTrouble::Step::kBySql:
        by = CertifyBy::kSql;
        if (!ChooseStatement().ok()) session_.Close();
        break;
      case BatchTrouble::Step::kWaitAndAgain:
        if (WaitOrStop(stop, kTroubleWaitMs)) return {};
        break;
      default:
        if (error.reaction != PgReaction::kRetry && !ConnectAfterTrouble(stop)) return {};
    }
  }
  return {};
}

// The old backend may still work on the batch. When it has ended, the batch is run again and finds in psp.tx_log what the old backend
// did.
bool Executor::ConnectAfterTrouble(std::stop_token stop) {
  const int pid = session_.backend_pid();
  const std::string start = session_.backend_start();
  while (Connect(stop)) {
    const PgResult<bool> ended = TerminateBackend(session_, pid, start, kTerminateWait);
    if (ended.ok() && *ended) return true;
  }
  return false;
}

// One bad transaction costs a few more batches, not one for each of the others.
std::vector<Verdict> Executor::DecideInHalves(const Batch& batch, CertifyBy by, std::stop_token stop) {
  const auto middle = batch.items.begin() + static_cast<std::ptrdiff_t>(batch.items.size() / 2);
  std::vector<Verdict> all;
  for (const auto& half : {std::span(batch.items.begin(), middle), std::span(middle, batch.items.end())}) {
    std::vector<Verdict> some = Decide(PartOf(batch, half), by, stop);
    if (some.empty()) return {};
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace psp::primary
