#include "common/pg_errors.h"

#include <gtest/gtest.h>

namespace psp {
namespace {

TEST(MayPass, WhatPassesByItself) {
  for (const char* sqlstate :
       {"57014", "57000", "57P01", "57P02", "57P03", "57P05", "53100", "53200", "53300", "40001", "40P01",
        "08006", "55P03", "55006", "25006", "25P03", "25P04", "58000", "58030"}) {
    EXPECT_TRUE(MayPass(sqlstate)) << sqlstate;
  }
}

TEST(MayPass, WhatComesAgainUntilItsCauseIsRemoved) {
  for (const char* sqlstate : {"", "22P02", "22P03", "23505", "23514", "25001", "42501", "42883", "54001",
                               "0A000", "P0001", "XX000", "55000", "08P01"}) {
    EXPECT_FALSE(MayPass(sqlstate)) << sqlstate;
  }
}

TEST(OneLine, HasNoLineEnds) {
  EXPECT_EQ(OneLine("ERROR:  no\nLINE 1: x\n"), "ERROR:  no LINE 1: x");
  EXPECT_EQ(OneLine("\n"), "");
}

}  // namespace
}  // namespace psp
