// What certifying batches costs, in SQL and by the server module, beside a raw upsert of the same rows, by turns on one PostgreSQL:
// its CPU time and this program's. Prints one line of JSON. The database must be a primary's, with what setup.sql makes.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "common/pg_binary.h"
#include "embedded/raw_upsert_sql.h"
#include "primary/certify/batch_statement.h"

namespace psp::primary {
namespace {

constexpr int kWarmUpBatches = 10;
constexpr std::uint32_t kTableId = 1;
constexpr SpId kSpId = 1;
constexpr std::size_t kImageBytes = 200;

struct Load {
  std::string conninfo;
  int transactions = 1;  // in a batch
  int rows = 1;          // of a transaction
  int conflicts = 0;     // per cent of the transactions, evenly spread
  int batches = 100;
  std::int64_t keys = 0;  // that psp.data and the raw table have
};

struct Cost {
  double server_s = 0;
  double client_s = 0;
};

double ServerSeconds(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  double on_cpu_ns = 0;
  file >> on_cpu_ns;
  return on_cpu_ns / 1e9;
}

double ClientSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Batches of transactions that update different rows. Who is to lose has a snapshot in which its rows are missing.
class Batches {
 public:
  Batches(const Load& load, GlobalT last_t) : load_(load), last_t_(last_t) {}

  Batch Next() {
    Batch batch;
    batch.numbers.first_t = last_t_ + 1;
    const std::int64_t rows = std::int64_t{load_.transactions} * load_.rows;
    std::uniform_int_distribution<std::int64_t> pick(0, load_.keys / rows - 1);
    std::int64_t row = 0;
    for (int i = 0; i < load_.transactions; ++i) {
      auto request = std::make_shared<CertifyRequest>();
      request->tx_id = NextTxId();
      request->sp_id = kSpId;
      request->watermark = Loses() ? 0 : last_t_;
      for (int r = 0; r < load_.rows; ++r, ++row) {
        proto::Row* added = request->rows.add_rows();
        added->set_table_id(kTableId);
        AppendInt64(added->mutable_key(), pick(random_) * rows + row);
        added->set_image(std::string(kImageBytes, 'y'));
      }
      request->write_set = request->rows.SerializeAsString();
      batch.items.push_back({request, 0, "", std::nullopt});
    }
    for (BatchItem& item : batch.items) item.global_t = ++last_t_;
    batch.numbers.last_t = last_t_;
    return batch;
  }

 private:
  TxId NextTxId() {
    std::string id;
    AppendInt64(&id, static_cast<std::int64_t>(random_()));
    AppendInt64(&id, static_cast<std::int64_t>(random_()));
    return *TxId::FromBytes(id);
  }
  bool Loses() {
    lost_ += load_.conflicts;
    if (lost_ < 100) return false;
    lost_ -= 100;
    return true;
  }

  const Load& load_;
  GlobalT last_t_;
  int lost_ = 0;  // in hundredths of a transaction
  std::mt19937_64 random_{std::random_device{}()};
};

PgResult<Done> Upsert(PgSession& session, const Batch& batch) {
  ArrayWriter tables(kOidInt4);
  ArrayWriter keys(kOidBytea);
  ArrayWriter numbers(kOidInt8);
  ArrayWriter sps(kOidInt4);
  ArrayWriter images(kOidBytea);
  for (const BatchItem& item : batch.items) {
    for (const proto::Row& row : item.request->rows.rows()) {
      tables.AddInt4(static_cast<std::int32_t>(row.table_id()));
      keys.Add(std::string_view(row.key()));
      numbers.AddInt8(item.global_t);
      sps.AddInt4(static_cast<std::int32_t>(item.request->sp_id));
      images.Add(std::string_view(row.image()));
    }
  }
  return session.Autocommit([&](pqxx::nontransaction& tx) {
    tx.exec_prepared0("raw_upsert", Binary(tables.Finish()), Binary(keys.Finish()), Binary(numbers.Finish()),
                      Binary(sps.Finish()), Binary(images.Finish()));
    return Done{};
  });
}

// Adds what the work costs; false if it failed.
template <typename Work>
bool Measure(PgSession& session, Cost* cost, Work work) {
  const Cost before{ServerSeconds(session.backend_pid()), ClientSeconds()};
  const auto done = work();
  if (!done.ok()) {
    std::cerr << done.error().message << "\n";
    return false;
  }
  cost->client_s += ClientSeconds() - before.client_s;
  cost->server_s += ServerSeconds(session.backend_pid()) - before.server_s;
  return true;
}

// A session that certifies, and what that has cost so far.
struct Certifier {
  Certifier(const PgSession::Options& options, CertifyBy certify_by) : by(certify_by), session(options) {
    PrepareBatchStatements(session);
  }
  PgResult<std::vector<Verdict>> Certify(const Batch& batch) {
    auto verdicts = RunBatch(session, by, batch);
    if (verdicts.ok())
      committed += std::ranges::count_if(*verdicts, [](const Verdict& one) { return one.global_t > 0; });
    return verdicts;
  }

