#include "semi_primary/mrv_report/mrv_reporter.h"

#include <map>
#include <utility>
#include <vector>

#include "common/pg_binary.h"
#include "common/this_database.h"
#include "embedded/mrv_report_sql.h"

namespace psp::sp {
namespace {

constexpr std::size_t kReportsMax = 4;

// One column's outcomes as the parameters of its report_sql.
struct Arrays {
  explicit Arrays(const MrvColumn& column) : commits(kOidInt4), aborts(kOidInt4) {
    for (const std::uint32_t oid : column.key_oids) key.emplace_back(oid);
  }

  void Add(const MrvOutcome& outcome) {
    std::vector<RecordField> fields;
    std::string_view record = outcome.key;
    if (!DecodeRecord(&record, &fields).empty() || fields.size() != key.size()) return;
    commits.AddInt4(outcome.commits);
    aborts.AddInt4(outcome.aborts);
    for (std::size_t i = 0; i < key.size(); ++i) key[i].Add(fields[i].value);
  }

  std::vector<pqxx::binarystring> Parameters() {
    std::vector<pqxx::binarystring> parameters = {Binary(commits.Finish()), Binary(aborts.Finish())};
    for (ArrayWriter& array : key) parameters.push_back(Binary(array.Finish()));
    return parameters;
  }

  ArrayWriter commits;
  ArrayWriter aborts;
  std::vector<ArrayWriter> key;
};

}  // namespace

MrvReporter::MrvReporter(const std::string& conninfo, std::string database)
    : database_(std::move(database)),
      reports_(kReportsMax),
      session_({.conninfo = conninfo,
                .application_name = "psp mrv reporter",
                .settings = {"SET synchronous_commit = off", "SET search_path = pg_catalog"}}) {
  session_.Prepare("mrv_is_served", std::string(sql::kMrvIsServed));
}

void MrvReporter::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void MrvReporter::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void MrvReporter::Run(std::stop_token stop) {
  while (const auto report = reports_.Pop(stop)) {
    if (!session_.connected() && !ConnectToDatabase(session_, database_, stop)) return;
    const auto written = Write(*report);
    if (!written && logged_.First(written.error().sqlstate)) {
      spdlog::warn("outcomes of MRVs: {}", written.error().message);
    }
  }
}

PgResult<Done> MrvReporter::Write(const MrvReport& report) {
  std::map<std::int32_t, Arrays> columns;
  for (const MrvOutcome& outcome : report.outcomes) {
    const auto column = report.catalog->mrv_columns.find(outcome.column_id);
    if (column == report.catalog->mrv_columns.end()) continue;
    columns.try_emplace(outcome.column_id, column->second).first->second.Add(outcome);
  }
  return session_.Transaction([&](pqxx::work& tx) {
    if (!tx.exec_prepared1("mrv_is_served")[0].as<bool>()) return;
    for (auto& [column_id, arrays] : columns) {
      const auto parameters = arrays.Parameters();
      tx.exec_params(report.catalog->mrv_columns.at(column_id).report_sql,
                     pqxx::prepare::make_dynamic_params(parameters));
    }
  });
}

}  // namespace psp::sp
