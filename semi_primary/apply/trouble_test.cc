#include "semi_primary/apply/trouble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace psp::sp {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;

class TroubleTest : public testing::Test {
 protected:
  std::string Told(const std::string& message, std::string_view remedy = "") {
    trouble_.Stops(1, {PgReaction::kAbort, "42P07", message}, remedy);
    return told_;
  }

  std::string told_;
  Trouble trouble_{[this](const ApplyEvent& event) { told_ = std::get<ApplyTrouble>(event).message; },
                   [] { return "noon"; }};
};

constexpr char kBegin[] = "applying has stopped since noon: 42P07 ";

TEST_F(TroubleTest, TellsTheStatementAndNotHowPspCameToIt) {
  EXPECT_EQ(Told("ERROR:  exists CONTEXT:  SQL statement \"CREATE VIEW v\" PL/pgSQL function "
                 "pg_temp_3.\"psp_0\"(text) line 1 at EXECUTE SQL statement \"SELECT 1\" PL/pgSQL function "
                 "psp.run_statement() line 80 at EXECUTE"),
            std::string(kBegin) + "ERROR:  exists CONTEXT:  SQL statement \"CREATE VIEW v\"");
}

TEST_F(TroubleTest, FunctionsOfTheApplicationStay) {
  EXPECT_THAT(Told("ERROR:  no CONTEXT:  PL/pgSQL function public.checked(integer) line 2 at RAISE PL/pgSQL "
                   "function psp.apply_1() line 3"),
              EndsWith("CONTEXT:  PL/pgSQL function public.checked(integer) line 2 at RAISE"));
}

TEST_F(TroubleTest, WhoseWriteWasRefusedIsTold) {
  EXPECT_THAT(
      Told("ERROR:  no CONTEXT:  PL/pgSQL function psp.refuse_replica() line 18 at RAISE SQL statement "
           "\"DELETE FROM a\" PL/pgSQL function public.writes(integer) line 1 at SQL statement PL/pgSQL "
           "function psp.apply_insert_1() line 3"),
      EndsWith("no CONTEXT:  SQL statement \"DELETE FROM a\" PL/pgSQL function public.writes(integer) line 1 "
               "at SQL statement"));
}

TEST_F(TroubleTest, WithNothingButOwnFramesThereIsNoContext) {
  EXPECT_EQ(Told("ERROR:  no HINT:  Do. CONTEXT:  PL/pgSQL function psp.follow_changes() line 9"),
            std::string(kBegin) + "ERROR:  no HINT:  Do.");
}

TEST_F(TroubleTest, WhatIsNoContextStays) {
  EXPECT_THAT(Told("ERROR:  PL/pgSQL function psp.f() is not there"), HasSubstr("psp.f() is not there"));
}

TEST_F(TroubleTest, ALongMessageIsCutAndItsRemedyIsNot) {
  const std::string told = Told(std::string(5000, 'x'), "; ways out");
  EXPECT_THAT(told, EndsWith("x …; ways out"));
  EXPECT_THAT(told, SizeIs(testing::Lt(1100)));
}

}  // namespace
}  // namespace psp::sp
