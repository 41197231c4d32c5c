#include "semi_primary/hook_server/message_statements.h"

#include <pg_query.h>
#include <pg_query/pg_query.pb-c.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>

namespace psp::sp {
namespace {

UserError Unparsable(const PgQueryError& error) {
  return {"42601", std::string("psp: the message cannot be split into statements: ") + error.message, "",
          "Send the statement in a message of its own."};
}

UserError TooLarge(std::size_t bytes) {
  return {
      "54000", "psp: the message is too large to be split into statements",
      "It has " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(kMessageBytesMax) + ".",
      "Send each statement in a message of its own."};
}

UserError TooComplex() {
  return {"54001", "psp: the message is too complex to be split into statements",
          "It has a very long row of operator characters, such as /*/*/* or +++.",
          "Shorten it, or put spaces into it."};
}

bool IsOperatorSign(char sign) {
  static constexpr std::string_view kSigns = "~!@#^&|`?+-*/%<>=";
  return kSigns.find(sign) != std::string_view::npos;
}

// PostgreSQL's scanner reads a row of operator signs again from each place where an operator or a comment may begin: rows of n signs take n
// * n steps. Everything else takes it one step for each byte. Whether a row stands in a string, does not matter here.
bool IsTooComplex(std::string_view message) {
  std::size_t steps = 0;
  std::size_t row = 0;
  for (const char sign : message) {
    row = IsOperatorSign(sign) ? row + 1 : 0;
    steps += 2 * row;  // 1 + 3 + 5 + … = n * n
    if (steps > kScanStepsMax) return true;
  }
  return false;
}

struct Token {
  PgQuery__Token token;
  std::size_t begin;
  std::size_t end;
};

// The tokens of a statement but its comments. `text` ends with a zero. A token ends before the white space that precedes the next one:
// the scanner's own end of a name such as U&"a" is in the middle of it.
Result<std::vector<Token>, UserError> Scan(const std::string& text) {
  const std::unique_ptr<PgQueryScanResult, void (*)(PgQueryScanResult*)> scanned(
      new PgQueryScanResult(pg_query_scan(text.c_str())), [](PgQueryScanResult* result) {
        pg_query_free_scan_result(*result);
        delete result;
      });
  if (scanned->error != nullptr) return Unparsable(*scanned->error);
  const std::unique_ptr<PgQuery__ScanResult, void (*)(PgQuery__ScanResult*)> unpacked(
      pg_query__scan_result__unpack(nullptr, scanned->pbuf.len,
                                    reinterpret_cast<const std::uint8_t*>(scanned->pbuf.data)),
      [](PgQuery__ScanResult* result) { pg_query__scan_result__free_unpacked(result, nullptr); });
  std::vector<Token> tokens;
  std::size_t next = text.size();
  for (std::size_t i = unpacked->n_tokens; i-- > 0;) {
    const PgQuery__ScanToken& token = *unpacked->tokens[i];
    const auto begin = static_cast<std::size_t>(token.start);
    if (token.token != PG_QUERY__TOKEN__SQL_COMMENT && token.token != PG_QUERY__TOKEN__C_COMMENT)
      tokens.push_back({token.token, begin, text.find_last_not_of(" \t\n\r\f\v", next - 1) + 1});
    next = begin;
  }
  std::ranges::reverse(tokens);
  return tokens;
}

// The first words of a statement tell what it is, as PostgreSQL's grammar has them.
class Words {
 public:
  explicit Words(std::span<const Token> tokens) : tokens_(tokens) {}

  PgQuery__Token operator[](std::size_t i) const {
    return i < tokens_.size() ? tokens_[i].token : PG_QUERY__TOKEN__NUL;
  }
  // The place of the first such token; the number of tokens if there is none.
  std::size_t Find(PgQuery__Token token) const {
    return static_cast<std::size_t>(std::ranges::find(tokens_, token, &Token::token) - tokens_.begin());
  }
  std::size_t size() const { return tokens_.size(); }

