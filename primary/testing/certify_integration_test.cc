// Which form of the statement certifies: sql/primary/daemon/certify_batch.sql, or the server module psp_certify.
#include <gtest/gtest.h>

#include "primary/testing/primary_fixture.h"

namespace psp::primary {
namespace {

class CertifyTest : public PrimaryTest {
 protected:
  // Of the executors that are connected, when one of them has decided something.
  bool UsesModule(FakeSp& sp, int id) {
    EXPECT_GT(Decide(sp, id, 0, Rows({{"key" + std::to_string(id), "x"}})).global_t(), 0);
    return Sql("SELECT EXISTS (" + std::string(kExecutors) + " AND application_name LIKE '%, module')")[0][0]
        .as<bool>();
  }
  void EndAllExecutors() {
    Sql("SELECT pg_terminate_backend(pid, 10000) FROM (" + std::string(kExecutors) + ") AS executors");
  }
};

TEST_F(CertifyTest, TheModuleIsUsedWhereTheServerHasIt) {
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_EQ(UsesModule(a, 1), HasModule());
}

TEST_F(CertifyTest, AModuleThatIsOfAnotherVersionOrGoneIsNotUsed) {
  Sql("CREATE OR REPLACE FUNCTION psp.certify_module_version() RETURNS integer LANGUAGE sql AS 'SELECT 0'");
  EndAllExecutors();
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_FALSE(UsesModule(a, 1));
  Sql("DROP FUNCTION psp.certify_module_version()");
  EndAllExecutors();
  EXPECT_FALSE(UsesModule(a, 2));
}

TEST_F(CertifyTest, TheSettingLeavesTheModuleUnused) {
  Stop();
  settings_.certify = "sql";
  Start();
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_FALSE(UsesModule(a, 1));
}

// PostgreSQL cannot write one key, neither by the module nor by SQL.
TEST_F(CertifyTest, ATransactionWhoseErrorComesAgainIsRefusedAndKeepsNobodyWaiting) {
  Sql("CREATE FUNCTION psp.fail() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE 'no such page' USING ERRCODE = 'XX000'; END$$;"
      "CREATE TRIGGER fail BEFORE INSERT ON psp.data FOR EACH ROW WHEN (NEW.key = 'key1')"
      " EXECUTE FUNCTION psp.fail()");
  if (HasModule()) {
    Sql("DO $$DECLARE types text; result text; BEGIN"
        " SELECT (SELECT string_agg(t::regtype::text, ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH "
        "ORDINALITY a(t, n)),"
        "        pg_get_function_result(p.oid)"
        "   INTO types, result FROM pg_proc p WHERE p.oid = 'psp.certify_batch'::regproc;"
        " DROP FUNCTION psp.certify_batch;"
        " EXECUTE format('CREATE FUNCTION psp.certify_batch(%s) RETURNS %s LANGUAGE plpgsql AS"
        " $f$BEGIN RAISE ''no such page'' USING ERRCODE = ''XX000''; END$f$', types, result); END$$");
  }
  FakeSp a = Sp(1);
  Enter(a, 0);
  const proto::Decision refused = Decide(a, 1, 0, Rows({{"key1", "x"}}));
  EXPECT_EQ(refused.global_t(), 0);
  EXPECT_GT(Decide(a, 2, 0, Rows({{"key2", "x"}})).global_t(), 0);
  Sql("DROP TRIGGER fail ON psp.data");
  EXPECT_GT(Decide(a, 3, 0, Rows({{"key1", "x"}})).global_t(), 0);
}

TEST_F(CertifyTest, AModuleThatFailsGivesWayToSql) {
  if (!HasModule()) GTEST_SKIP() << "without the module";
  FakeSp a = Sp(1);
  Enter(a, 0);
  EXPECT_TRUE(UsesModule(a, 1));
  Sql("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA psp FROM PUBLIC, psp_primary;"
      "ALTER FUNCTION psp.certify_module_version() RENAME TO gone; DO $$DECLARE f regprocedure; BEGIN"
      " SELECT oid INTO f FROM pg_proc WHERE proname = 'certify_batch' AND pronamespace = "
      "'psp'::regnamespace;"
      " EXECUTE format('DROP FUNCTION %s', f); END$$");
  EXPECT_GT(Decide(a, 2, 0, Rows({{"key2", "x"}})).global_t(), 0);
}

}  // namespace
}  // namespace psp::primary
