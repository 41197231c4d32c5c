#include "mrv/columns.h"

#include "embedded/mrv_sql.h"

namespace psp::mrv {
namespace {

std::optional<double> OptionalDouble(const pqxx::field& field) {
  if (field.is_null()) return std::nullopt;
  return field.as<double>();
}

Column ReadColumn(const pqxx::row& row) {
  return {.adjust = {.strategy = AdjustStrategyOf(row["strategy"].as<std::string>()),
                     .nr_min = row["nr_min"].as<std::int32_t>(),
                     .nr_max = row["nr_max"].as<std::int32_t>(),
                     .ar_goal = row["ar_goal"].as<double>(),
                     .ar_min = row["ar_min"].as<double>(),
                     .rt_goal_ms = OptionalDouble(row["rt_goal_ms"]),
                     .rt_min_ms = OptionalDouble(row["rt_min_ms"]),
                     .min_average_amount_per_record = row["min_average"].as<double>()},
          .balance = row["balance"].as<std::string>(),
          .is_bounded = row["is_bounded"].as<bool>(),
          .is_shared = row["is_shared"].as<bool>(),
          .record_max = OptionalDouble(row["record_max"])};
}

}  // namespace

void PrepareColumns(WorkerSession* session) {
  session->Prepare("columns", sql::kWorkerColumns);
  session->Prepare("value_state", sql::kWorkerValueState);
}

std::optional<Columns> ReadColumns(WorkerSession* session) {
  const auto rows = session->Call("columns");
  if (!rows) return std::nullopt;
  Columns columns;
  for (const pqxx::row& row : *rows) columns.emplace(row["column_id"].as<std::int32_t>(), ReadColumn(row));
  return columns;
}

std::optional<Amounts> ReadAmounts(WorkerSession* session, std::int32_t column_id, const std::string& key) {
  const auto rows = session->Call("value_state", column_id, key);
  if (!rows || rows->empty() || (*rows)[0]["records"].is_null()) return std::nullopt;
  const pqxx::row row = (*rows)[0];
  // A cold value may be NULL or NaN: then it has one record, and no amount to decide by.
  return Amounts{.records = row["records"].as<std::int32_t>(),
                 .total = row["amount"].as<double>(0),
                 .smallest = row["smallest"].as<double>(0),
                 .largest = row["largest"].as<double>(0),
                 .unit = row["unit"].as<double>(1)};
}

}  // namespace psp::mrv