  const CertifyBy by;
  PgSession session;
  Cost cost{};
  std::int64_t committed = 0;
};

bool Connect(PgSession& session) {
  const auto connected = session.Connect();
  if (!connected.ok()) std::cerr << connected.error().message << "\n";
  return connected.ok();
}

std::optional<GlobalT> NewestNumber(PgSession& session) {
  const auto last_t = session.Autocommit(
      [](pqxx::nontransaction& tx) { return tx.exec1(std::string(sql::kNewestNumber))[0].as<GlobalT>(); });
  if (last_t.ok()) return *last_t;
  std::cerr << last_t.error().message << "\n";
  return std::nullopt;
}

bool HasModule(PgSession& session) {
  const auto objection = ObjectionToModule(session);
  if (objection.ok() && objection->empty()) return true;
  std::cerr << "psp_certify: " << (objection.ok() ? *objection : objection.error().message) << "\n";
  return false;
}

int Run(const Load& load) {
  const PgSession::Options options{
      .conninfo = load.conninfo, .application_name = "psp-batches", .settings = BatchSessionSettings()};
  Certifier by_sql(options, CertifyBy::kSql);
  Certifier by_module(options, CertifyBy::kModule);
  PgSession upserting(options);
  upserting.Prepare("raw_upsert", std::string(sql::kRawUpsert));
  if (!Connect(by_sql.session) || !Connect(by_module.session) || !Connect(upserting)) return 1;
  const auto last_t = NewestNumber(by_sql.session);
  if (!last_t || !HasModule(by_module.session)) return 1;
  Batches batches(load, *last_t);
  Cost upsert;
  for (int i = -kWarmUpBatches; i < load.batches; ++i) {
    if (i == 0) {
      for (Certifier* certifier : {&by_sql, &by_module}) {
        certifier->cost = {};
        certifier->committed = 0;
      }
      upsert = {};
    }
    Batch batch;
    for (Certifier* certifier : {&by_sql, &by_module}) {
      batch = batches.Next();
      if (!Measure(certifier->session, &certifier->cost, [&] { return certifier->Certify(batch); })) return 1;
    }
    if (!Measure(upserting, &upsert, [&] { return Upsert(upserting, batch); })) return 1;
  }
  std::cout << "{\"transactions\": " << std::int64_t{load.batches} * load.transactions
            << ", \"sql_committed\": " << by_sql.committed
            << ", \"module_committed\": " << by_module.committed
            << ", \"sql_server_s\": " << by_sql.cost.server_s
            << ", \"sql_client_s\": " << by_sql.cost.client_s
            << ", \"module_server_s\": " << by_module.cost.server_s
            << ", \"module_client_s\": " << by_module.cost.client_s
            << ", \"upsert_server_s\": " << upsert.server_s << ", \"upsert_client_s\": " << upsert.client_s
            << "}\n";
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app{"Certifies batches, and upserts the same rows, by turns."};
  Load load;
  app.add_option("conninfo", load.conninfo, "a primary's database, with what setup.sql makes")->required();
  app.add_option("--transactions", load.transactions, "in a batch")->check(CLI::PositiveNumber);
  app.add_option("--rows", load.rows, "of a transaction")->check(CLI::PositiveNumber);
  app.add_option("--conflicts", load.conflicts, "per cent of the transactions")->check(CLI::Range(0, 100));
  app.add_option("--batches", load.batches)->check(CLI::PositiveNumber);
  app.add_option("--keys", load.keys, "that the tables have")->required()->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (load.keys < std::int64_t{load.transactions} * load.rows) {
    std::cerr << "a batch has more rows than the tables\n";
    return 2;
  }
  return Run(load);
}

}  // namespace
}  // namespace psp::primary

int main(int argc, char** argv) { return psp::primary::Main(argc, argv); }
