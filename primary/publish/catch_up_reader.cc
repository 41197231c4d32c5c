#include "primary/publish/catch_up_reader.h"

#include <utility>

#include "common/log.h"
#include "common/pg_binary.h"
#include "embedded/publish_sql.h"
#include "primary/publish/encode.h"

namespace psp::primary {
namespace {

constexpr std::size_t kQueueItems = 4096;
constexpr std::int64_t kTroubleWaitMs = 500;

std::string_view Text(const pqxx::field& field) { return {field.c_str(), field.size()}; }

std::string Bytes(const pqxx::field& field) { return DecodeByteaText(Text(field)).value_or(""); }

}  // namespace

CatchUpReader::CatchUpReader(const Options& options)
    : options_(options),
      work_(kQueueItems),
      results_(kQueueItems),
      session_({.conninfo = options.database,
                .application_name = "psp-primary catch-up",
                .settings = {"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off",
                             "SET enable_bitmapscan = off"}}),
      thread_([this](std::stop_token stop) { Run(std::move(stop)); }) {}

CatchUpReader::~CatchUpReader() {
  thread_.request_stop();
  results_.Close();
}

void CatchUpReader::Run(std::stop_token stop) {
  session_.Prepare("log_chunk", std::string(sql::kLogChunk));
  session_.Prepare("table_chunk", std::string(sql::kTableChunk));
  while (auto work = work_.Pop(stop)) {
    bool done = false;
    while (!done && !stop.stop_requested()) {
      if (!session_.connected() && !Connect(stop)) return;
      auto result = Do(*work, stop);
      if (!result) return;
      done = result->ok();
      if (done) {
        results_.Push(std::move(result->value()));
      } else {
        spdlog::warn("reading for a semi-primary failed: {} {}", result->error().sqlstate,
                     result->error().message);
        if (WaitOrStop(stop, kTroubleWaitMs)) return;
      }
    }
  }
}

bool CatchUpReader::Connect(std::stop_token stop) {
  LogOnce logged;
  while (session_.ConnectUntilStopped(stop)) {
    const PgResult<std::string> objection = options_.other_server(session_);
    if (objection.ok() && objection->empty()) return true;
    session_.Close();
    if (objection.ok()) {
      spdlog::error("{}", *objection);
      options_.on_usurped();
      return false;
    }
    if (logged.First(objection.error().message))
      spdlog::warn("which server answers cannot be asked: {}", objection.error().message);
    if (WaitOrStop(stop, kTroubleWaitMs)) return false;
  }
  return false;
}

std::optional<PgResult<CatchUpChunk>> CatchUpReader::Do(const CatchUpRead& work, std::stop_token stop) {
  PgResult<CatchUpChunk> chunk = std::visit([this](const auto& one) { return Do(one); }, work);
  if (!chunk.ok()) return chunk;
  const auto proof = options_.prove(session_, stop);
  if (!proof) return std::nullopt;
  return proof->ok() ? std::move(chunk) : PgResult<CatchUpChunk>(proof->error());
}

PgResult<CatchUpChunk> CatchUpReader::Do(const ReadLog& work) {
  return session_.Autocommit([&](pqxx::nontransaction& tx) -> CatchUpChunk {
    LogChunk chunk{work.sp_id, work.stream_id, false, work.upto_t, {}};
    const pqxx::result rows = tx.exec_prepared("log_chunk", work.from_t, work.upto_t, work.bytes_max);
    // Read afterwards: it only grows. So a log that begins early enough now did so while it was read.
    chunk.truncated = tx.exec1("SELECT truncated_t FROM psp.log_start")[0].as<GlobalT>() > work.from_t;
    for (const pqxx::row& row : rows) {
      const TxId tx_id = TxId::FromText(Text(row[1])).value_or(TxId());
      chunk.transactions.push_back(Encode(row[0].as<GlobalT>(), tx_id, row[2].as<SpId>(), 0, Bytes(row[3])));
    }
    if (!chunk.transactions.empty()) chunk.read_t = chunk.transactions.back()->global_t;
    return chunk;
  });
}

PgResult<CatchUpChunk> CatchUpReader::Do(const ReadCopy& work) {
  return session_.Autocommit([&](pqxx::nontransaction& tx) -> CatchUpChunk {
    const pqxx::result rows = tx.exec_prepared("table_chunk", work.after.table_id, Binary(work.after.key),
                                               work.snapshot_t, work.bytes_max);
    proto::CopyChunk copy;
    for (const pqxx::row& row : rows) {
      proto::Row* one = copy.add_rows();
      one->set_table_id(row[0].as<std::uint32_t>());
      one->set_key(Bytes(row[1]));
      one->set_image(Bytes(row[2]));
      one->set_catalog_version(row[3].as<std::uint32_t>());
    }
    copy.set_catalog_version(
        tx.exec_params1("SELECT coalesce(max(version), 1) FROM psp.catalog_versions WHERE global_t <= $1",
                        work.snapshot_t)[0]
            .as<std::uint32_t>());
    const auto estimate = tx.exec1(std::string(sql::kRowsTotal))[0].as<std::int64_t>();
    const auto newest_t = tx.exec1(std::string(sql::kNewest))[0].as<GlobalT>();
    return EncodeCopyChunk(options_.epoch, work, std::move(copy), estimate, newest_t);
  });
}

}  // namespace psp::primary
