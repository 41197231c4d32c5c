#include "primary/certify/batch_statement.h"

#include <algorithm>
#include <array>
#include <functional>

#include "common/parse_number.h"
#include "common/pg_binary.h"
#include "embedded/certify_sql.h"
#include "embedded/constants.h"

namespace psp::primary {
namespace {

const char* NameOf(CertifyBy by) { return by == CertifyBy::kModule ? "certify_by_module" : "certify_batch"; }

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
  static constexpr std::size_t kArrays = 21;

  explicit Parameters(const Batch& batch) : numbers_(batch.numbers) {
    for (const BatchItem& item : batch.items) AddItem(item);
    for (const BatchRow& row : RowsInKeyOrder(batch)) AddRow(row);
  }

  // Each can be run or sent once.
  pqxx::result Run(pqxx::transaction_base& tx, CertifyBy by) {
    std::vector<pqxx::binarystring> values;
    for (const std::string& array : Arrays()) values.push_back(Binary(array));
    return tx.exec_prepared(NameOf(by), pqxx::prepare::make_dynamic_params(values), numbers_.first_t,
                            numbers_.last_t);
  }

  // False: the connection is broken.
  bool Send(PGconn* connection, CertifyBy by) {
    constexpr std::size_t kAll = kArrays + 2;
    const auto arrays = Arrays();
    const std::array<std::string, 2> numbers = {std::to_string(numbers_.first_t),
                                                std::to_string(numbers_.last_t)};
    std::array<const char*, kAll> values{};
    std::array<int, kAll> lengths{};
    std::array<int, kAll> is_binary{};
    for (std::size_t i = 0; i < kAll; ++i) {
      const std::string& value = i < kArrays ? arrays[i] : numbers[i - kArrays];
      values[i] = value.c_str();
      lengths[i] = static_cast<int>(value.size());
      is_binary[i] = i < kArrays ? 1 : 0;
    }
    return PQsendQueryPrepared(connection, NameOf(by), kAll, values.data(), lengths.data(), is_binary.data(),
                               0) == 1;
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

  std::array<std::string, kArrays> Arrays() {
    return {tx_id_.Finish(),     sp_id_.Finish(),       global_t_.Finish(),  watermark_.Finish(),
            seen_from_.Finish(), seen_to_.Finish(),     seen_.Finish(),      reason_.Finish(),
            write_set_.Finish(), lost_table_.Finish(),  lost_key_.Finish(),  winner_t_.Finish(),
            winner_sp_.Finish(), lost_use_.Finish(),    row_item_.Finish(),  row_table_.Finish(),
            row_key_.Finish(),   row_deleted_.Finish(), row_image_.Finish(), row_known_.Finish(),
            row_use_.Finish()};
  }

  const NumberRange numbers_;
  ArrayWriter tx_id_{kOidUuid}, sp_id_{kOidInt4}, global_t_{kOidInt8}, watermark_{kOidInt8},
      seen_from_{kOidInt4}, seen_to_{kOidInt4}, seen_{kOidInt8}, reason_{kOidText}, write_set_{kOidBytea};
  ArrayWriter lost_table_{kOidInt4}, lost_key_{kOidBytea}, winner_t_{kOidInt8}, winner_sp_{kOidInt4},
      lost_use_{kOidInt4};
  ArrayWriter row_item_{kOidInt4}, row_table_{kOidInt4}, row_key_{kOidBytea}, row_deleted_{kOidBool},
      row_image_{kOidBytea}, row_known_{kOidInt8}, row_use_{kOidInt4};
};

// A column of a row, as text; null: NULL.
using Column = std::function<const char*(int)>;

template <class Number>
Number NumberIn(const char* text) {
  return text == nullptr ? Number{} : ParseNumber<Number>(text).value();  // throws: not our statement's row
}

// Overwrites one of the verdicts by a row: i, global_t, reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use.
void ReadVerdict(const Column& column, std::vector<Verdict>* verdicts) {
  Verdict verdict;
  verdict.global_t = NumberIn<GlobalT>(column(1));
  verdict.reason = column(2) == nullptr ? "" : column(2);
  verdict.forgotten = column(1) != nullptr && verdict.global_t == 0;
  if (column(3) != nullptr) {
    verdict.conflict = Conflict{{NumberIn<std::uint32_t>(column(3)), DecodeByteaText(column(4)).value_or("")},
                                NumberIn<GlobalT>(column(5)),
                                NumberIn<SpId>(column(6))};
    if (column(7) != nullptr) verdict.conflict->use = static_cast<proto::UseKind>(NumberIn<int>(column(7)));
  }
  verdicts->at(NumberIn<std::size_t>(column(0)) - 1) = std::move(verdict);
}

// What becomes of those that the statement returns no row for.
std::vector<Verdict> AsAsked(const Batch& batch) {
  std::vector<Verdict> verdicts;
  for (const BatchItem& item : batch.items)
    verdicts.push_back({item.global_t, item.conflict, item.conflict ? "" : item.abort_reason, item.sqlstate});
  return verdicts;
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
  ArrayWriter of_tables(kOidInt4);
  ArrayWriter forms(kOidBytea);
  const auto add = [&](std::uint32_t number, std::uint32_t of_table, bool is_dropped, bool is_emptied,
                       const std::string& form) {
    numbers.AddInt4(static_cast<std::int32_t>(number));
    dropped.AddBool(is_dropped);
    emptied.AddBool(is_emptied);
    of_tables.AddInt4(static_cast<std::int32_t>(of_table));
    form.empty() ? forms.AddNull() : forms.Add(std::string_view(form));
  };
  const proto::WriteSet& change = item.request->rows;
  for (const proto::TableChange& table : change.table_changes()) {
    add(table.table_id(), table.table_id(), table.dropped(), table.emptied(), table.form());
    for (const std::uint32_t guard_id : table.guard_ids()) add(guard_id, table.table_id(), false, false, "");
  }
  tx.exec_params(std::string(sql::kChangeCatalog), change.catalog_version(), item.global_t,
                 Binary(numbers.Finish()), Binary(dropped.Finish()), Binary(emptied.Finish()),
                 Binary(of_tables.Finish()), Binary(forms.Finish()));
}

}  // namespace

std::vector<std::string> BatchSessionSettings() {
  return {"SET synchronous_commit = on", "SET plan_cache_mode = force_generic_plan",
          "SET enable_seqscan = off",    "SET enable_bitmapscan = off",
          "SET enable_hashjoin = off",   "SET enable_mergejoin = off",
          "SET work_mem = '64MB'"};
}

void PrepareBatchStatements(PgSession& session) {
  session.Prepare(NameOf(CertifyBy::kSql), std::string(sql::kCertifyBatch));
  session.Prepare(NameOf(CertifyBy::kModule), std::string(sql::kCertifyByModule));
  PrepareLook(session);
}

PgResult<std::string> ObjectionToModule(PgSession& session) {
  const auto found = session.Autocommit([](pqxx::nontransaction& tx) -> std::string {
    if (tx.exec1("SELECT to_regproc('psp.certify_batch') IS NULL")[0].as<bool>())
      return "the database has no functions of psp_certify";
    const pqxx::row row = tx.exec1(std::string(sql::kCertifyModule));
    const auto version = row[0].as<int>();
    if (version != kCertifyModuleVersion) {
      return "psp_certify is of version " + std::to_string(version) + ", this daemon needs " +
             std::to_string(kCertifyModuleVersion);
    }
    return row[1].as<bool>() ? "" : "this role may not call psp.certify_batch";
  });
  if (!found.ok() && found.error().reaction == PgReaction::kAbort) return found.error().message;
  return found;
}

PgResult<std::vector<Verdict>> RunBatch(PgSession& session, CertifyBy by, const Batch& batch) {
  std::vector<Verdict> verdicts = AsAsked(batch);
  Parameters parameters(batch);
  const auto run = [&](pqxx::nontransaction& tx) { return parameters.Run(tx, by); };
  const auto run_schema_change = [&](pqxx::work& tx) {
    pqxx::result rows = parameters.Run(tx, by);
    if (rows.empty()) ChangeCatalog(tx, batch.items[0]);  // it was not decided before, and has not lost
    return rows;
  };
  const PgResult<pqxx::result> rows =
      ChangesCatalog(batch) ? session.Transaction(run_schema_change) : session.Autocommit(run);
  if (!rows.ok()) return rows.error();
  for (const pqxx::row& row : rows.value()) {
    ReadVerdict([&](int i) { return row[i].is_null() ? nullptr : row[i].c_str(); }, &verdicts);
  }
  return verdicts;
}

bool CanBeSent(const Batch& batch) { return !ChangesCatalog(batch); }

PgResult<Done> PrepareToSend(PgSession& session, CertifyBy by) {
  return session.Autocommit([by](pqxx::nontransaction& tx) {
    tx.conn().prepare_now(NameOf(by));
    PrepareLookNow(tx);
  });
}

SentBatch::SentBatch(PGconn* connection, CertifyBy by, Batch batch, const RequiredCopies& copies)
    : connection_(connection), batch_(std::move(batch)), copies_(copies) {
  is_sent_ = PQsetnonblocking(connection_, 1) == 0 && Parameters(batch_).Send(connection_, by) && Flush();
}

bool SentBatch::Flush() {
  const int left = PQflush(connection_);
  has_unsent_ = left == 1;
  return left >= 0;
}

// PostgreSQL sends the rows before it commits: only the end of all results says that the batch has committed. How far it then is on
// the copies, only a look tells: a wait for them that was cancelled ends as a COMMIT, too.
SentBatch::State SentBatch::EndStatement() {
  if (has_failed_ || !rows_) return State::kFailed;
  if (looks_) {
    if (!look_row_ || PQntuples(look_row_.get()) != 1) return State::kFailed;
    look_ = ReadLook(look_row_.get());
    return State::kDecided;
  }
  const int copies = copies_.number();
  if (copies == 0) return State::kDecided;
  looks_ = true;
  return SendLook(connection_, copies) && Flush() ? State::kUnderWay : State::kFailed;
}

SentBatch::State SentBatch::Advance() {
  if (PQconsumeInput(connection_) != 1 || !Flush()) return State::kFailed;
  while (PQisBusy(connection_) == 0) {
    std::unique_ptr<PGresult, Clear> result(PQgetResult(connection_));
    if (!result) {
      const State state = EndStatement();
      if (state != State::kUnderWay) return state;
    } else if (PQresultStatus(result.get()) == PGRES_TUPLES_OK) {
      (looks_ ? look_row_ : rows_) = std::move(result);
    } else {
      has_failed_ = true;
    }
  }
  // libpq closes the socket of a connection on which it reads nonsense: it would never be ready again.
  return PQstatus(connection_) == CONNECTION_OK ? State::kUnderWay : State::kFailed;
}

std::vector<Verdict> SentBatch::Verdicts() const {
  std::vector<Verdict> verdicts = AsAsked(batch_);
  PGresult* rows = rows_.get();
  for (int row = 0; row < PQntuples(rows); ++row) {
    ReadVerdict([&](int i) { return PQgetisnull(rows, row, i) == 1 ? nullptr : PQgetvalue(rows, row, i); },
                &verdicts);
  }
  return verdicts;
}

}  // namespace psp::primary
