#include "semi_primary/submit/conflict_error.h"

#include <gtest/gtest.h>

#include "common/pg_binary.h"
#include "embedded/constants.h"

namespace psp::sp {
namespace {

std::string Int4Key(std::int32_t value) {
  std::string bytes;
  AppendInt32(&bytes, value);
  std::string key;
  AppendRecord(&key, {{kOidInt4, bytes}});
  return key;
}

const KeyNames kParent = {"public", "parent", {"id"}, "", {{"public", "child", "child_p_fkey"}}};
const KeyNames kIndex = {"public", "t", {}, "t_email", {}};

std::string Detail(const KeyNames& names, std::optional<proto::UseKind> use, const std::string& key,
                   const std::string& winner = "tokyo") {
  const UserError error = ConflictError(names, {{1, key}, 9, winner.empty() ? 0U : 2U, use}, winner);
  EXPECT_EQ(error.sqlstate, "40001");
  EXPECT_EQ(error.message, "could not serialize access due to concurrent update");
  return error.detail;
}

TEST(ConflictErrorTest, NamesTableKeyAndWinner) {
  std::string value;
  AppendInt32(&value, 5);
  std::string key;
  AppendRecord(&key, {{kOidInt4, value}, {kOidText, "x"}});
  EXPECT_EQ(
      Detail({"public", "t", {"id", "name"}, "", {}}, std::nullopt, key),
      "Key (id, name)=(5, x) of table \"public\".\"t\" was changed by semi-primary \"tokyo\" (global_t 9).");
  EXPECT_EQ(Detail({}, std::nullopt, key), "A row was changed by semi-primary \"tokyo\" (global_t 9).");
}

TEST(ConflictErrorTest, NamesTheIndexOfAGuard) {
  EXPECT_EQ(Detail(kIndex, std::nullopt, "x"),
            "A value of index \"t_email\" of table \"public\".\"t\" was taken by semi-primary \"tokyo\" "
            "(global_t 9).");
}

TEST(ConflictErrorTest, SaysWhenTheWinnerIsForgotten) {
  EXPECT_EQ(Detail(kIndex, std::nullopt, "x", ""),
            "A value of index \"t_email\" of table \"public\".\"t\" was taken, or may have been: the "
            "transaction's snapshot is older than the primary remembers deleted keys (deleted_retention_s).");
}

TEST(ConflictErrorTest, AKeyThatWasSharedIsGone) {
  EXPECT_EQ(Detail(kParent, proto::USE_SHARED, Int4Key(5)),
            "Key (id)=(5) of table \"public\".\"parent\", to which foreign key \"child_p_fkey\" of table "
            "\"public\".\"child\" refers, was taken away by semi-primary \"tokyo\" (global_t 9).");
}

TEST(ConflictErrorTest, AKeyThatWasEndedIsReferredTo) {
  EXPECT_EQ(
      Detail(kParent, proto::USE_ENDED, Int4Key(5)),
      "A row with foreign key \"child_p_fkey\" of table \"public\".\"child\" that refers to key (id)=(5) of "
      "table \"public\".\"parent\" was written by semi-primary \"tokyo\" (global_t 9).");
  EXPECT_EQ(
      Detail(kParent, proto::USE_ENDED, std::string(4, '\0')),
      "A row with foreign key \"child_p_fkey\" of table \"public\".\"child\" that refers to a key of table "
      "\"public\".\"parent\" was written by semi-primary \"tokyo\" (global_t 9).");
}

TEST(ConflictErrorTest, SeveralForeignKeysAreNamed) {
  KeyNames names = kParent;
  names.foreign_keys.push_back({"shop", "other", "o"});
  EXPECT_EQ(Detail(names, proto::USE_SHARED, Int4Key(5)),
            "Key (id)=(5) of table \"public\".\"parent\", to which foreign key \"child_p_fkey\" of table "
            "\"public\".\"child\" or foreign key \"o\" of table \"shop\".\"other\" refers, was taken away by "
            "semi-primary \"tokyo\" (global_t 9).");
  for (const char* name : {"p", "q", "r"}) names.foreign_keys.push_back({"shop", "other", name});
  EXPECT_NE(Detail(names, proto::USE_SHARED, Int4Key(5))
                .find("\"p\" of table \"shop\".\"other\" or one of 2 others "),
            std::string::npos);
  names.foreign_keys.clear();
  EXPECT_EQ(Detail(names, proto::USE_SHARED, Int4Key(5)),
            "Key (id)=(5) of table \"public\".\"parent\", to which a foreign key refers, was taken away by "
            "semi-primary \"tokyo\" (global_t 9).");
}

TEST(ConflictErrorTest, WhatWasReadIsNamed) {
  EXPECT_EQ(Detail(kParent, proto::USE_READ, Int4Key(5)),
            "Key (id)=(5) of table \"public\".\"parent\", which the transaction has read, was changed by "
            "semi-primary \"tokyo\" (global_t 9).");
  EXPECT_EQ(
      Detail(kParent, proto::USE_TABLE_READ, ""),
      "Table \"public\".\"parent\", which the transaction has read, was written by semi-primary \"tokyo\" "
      "(global_t 9).");
  EXPECT_EQ(
      Detail(kParent, proto::USE_REFERRERS_READ, Int4Key(5)),
      "A row with foreign key \"child_p_fkey\" of table \"public\".\"child\" that refers to key (id)=(5) of "
      "table \"public\".\"parent\", of which the transaction has read all, was written by semi-primary "
      "\"tokyo\" (global_t 9).");
}

TEST(ConflictErrorTest, SaysWhenThePrimaryDoesNotRememberSoFarBack) {
  const std::string end =
      ", or may have been: the primary does not remember so far back as the transaction's snapshot, or has "
      "been "
      "restarted since.";
  EXPECT_EQ(Detail({"public", "t", {"id"}, "", {}}, proto::USE_TABLE_READ, "", ""),
            "Table \"public\".\"t\", which the transaction has read, was written" + end);
  for (const proto::UseKind use : {proto::USE_SHARED, proto::USE_ENDED, proto::USE_REFERRERS_READ}) {
    EXPECT_TRUE(Detail(kParent, use, Int4Key(5), "").ends_with(end)) << use;
  }
  EXPECT_TRUE(Detail(kParent, proto::USE_READ, Int4Key(5), "").ends_with("(deleted_retention_s)."));
}

TEST(ConflictErrorTest, AnAdvisoryLockHasItsNumber) {
  std::string number;
  AppendInt64(&number, 42);
  std::string key;
  AppendRecord(&key, {{kOidInt8, number}});
  EXPECT_EQ(ConflictError({}, {{kAdvisoryLocksId, key}, 9, 2}, "tokyo").detail,
            "Advisory lock 42 was taken by semi-primary \"tokyo\" (global_t 9).");
}

TEST(ReservationText, NamesTheKey) {
  proto::Reservation reservation;
  reservation.set_table_id(1);
  reservation.set_key(Int4Key(5));
  reservation.set_keys(23);
  reservation.set_age_us(120'400);
  reservation.set_waiting(2);
  EXPECT_EQ(ReservationText(kParent, reservation),
            R"(key (id)=(5) of table "public"."parent" (23 keys, for 120 ms, 2 wait))");
  reservation.set_table_id(kAdvisoryLocksId);
  EXPECT_EQ(ReservationText({}, reservation), "Advisory lock 5 (23 keys, for 120 ms, 2 wait)");
}

}  // namespace
}  // namespace psp::sp
