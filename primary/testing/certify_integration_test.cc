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

}  // namespace
}  // namespace psp::primary
