#include "semi_primary/hook_server/message_statements.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <chrono>
#include <string>

namespace psp::sp {
namespace {

// The statements' texts; the error's SQLSTATE.
std::vector<std::string> TextsOf(const std::string& message) {
  const auto statements = StatementsOf(message);
  if (!statements) return {statements.error().sqlstate};
  std::vector<std::string> texts;
  for (const MessageStatement& statement : *statements) {
    texts.push_back(message.substr(statement.begin, statement.bytes));
  }
  return texts;
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(MessageStatementsTest, EachWithoutWhatIsAroundIt) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(TextsOf(" CREATE TABLE t (i int) "), Texts{"CREATE TABLE t (i int)"});
  EXPECT_EQ(TextsOf("SELECT 1;SELECT 2"), (Texts{"SELECT 1", "SELECT 2"}));
  EXPECT_EQ(
      TextsOf("-- one; two\n SELECT 1 /* three; /* four */ */ ; -- five\n;;\n\tSELECT /* six */ 2 -- seven"),
      (Texts{"SELECT 1", "SELECT /* six */ 2"}));
  EXPECT_EQ(TextsOf("SELECT ';--';SELECT $a$;$$;$a$;SELECT \"/*;\"; SELECT E'\\';'"),
            (Texts{"SELECT ';--'", "SELECT $a$;$$;$a$", "SELECT \"/*;\"", "SELECT E'\\';'"}));
  EXPECT_EQ(TextsOf("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);SELECT 3"),
            (Texts{"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "SELECT 3"}));
  EXPECT_EQ(TextsOf("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 3"),
            (Texts{"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END", "SELECT 3"}));
  EXPECT_EQ(TextsOf("SELECT 'ä€😀'; COMMENT ON TABLE ö IS 'ß' -- ü"),
            (Texts{"SELECT 'ä€😀'", "COMMENT ON TABLE ö IS 'ß'"}));
  EXPECT_EQ(TextsOf(""), Texts{});
  EXPECT_EQ(TextsOf(" ; -- nothing\n;"), Texts{});
}

TEST(MessageStatementsTest, EachToTheEndOfItsLastWord) {
  std::vector<std::string> statements;
  for (const char* name : {R"(U&"d\0061ta")", R"(a.U&"d!0061ta" UESCAPE '!')", R"("a""b")", "ü", "a"})
    statements.push_back(std::string("DROP TABLE IF EXISTS ") + name);
  for (const char* value :
       {R"(U&'d\0061ta')", R"(E'a\'b')", "B'1'", "X'1f'", "N'a'", "'a'\n  'b'", "$q$ $$; $q$", "1.5e3"})
    statements.push_back(std::string("SELECT ") + value);
  for (const std::string& statement : statements) {
    for (const char* end : {"", " ", ";", "\n\f;", "/* end */", " -- end", ";SELECT 1"})
      EXPECT_EQ(TextsOf(statement + end).front(), statement) << end;
  }
}

TEST(MessageStatementsTest, KindsAreThoseOfPostgres) {
  // tests/sql/guard/test_statement_kinds.py compares them with a server.
  const YAML::Node kinds = YAML::LoadFile(PSP_STATEMENT_KINDS_FILE);  // JSON is YAML
  for (const char* list : {"run", "not_run"}) {
    for (const YAML::Node& sample : kinds[list]) {
      const auto statement = sample["statement"].as<std::string>();
      const auto found = StatementsOf("/* a */ " + statement + " ;");
      ASSERT_TRUE(found.ok()) << statement << ": " << found.error().message;
      ASSERT_EQ(found->size(), 1U) << statement;
      const std::string told = sample["kind"].as<std::string>() + " 8 " + std::to_string(statement.size());
      EXPECT_EQ(DescribeStatements(*found).substr(0, told.size()), told);
    }
  }
}

// The clause's words before the name, and the name; nothing: there is none.
std::vector<std::string> IntoOf(const std::string& message) {
  const auto statements = StatementsOf(message);
  if (!statements) return {statements.error().sqlstate};
  const auto& into = statements->back().into;
  if (!into) return {};
  return {message.substr(into->begin, into->name - into->begin),
          message.substr(into->name, into->end - into->name)};
}

TEST(MessageStatementsTest, WhereSelectMakesATable) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(IntoOf("SELECT 1; SELECT 2 INTO t"), (Texts{"INTO ", "t"}));
  EXPECT_EQ(IntoOf("SELECT 'ä' INTO TABLE \"a b\" . t FROM u"), (Texts{"INTO TABLE ", "\"a b\" . t"}));
  EXPECT_EQ(IntoOf("(SELECT * INTO UNLOGGED TABLE a.b.t)"), (Texts{"INTO UNLOGGED TABLE ", "a.b.t"}));
  EXPECT_EQ(IntoOf("WITH w AS (INSERT INTO t VALUES (1) RETURNING i) SELECT i INTO /* new */ u FROM w"),
            (Texts{"INTO /* new */ ", "u"}));
  EXPECT_EQ(IntoOf("SELECT 1 AS into"), Texts{});
  EXPECT_EQ(IntoOf("INSERT INTO t SELECT 1"), Texts{});
  EXPECT_EQ(IntoOf("SELECT xmlelement(name into, 'a') INTO t"), (Texts{"INTO ", "t"}));
  EXPECT_EQ(IntoOf("SELECT u.name INTO t FROM u"), (Texts{"INTO ", "t"}));
  EXPECT_EQ(IntoOf(R"(SELECT 1 INTO U&"d\0061ta" . t FROM u)"), (Texts{"INTO ", R"(U&"d\0061ta" . t)"}));
  EXPECT_EQ(IntoOf(R"(SELECT 1 INTO U&"d\0061ta"/* */FROM u)"), (Texts{"INTO ", R"(U&"d\0061ta")"}));
  const auto one = StatementsOf("SELECT 1 INTO t");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(DescribeStatements(*one), "ddl 0 15 9 14 15");
  const auto unlogged = StatementsOf("SELECT 1 INTO UNLOGGED t");
  ASSERT_TRUE(unlogged.ok());
  EXPECT_EQ(DescribeStatements(*unlogged), "ddl 0 24 9 23 24 unlogged");
}

TEST(MessageStatementsTest, WhatCannotBeParsed) {
  for (const char* message :
       {"SELECT 'x", "CREATE", "SELECT 1; FOO", "/*", "SELECT 1)", "CREATE TABLE t (\xff\xfe 'x)"}) {
    EXPECT_EQ(TextsOf(message), std::vector<std::string>{"42601"}) << message;
  }
  EXPECT_EQ(StatementsOf("SELECT 1; FOO").error().message,
            "psp: the message cannot be split into statements: syntax error at or near \"FOO\"");
}

TEST(MessageStatementsTest, LongMessages) {
  const std::string comment = "/*" + std::string(kMessageBytesMax - 12, 'x') + "*/";
  EXPECT_EQ(TextsOf(comment + "SELECT 1"), std::vector<std::string>{"SELECT 1"});
  EXPECT_EQ(TextsOf(comment + "SELECT 1;"), std::vector<std::string>{"54000"});
  EXPECT_EQ(TextsOf(Repeated("END;", 10000)).size(), 10000U);
  // What nests deeply must not end the process.
  EXPECT_EQ(TextsOf("SELECT 1" + Repeated("+1", 300000)).size(), 1U);
  EXPECT_EQ(TextsOf("SELECT 1" + Repeated(" UNION SELECT 1", 60000)).size(), 1U);
  EXPECT_EQ(TextsOf("SELECT " + Repeated("(", 300000)), std::vector<std::string>{"42601"});
  EXPECT_EQ(TextsOf("SELECT " + Repeated("NOT ", 200000) + "true"), std::vector<std::string>{"42601"});
}

TEST(MessageStatementsTest, Lines) {
  const auto statements = StatementsOf("BEGIN; CREATE TABLE t (i int); ROLLBACK; SELECT 1");
  ASSERT_TRUE(statements.ok());
  EXPECT_EQ(DescribeStatements(*statements), "transaction 0 5\nddl 7 22\nrollback 31 8\nother 41 8");
}

std::string Repeated(std::size_t bytes, const std::string& what) {
  std::string text;
  while (text.size() + what.size() <= bytes) text += what;
  return text;
}

// Any role can make the daemon read a message.
TEST(StatementsOfTest, NoMessageTakesLong) {
  using Clock = std::chrono::steady_clock;
  for (const std::string what :
       {"/*", "+", "*+", "-+", "/*a", "(", ";", "BEGIN;", "a.", "'a'\n", "E'\\\\' ", "$a$b", "$", "U&'a' ",
        "a--\n", "@ ", "1.", "\"a\",", "-- ====================\n"}) {
    for (const std::size_t bytes : {kMessageBytesMax - 10, std::size_t{9000}}) {
      const auto begin = Clock::now();
      const auto statements = StatementsOf("SELECT 1 " + Repeated(bytes, what));
      EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20)) << what;
    }
  }
}

TEST(StatementsOfTest, ALongRowOfOperatorSignsIsTooComplex) {
  for (const char* row : {"/*", "*/", "+", "-"}) {
    const auto statements = StatementsOf("SELECT 1; -- " + Repeated(20'000, row));
    ASSERT_FALSE(statements.ok()) << row;
    EXPECT_EQ(statements.error().sqlstate, "54001");
  }
  EXPECT_TRUE(StatementsOf("SELECT 1; -- " + Repeated(9'000, "-")).ok());
  EXPECT_TRUE(StatementsOf("SELECT 1; " +
                           Repeated(1'000'000, "\n-- =================================================="))
                  .ok());
}

}  // namespace
}  // namespace psp::sp
