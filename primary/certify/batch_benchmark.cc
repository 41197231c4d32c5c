// How long a batch takes, and how much processor time of PostgreSQL: batch_benchmark CONNINFO [transactions
// rows]. The database must be a primary's. For updates, psp.data should hold rows (1, int8send(1 … 1000000)).
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>

#include "common/clock.h"
#include "common/pg_binary.h"
#include "primary/certify/batch_statement.h"

namespace psp::primary {
namespace {

constexpr int kBatches = 200;
constexpr std::int64_t kKeys = 1'000'000;
constexpr std::size_t kImageBytes = 200;

// Processor time of a process, user and system.
double CpuSeconds(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  for (int i = 0; i < 13; ++i) file >> word;
  long user = 0;
  long system = 0;
  file >> user >> system;
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Batch MakeBatch(std::mt19937_64& random, GlobalT* last_t, int transactions, int rows) {
  std::uniform_int_distribution<std::int64_t> pick(1, kKeys);
  Batch batch;
  for (int i = 0; i < transactions; ++i) {
    auto request = std::make_shared<CertifyRequest>();
    std::string id;
    AppendInt64(&id, static_cast<std::int64_t>(random()));
    AppendInt64(&id, static_cast<std::int64_t>(random()));
    request->tx_id = *TxId::FromBytes(id);
    request->sp_id = 1;
    request->watermark = *last_t;
    for (int r = 0; r < rows; ++r) {
      proto::Row* row = request->rows.add_rows();
      row->set_table_id(1);
      AppendInt64(row->mutable_key(),
                  pick(random) / (transactions * rows) * (transactions * rows) + i * rows + r);
      row->set_image(std::string(kImageBytes, 'y'));
    }
    request->write_set = request->rows.SerializeAsString();
    batch.items.push_back({request, 0, "", std::nullopt});
  }
  batch.numbers.first_t = *last_t + 1;
  for (BatchItem& item : batch.items) item.global_t = ++*last_t;
  batch.numbers.last_t = *last_t;
  return batch;
}

int Main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::cerr << "usage: batch_benchmark CONNINFO [transactions rows]\n";
    return 2;
  }
  const int transactions = argc == 4 ? std::atoi(argv[2]) : 100;
  const int rows = argc == 4 ? std::atoi(argv[3]) : 20;
  PgSession session(
      {.conninfo = argv[1], .application_name = "benchmark", .settings = BatchSessionSettings()});
  PrepareBatchStatement(session);
  if (const auto connected = session.Connect(); !connected.ok()) {
    std::cerr << connected.error().message << "\n";
    return 1;
  }
  GlobalT last_t =
      session
          .Autocommit([](pqxx::nontransaction& tx) {
            return tx.exec1("SELECT coalesce(max(global_t), 0) FROM psp.replication_log")[0].as<GlobalT>();
          })
          .value();
  std::mt19937_64 random(std::random_device{}());
  std::int64_t busy_us = 0;
  std::int64_t committed = 0;
  const double cpu_before = CpuSeconds(session.backend_pid());
  for (int i = 0; i < kBatches; ++i) {
    const Batch batch = MakeBatch(random, &last_t, transactions, rows);
    const std::int64_t begin_us = MonotonicUs();
    const auto verdicts = RunBatch(session, batch);
    busy_us += MonotonicUs() - begin_us;
    if (!verdicts.ok()) {
      std::cerr << verdicts.error().message << "\n";
      return 1;
    }
    for (const Verdict& verdict : *verdicts) committed += verdict.global_t > 0 ? 1 : 0;
  }
  const double cpu_s = CpuSeconds(session.backend_pid()) - cpu_before;
  const double all = static_cast<double>(kBatches) * transactions;
  std::cout << transactions << " transactions x " << rows
            << " rows: " << static_cast<double>(busy_us) / kBatches / 1000 << " ms a batch, "
            << cpu_s * 1e6 / all << " us of PostgreSQL a transaction, " << committed << " of " << all
            << " committed\n";
  return 0;
}

}  // namespace
}  // namespace psp::primary

int main(int argc, char** argv) { return psp::primary::Main(argc, argv); }
