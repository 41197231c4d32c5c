// The statements of a message that a client has sent: where each one stands, and what kind it is. PostgreSQL's event
// triggers do not tell the text of a statement, and current_query() is the whole message.
//
// libpg_query (PostgreSQL's own parser) finds the statements. Its tree of a statement is not used: writing the tree down
// recurses, and a long expression would end the process. Its parser and its scanner do not recurse.
//
// It reads a message with standard_conforming_strings = on. It keeps memory for each thread that calls it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "common/user_error.h"

namespace psp::sp {

enum class StatementKind {
  kDdl,          // PostgreSQL fires the event trigger ddl_command_end after it, once
  kTransaction,  // BEGIN, COMMIT, SAVEPOINT and the like
  kRollback,  // ROLLBACK, also TO a savepoint, PREPARE TRANSACTION, RESET ALL: the session loses what it has noted
  kOther,
};

// INTO [UNLOGGED] [TABLE] name, of a SELECT that makes a table. In bytes of the message.
struct IntoClause {
  std::size_t begin = 0;
  std::size_t name = 0;
  std::size_t end = 0;
  bool is_unlogged = false;

  bool operator==(const IntoClause&) const = default;
};

// One statement, without semicolon, and without white space and comments at its ends.
struct MessageStatement {
  StatementKind kind = StatementKind::kOther;
  std::size_t begin = 0;  // bytes of the message
  std::size_t bytes = 0;
  std::optional<IntoClause> into;

  bool operator==(const MessageStatement&) const = default;
};

// Parsing a message takes up to a hundred times its memory, and about a second in the worst case.
inline constexpr std::size_t kMessageBytesMax = 1 << 20;

// Of the scanner in rows of operator signs: 0.3 s. A row of 10,000 signs, or lines of 80 in the whole message.
inline constexpr std::size_t kScanStepsMax = 100'000'000;

// `message` is UTF-8. Errors: 42601 it cannot be parsed, 54000 longer than kMessageBytesMax, 54001 more than kScanStepsMax.
Result<std::vector<MessageStatement>, UserError> StatementsOf(std::string_view message);

// A line for each, of its kind's name, `begin` and `bytes`: "ddl 0 24". SELECT … INTO has the three places of its clause, too, and "unlogged" if
// that says so.
std::string DescribeStatements(const std::vector<MessageStatement>& statements);

}  // namespace psp::sp
