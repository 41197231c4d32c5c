#include "primary/certify/batch_statement.h"

#include <algorithm>

#include "common/pg_binary.h"
#include "embedded/certify_sql.h"

namespace psp::primary {
namespace {

constexpr const char* kStatement = "certify_batch";

struct BatchRow {
  std::int32_t item = 0;  // from 1 on
  RowKeyView key;
  const proto::Row* row = nullptr;  // null: the key is read
};

// The rows of all transactions in key order: the statement then walks the index from left to right.
std::vector<BatchRow> RowsInKeyOrder(const Batch& batch) {
  std::vector<BatchRow> rows;
  std::int32_t number = 0;
  for (const BatchItem& item : batch.items) {
    ++number;
    if (item.global_t == 0) continue;
    for (const proto::Row& row : item.request->rows.rows()) {
      rows.push_back({number, RowKeyView(row.table_id(), row.key()), &row});
    }
    for (const proto::KeyUse& use : item.request->uses.keys()) {
      if (use.kind() == proto::USE_READ) rows.push_back({number, {use.table_id(), use.key()}, nullptr});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const BatchRow& a, const BatchRow& b) { return a.key < b.key; });
  return rows;
}

// The statement's parameters: $1 to $21, one array each, and its numbers.
class Parameters {
 public:
  explicit Parameters(const Batch& batch) : numbers_(batch.numbers) {
    for (const BatchItem& item : batch.items) AddItem(item);
    for (const BatchRow& row : RowsInKeyOrder(batch)) AddRow(row);
  }

  pqxx::result Run(pqxx::transaction_base& tx) {
    std::vector<pqxx::binarystring> values;
    for (ArrayWriter* array :
         {&tx_id_,    &sp_id_,     &global_t_,   &watermark_,   &seen_from_, &seen_to_,   &seen_,
          &reason_,   &write_set_, &lost_table_, &lost_key_,    &winner_t_,  &winner_sp_, &lost_use_,
          &row_item_, &row_table_, &row_key_,    &row_deleted_, &row_image_, &row_known_, &row_use_}) {
      values.push_back(Binary(array->Finish()));
    }
    return tx.exec_prepared(kStatement, pqxx::prepare::make_dynamic_params(values), numbers_.first_t,
                            numbers_.last_t);
  }

 private:
  void AddItem(const BatchItem& item) {
    const CertifyRequest& request = *item.request;
    tx_id_.AddUuid(request.tx_id);
    sp_id_.AddInt4(static_cast<std::int32_t>(request.sp_id));
    global_t_.AddInt8(item.global_t);
    watermark_.AddInt8(request.watermark);
    seen_from_.AddInt4(static_cast<std::int32_t>(seen_.size() + 1));
    for (const GlobalT t : request.seen) seen_.AddInt8(t);
    seen_to_.AddInt4(static_cast<std::int32_t>(seen_.size()));
    if (item.global_t > 0) {
      reason_.AddNull();
      write_set_.Add(std::string_view(request.write_set));
    } else {
      reason_.Add(std::string_view(item.abort_reason));
      write_set_.AddNull();
    }
    AddConflict(item.conflict);
  }

  void AddConflict(const std::optional<Conflict>& conflict) {
    if (!conflict) {
      for (ArrayWriter* array : {&lost_table_, &lost_key_, &winner_t_, &winner_sp_, &lost_use_})
        array->AddNull();
      return;
    }
    lost_table_.AddInt4(static_cast<std::int32_t>(conflict->key.table_id));
    lost_key_.Add(std::string_view(conflict->key.key));
    winner_t_.AddInt8(conflict->winner_t);
    winner_sp_.AddInt4(static_cast<std::int32_t>(conflict->winner_sp_id));
    if (conflict->use) {
      lost_use_.AddInt4(*conflict->use);
    } else {
      lost_use_.AddNull();
    }
  }

  void AddRow(const BatchRow& row) {
    row_item_.AddInt4(row.item);
    row_table_.AddInt4(static_cast<std::int32_t>(row.key.table_id));
    row_key_.Add(row.key.key);
    const bool has_image = row.row != nullptr && row.row->has_image();
    row_deleted_.AddBool(!has_image);  // guards have none either
    row_image_.Add(has_image ? std::optional<std::string_view>(row.row->image()) : std::nullopt);
    if (row.row == nullptr) {
      row_use_.AddInt4(proto::USE_READ);
    } else {
      row_use_.AddNull();
    }
    if (row.row != nullptr && row.row->has_global_t()) {
      row_known_.AddInt8(row.row->global_t());
    } else {
      row_known_.AddNull();
    }
  }