 private:
  std::span<const Token> tokens_;
};

// What belongs to the server and not to a database has no event triggers. The word stands at `i`.
bool IsOfTheServer(const Words& words, std::size_t i) {
  switch (words[i]) {
    case PG_QUERY__TOKEN__DATABASE:
    case PG_QUERY__TOKEN__EVENT:
    case PG_QUERY__TOKEN__GROUP_P:
    case PG_QUERY__TOKEN__PARAMETER:
    case PG_QUERY__TOKEN__ROLE:
    case PG_QUERY__TOKEN__SYSTEM_P:
    case PG_QUERY__TOKEN__TABLESPACE:
      return true;
    case PG_QUERY__TOKEN__USER:
      return words[i + 1] != PG_QUERY__TOKEN__MAPPING;
    default:
      return false;
  }
}

// The place of INTO in a statement that makes a table by it; the number of words in any other. `INTO` also stands after INSERT and MERGE,
// and names a column after AS and a point, an element of XML after (NAME.
std::size_t FindIntoTable(const Words& words) {
  switch (words[0]) {
    case PG_QUERY__TOKEN__SELECT:
    case PG_QUERY__TOKEN__WITH:
    case PG_QUERY__TOKEN__ASCII_40:  // (
      break;
    default:
      return words.size();
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] != PG_QUERY__TOKEN__INTO) continue;
    switch (words[i - 1]) {
      case PG_QUERY__TOKEN__INSERT:
      case PG_QUERY__TOKEN__MERGE:
      case PG_QUERY__TOKEN__AS:
      case PG_QUERY__TOKEN__ASCII_46:
        break;
      case PG_QUERY__TOKEN__NAME_P:  // xmlelement(NAME into)
        if (words[i - 2] == PG_QUERY__TOKEN__ASCII_40) break;
        return i;
      default:
        return i;
    }
  }
  return words.size();
}

bool StandsBeforeNameOfTable(PgQuery__Token word) {
  switch (word) {
    case PG_QUERY__TOKEN__GLOBAL:
    case PG_QUERY__TOKEN__LOCAL:
    case PG_QUERY__TOKEN__TABLE:
    case PG_QUERY__TOKEN__TEMP:
    case PG_QUERY__TOKEN__TEMPORARY:
    case PG_QUERY__TOKEN__UNLOGGED:
      return true;
    default:
      return false;
  }
}

// `begin`: the place in the message from which the tokens count.
std::optional<IntoClause> IntoClauseOf(std::span<const Token> tokens, std::size_t begin) {
  const Words words(tokens);
  const std::size_t into = FindIntoTable(words);
  if (into == words.size()) return std::nullopt;
  std::size_t name = into + 1;
  bool is_unlogged = false;
  for (; StandsBeforeNameOfTable(words[name]); ++name)
    is_unlogged |= words[name] == PG_QUERY__TOKEN__UNLOGGED;
  std::size_t last = name;
  while (words[last + 1] == PG_QUERY__TOKEN__ASCII_46) last += 2;  // a point
  return IntoClause{begin + tokens[into].begin, begin + tokens[name].begin, begin + tokens[last].end,
                    is_unlogged};
}

// What stands behind the name of a table in GRANT and REVOKE: a name before it is a table's, also one that is the word of a kind.
bool StandsBehindName(PgQuery__Token word) {
  switch (word) {
    case PG_QUERY__TOKEN__TO:
    case PG_QUERY__TOKEN__FROM:
    case PG_QUERY__TOKEN__ASCII_44:  // ,
    case PG_QUERY__TOKEN__ASCII_46:  // .
      return true;
    default:
      return false;
  }
}

// `on`: the place of ON, behind which the kind of an object stands, or the name of a table.
bool NamesObjectOfDatabase(const Words& words, std::size_t on) {
  return on < words.size() && (!IsOfTheServer(words, on + 1) || StandsBehindName(words[on + 2]));
}

