#include "semi_primary/apply/statements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using testing::ElementsAre;

TEST(SqlOf, OneStatementCallsAllInTheirOrder) {
  const SqlCall call = SqlOf(ApplyStatements{DeleteRows{7, "keys"}, WriteRows{7, "rows", true},
                                             WriteRows{8, "more", false}, EndBatch{1, 2, true, false}});
  EXPECT_EQ(
      call.text,
      "SELECT psp.apply_delete_7($1), psp.apply_insert_7($2), psp.apply_upsert_8($3), "
      "psp.end_batch($4::pg_catalog.int8, $5::pg_catalog.int8, $6::pg_catalog.bool, $7::pg_catalog.bool)");
  EXPECT_THAT(call.parameters, ElementsAre("keys", "rows", "more", std::string("\0\0\0\0\0\0\0\1", 8),
                                           std::string("\0\0\0\0\0\0\0\2", 8), "\1", std::string(1, '\0')));
}

TEST(SqlOf, TheTextIsTheSameForTheNextBatchOfTheSameTables) {
  const auto text = [](const char* rows, GlobalT upto) {
    return SqlOf(ApplyStatements{WriteRows{1, rows, false}, EndBatch{upto - 1, upto, upto % 2 == 0, false}})
        .text;
  };
  EXPECT_EQ(text("a", 1), text("b", 2));
}

TEST(SqlOf, NothingRunsUnlessTheOwnCommitsAreIn) {
  const std::vector<GlobalT> own = {5, 6};
  const SqlCall call = SqlOf(ApplyStatements{WriteRows{1, "rows", false}, ResetSession{}}, own);
  EXPECT_EQ(call.text,
            "SELECT psp_own.missing, CASE WHEN psp_own.missing IS NULL THEN psp.apply_upsert_1($2) END, "
            "CASE WHEN psp_own.missing IS NULL THEN psp.reset_apply_session() END "
            "FROM (SELECT psp.missing_proofs($1::pg_catalog.int8[]) AS missing OFFSET 0) AS psp_own");
  EXPECT_THAT(call.parameters, testing::SizeIs(2));
}

TEST(SqlOf, OtherStatements) {
  const TxId tx_id;
  EXPECT_EQ(SqlOf(ApplyStatements{InsistOnLocks{}, ClearTable{3}, ResetSession{}}).text,
            "SELECT psp.insist_on_locks(), psp.apply_clear_3(), psp.reset_apply_session()");
  EXPECT_EQ(SqlOf(ApplyStatements{TakeAdvisoryLocks{"keys"}}).text,
            "SELECT psp.wait_for_advisory_locks($1::pg_catalog.int8[])");
  EXPECT_EQ(SqlOf(ApplyStatements{SetAside{{3}, {"23514 check"}}}).text,
            "SELECT psp.set_aside($1::pg_catalog.int8[], $2::pg_catalog.text[])");
  EXPECT_EQ(SqlOf(ApplyStatements{MakeWay{3, "rows"}}).text, "SELECT psp.apply_make_way_3($1)");
  const SqlCall call = SqlOf(ApplyStatements{ResolveOwn{tx_id, 5}});
  EXPECT_EQ(call.text, "SELECT psp.resolve($1::pg_catalog.uuid, $2::pg_catalog.int8)");
  EXPECT_EQ(call.parameters[0], tx_id.ToBytes());
}

}  // namespace
}  // namespace psp::sp