  const NumberRange numbers_;
  ArrayWriter tx_id_{kOidUuid}, sp_id_{kOidInt4}, global_t_{kOidInt8}, watermark_{kOidInt8},
      seen_from_{kOidInt4}, seen_to_{kOidInt4}, seen_{kOidInt8}, reason_{kOidText}, write_set_{kOidBytea};
  ArrayWriter lost_table_{kOidInt4}, lost_key_{kOidBytea}, winner_t_{kOidInt8}, winner_sp_{kOidInt4},
      lost_use_{kOidInt4};
  ArrayWriter row_item_{kOidInt4}, row_table_{kOidInt4}, row_key_{kOidBytea}, row_deleted_{kOidBool},
      row_image_{kOidBytea}, row_known_{kOidInt8}, row_use_{kOidInt4};
};

// i, global_t, reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use
Verdict ReadVerdict(const pqxx::row& row) {
  Verdict verdict;
  verdict.global_t = row[1].as<GlobalT>(0);
  verdict.reason = row[2].as<std::string>("");
  if (!row[3].is_null()) {
    verdict.conflict = Conflict{{row[3].as<std::uint32_t>(), DecodeByteaText(row[4].c_str()).value_or("")},
                                row[5].as<GlobalT>(),
                                row[6].as<SpId>()};
    if (!row[7].is_null()) verdict.conflict->use = static_cast<proto::UseKind>(row[7].as<int>());
  }
  return verdict;
}

// A schema change is alone in its batch.
bool ChangesCatalog(const Batch& batch) {
  const BatchItem& item = batch.items[0];
  return item.global_t > 0 && item.request->rows.kind() == proto::ENTRY_SCHEMA_CHANGE;
}

void ChangeCatalog(pqxx::transaction_base& tx, const BatchItem& item) {
  ArrayWriter numbers(kOidInt4);
  ArrayWriter dropped(kOidBool);
  ArrayWriter emptied(kOidBool);
  const auto add = [&](std::uint32_t number, bool is_dropped, bool is_emptied) {
    numbers.AddInt4(static_cast<std::int32_t>(number));
    dropped.AddBool(is_dropped);
    emptied.AddBool(is_emptied);
  };
  const proto::WriteSet& change = item.request->rows;
  for (const proto::TableChange& table : change.table_changes()) {
    add(table.table_id(), table.dropped(), table.emptied());
    for (const std::uint32_t guard_id : table.guard_ids()) add(guard_id, false, false);
  }
  tx.exec_params(std::string(sql::kChangeCatalog), change.catalog_version(), item.global_t,
                 Binary(numbers.Finish()), Binary(dropped.Finish()), Binary(emptied.Finish()));
}

}  // namespace

std::vector<std::string> BatchSessionSettings() {
  return {"SET synchronous_commit = on", "SET plan_cache_mode = force_generic_plan",
          "SET enable_seqscan = off",    "SET enable_bitmapscan = off",
          "SET enable_hashjoin = off",   "SET enable_mergejoin = off",
          "SET work_mem = '64MB'"};
}

void PrepareBatchStatement(PgSession& session) {
  session.Prepare(kStatement, std::string(sql::kCertifyBatch));
}

PgResult<std::vector<Verdict>> RunBatch(PgSession& session, const Batch& batch) {
  std::vector<Verdict> verdicts;
  for (const BatchItem& item : batch.items)
    verdicts.push_back({item.global_t, item.conflict, item.conflict ? "" : item.abort_reason, item.sqlstate});
  Parameters parameters(batch);
  const auto run = [&](pqxx::nontransaction& tx) { return parameters.Run(tx); };
  const auto run_schema_change = [&](pqxx::work& tx) {
    pqxx::result rows = parameters.Run(tx);
    if (rows.empty()) ChangeCatalog(tx, batch.items[0]);  // it was not decided before, and has not lost
    return rows;
  };
  const PgResult<pqxx::result> rows =
      ChangesCatalog(batch) ? session.Transaction(run_schema_change) : session.Autocommit(run);
  if (!rows.ok()) return rows.error();
  for (const pqxx::row& row : rows.value()) verdicts.at(row[0].as<std::size_t>() - 1) = ReadVerdict(row);
  return verdicts;
}

}  // namespace psp::primary