bool IsDdl(const Words& words) {
  switch (words[0]) {
    case PG_QUERY__TOKEN__CREATE:
    case PG_QUERY__TOKEN__ALTER:
    case PG_QUERY__TOKEN__DROP:
      return !IsOfTheServer(words, 1);
    case PG_QUERY__TOKEN__COMMENT:
    case PG_QUERY__TOKEN__SECURITY:
    case PG_QUERY__TOKEN__GRANT:
    case PG_QUERY__TOKEN__REVOKE:
      return NamesObjectOfDatabase(words, words.Find(PG_QUERY__TOKEN__ON));
    case PG_QUERY__TOKEN__IMPORT_P:
    case PG_QUERY__TOKEN__REFRESH:
      return true;
    case PG_QUERY__TOKEN__SELECT:
    case PG_QUERY__TOKEN__WITH:
    case PG_QUERY__TOKEN__ASCII_40:  // (
      return FindIntoTable(words) < words.size();
    default:
      return false;
  }
}

StatementKind KindOf(const Words& words) {
  switch (words[0]) {
    case PG_QUERY__TOKEN__BEGIN_P:
    case PG_QUERY__TOKEN__COMMIT:
    case PG_QUERY__TOKEN__END_P:
    case PG_QUERY__TOKEN__RELEASE:
    case PG_QUERY__TOKEN__SAVEPOINT:
    case PG_QUERY__TOKEN__START:
      return StatementKind::kTransaction;
    case PG_QUERY__TOKEN__ABORT_P:
    case PG_QUERY__TOKEN__ROLLBACK:
      return StatementKind::kRollback;
    case PG_QUERY__TOKEN__RESET:
      return words[1] == PG_QUERY__TOKEN__ALL ? StatementKind::kRollback : StatementKind::kOther;
    case PG_QUERY__TOKEN__PREPARE:
      return words[1] == PG_QUERY__TOKEN__TRANSACTION ? StatementKind::kRollback : StatementKind::kOther;
    default:
      return IsDdl(words) ? StatementKind::kDdl : StatementKind::kOther;
  }
}

std::string_view NameOf(StatementKind kind) {
  switch (kind) {
    case StatementKind::kDdl:
      return "ddl";
    case StatementKind::kTransaction:
      return "transaction";
    case StatementKind::kRollback:
      return "rollback";
    case StatementKind::kOther:
      break;
  }
  return "other";
}

}  // namespace

Result<std::vector<MessageStatement>, UserError> StatementsOf(std::string_view message) {
  if (message.size() > kMessageBytesMax) return TooLarge(message.size());
  if (IsTooComplex(message)) return TooComplex();
  const std::string text(message);
  const std::unique_ptr<PgQuerySplitResult, void (*)(PgQuerySplitResult*)> split(
      new PgQuerySplitResult(pg_query_split_with_parser(text.c_str())), [](PgQuerySplitResult* result) {
        pg_query_free_split_result(*result);
        delete result;
      });
  if (split->error != nullptr) return Unparsable(*split->error);
  std::vector<MessageStatement> statements;
  for (const PgQuerySplitStmt* found : std::span(split->stmts, static_cast<std::size_t>(split->n_stmts))) {
    const auto begin = static_cast<std::size_t>(found->stmt_location);
    const auto tokens = Scan(text.substr(begin, static_cast<std::size_t>(found->stmt_len)));
    if (!tokens) return tokens.error();
    statements.push_back({KindOf(Words(*tokens)), begin + tokens->front().begin,
                          tokens->back().end - tokens->front().begin, IntoClauseOf(*tokens, begin)});
  }
  return statements;
}

std::string DescribeStatements(const std::vector<MessageStatement>& statements) {
  std::string lines;
  for (const MessageStatement& statement : statements) {
    if (!lines.empty()) lines.push_back('\n');
    lines.append(NameOf(statement.kind));
    lines.append(" " + std::to_string(statement.begin) + " " + std::to_string(statement.bytes));
    if (const auto& into = statement.into) {
      for (const std::size_t place : {into->begin, into->name, into->end})
        lines.append(" " + std::to_string(place));
      if (into->is_unlogged) lines.append(" unlogged");
    }
  }
  return lines;
}

}  // namespace psp::sp
