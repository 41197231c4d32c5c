// SPDX-License-Identifier: PostgreSQL
// What the library is for, on a shop's table: see README.md. Prints what happened; tests/cluster/libraries runs it in
// both modes.
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "client_libs/cpp/psp_client.h"

namespace {

using psp_client::Client;
using psp_client::Mode;
using psp_client::TxId;

int Stock(pqxx::transaction_base& sql, int item) {
  return sql.exec1("SELECT stock FROM item WHERE id = " + std::to_string(item))[0].as<int>();
}

void Sell(pqxx::transaction_base& sql, int item) {
  sql.exec("UPDATE item SET stock = stock - 1 WHERE id = " + std::to_string(item));
}

// Begin, statements, Commit. In views mode a request that is asked again gets the same answer, also from
// another connection.
void SellOne(Client& client, const std::string& dsn, int item) {
  const TxId tx_id = client.Begin();
  Sell(client.sql(), item);
  const auto committed = client.Commit();
  std::cout << "sold: " << (committed.tx_id == tx_id) << '\n';
  if (client.mode() != Mode::kViews) return;
  const auto again = Client(dsn).Commit(tx_id);
  std::cout << "asked again: " << (client.Commit(tx_id).global_t == committed.global_t) << ' '
            << (again.global_t == committed.global_t) << '\n';
}

// Several in flight: in views mode the connection does not wait for the primary.
void SellSeveral(Client& client, int item, int count) {
  std::vector<TxId> under_way;
  for (int i = 0; i < count; ++i) {
    client.Begin();
    Sell(client.sql(), item + i);
    under_way.push_back(client.CommitAsync());
  }
  int committed = 0;
  for (const TxId& tx_id : under_way)
    if (client.Get(tx_id).tx_id == tx_id) ++committed;
  std::cout << "committed in flight: " << committed << '\n';
}

// Another connection is faster, once: Run finds out and sells again, from what is left then.
void SellDespiteConflict(Client& client, const std::string& dsn, int item) {
  Client other(dsn);
  int attempts = 0;
  const int left = client.Run([&](pqxx::transaction_base& sql) {
    const int before = Stock(sql, item);
    if (++attempts == 1) other.Run([&](pqxx::transaction_base& faster) { Sell(faster, item); });
    Sell(sql, item);
    return before - 1;
  });
  std::cout << "left: " << left << " after attempts: " << attempts << '\n';
}

// A statement that fails spoils the transaction: Commit says so, nothing is committed.
void SellTooMany(Client& client, int item) {
  client.Begin();
  try {
    client.sql().exec("UPDATE item SET stock = -1 WHERE id = " + std::to_string(item));
  } catch (const pqxx::check_violation&) {
    std::cout << "refused\n";
  }
  try {
    client.Commit();
  } catch (const pqxx::sql_error& error) {
    std::cout << "not committed: " << error.sqlstate() << '\n';
  }
}

void Change(Client& client, int item) {
  client.Begin();
  Sell(client.sql(), item);
  client.Abort();
  std::cout << "left after abort: " << client.Run([&](auto& sql) { return Stock(sql, item); }) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "psp-client-example DSN ITEM: sells of the eight items from this one of the table item (id, "
                 "stock)\n";
    return 2;
  }
  try {
    const std::string dsn = argv[1];
    const int item = std::stoi(argv[2]);
    Client client(dsn);
    std::cout << "mode: " << (client.mode() == Mode::kViews ? "views" : "native") << '\n' << std::boolalpha;
    SellOne(client, dsn, item);
    SellSeveral(client, item + 1, 4);
    SellDespiteConflict(client, dsn, item + 5);
    SellTooMany(client, item + 6);
    Change(client, item + 7);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
