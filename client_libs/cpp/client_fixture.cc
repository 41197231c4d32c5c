// SPDX-License-Identifier: PostgreSQL
// A client for tests that are written in another language: does what its standard input says, one command in
// a line, and answers each in a line of its standard output. tests/cluster/libraries/served.py is the other
// end.
//
//   begin │ execute SQL │ commit [ID] │ commit_async │ get ID │ outcome ID │ abort │ run_in_run SQL
//   ok [RESULT] │ error SQLSTATE TEXT
#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "client_libs/cpp/psp_client.h"

namespace {

using psp_client::Access;
using psp_client::Client;
using psp_client::Committed;
using psp_client::Status;
using psp_client::TxId;

std::string TextOf(const Committed& committed) {
  return committed.tx_id + " " + std::to_string(committed.global_t.value_or(-1));
}

std::string TextOf(Status status) {
  switch (status) {
    case Status::kRunning:
      return "running";
    case Status::kWaiting:
      return "waiting";
    case Status::kPending:
      return "pending";
    case Status::kCommitted:
      return "committed";
    case Status::kAborted:
      return "aborted";
  }
  return "unknown";
}

// A Run in a Run, which must be refused. The statement is the outer one's, after it; all is rolled back.
void RunInRun(Client& client, const std::string& statement) {
  client.Run([&](pqxx::transaction_base& sql) {
    try {
      client.Run([](pqxx::transaction_base&) {});
    } catch (const pqxx::usage_error&) {
      sql.exec(statement);
      throw std::runtime_error("the outer Run ends");
    }
  });
}

std::string Do(Client& client, const std::string& command, const std::string& argument) {
  if (command == "begin")
    return client.Begin(argument == "read_only" ? Access::kReadOnly : Access::kReadWrite);
  if (command == "commit" && argument.empty()) return TextOf(client.Commit());
  if (command == "commit") return TextOf(client.Commit(argument));
  if (command == "commit_async") return client.CommitAsync();
  if (command == "get") return TextOf(client.Get(argument));
  if (command == "outcome") return TextOf(client.Outcome(argument));
  if (command == "execute") {
    client.sql().exec(argument);
    return "";
  }
  if (command == "abort") {
    client.Abort();
    return "";
  }
  if (command == "run_in_run") {
    RunInRun(client, argument);
    return "";
  }
  throw pqxx::usage_error("no such command: " + command);
}

// What psp_client.h promises: the class tells the SQLSTATE where libpqxx keeps none.
std::string SqlStateOf(const std::exception& error) {
  if (dynamic_cast<const psp_client::OutcomeUnknown*>(&error) != nullptr) return "08007";
  if (dynamic_cast<const pqxx::serialization_failure*>(&error) != nullptr) return "40001";
  if (dynamic_cast<const pqxx::deadlock_detected*>(&error) != nullptr) return "40P01";
  if (dynamic_cast<const pqxx::transaction_rollback*>(&error) != nullptr) return "40000";
  if (dynamic_cast<const pqxx::broken_connection*>(&error) != nullptr) return "08006";
  const auto* sql_error = dynamic_cast<const pqxx::sql_error*>(&error);
  return sql_error != nullptr && !sql_error->sqlstate().empty() ? sql_error->sqlstate() : "XX000";
}

std::string Answer(Client& client, const std::string& line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string argument = space == line.size() ? "" : line.substr(space + 1);
  try {
    return "ok " + Do(client, line.substr(0, space), argument);
  } catch (const std::exception& error) {
    std::string text = error.what();
    std::ranges::replace(text, '\n', ' ');
    return "error " + SqlStateOf(error) + " " + text;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "client_fixture DSN\n";
    return 2;
  }
  try {
    psp_client::Settings settings;
    settings.retry_interval = std::chrono::milliseconds(200);
    Client client(argv[1], settings);
    for (std::string line; std::getline(std::cin, line);) std::cout << Answer(client, line) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
