// Through the decoder of the whole: what of a transaction's captures becomes its key uses.
#include "writeset/key_uses.h"

#include <gtest/gtest.h>

#include "embedded/constants.h"
#include "writeset/assemble.h"
#include "writeset/testing/chunks.h"

namespace psp {
namespace {

using chunks::Entry;
using chunks::Found;

std::string Captured(std::int32_t table_id, char op, std::string_view payload, std::int32_t command = 0) {
  return chunks::Chunk(table_id, op, payload, command);
}

// "shared 3 k, …", and "from W seen" at the end if there is a snapshot.
std::string ShowUses(const proto::KeyUses& uses) {
  static const char* const kNames[] = {"read", "shared", "ended", "referrers", "table"};
  std::string text;
  for (const proto::KeyUse& use : uses.keys()) {
    text +=
        (text.empty() ? "" : ", ") + std::string(kNames[use.kind()]) + " " + std::to_string(use.table_id());
    if (!use.key().empty()) text += " " + use.key();
  }
  if (uses.has_ended_snapshot()) {
    text += " from " + std::to_string(uses.ended_snapshot().watermark());
    for (const std::int64_t global_t : uses.ended_snapshot().seen()) text += " " + std::to_string(global_t);
  }
  return text;
}

std::string Show(const std::string& chunks) {
  const auto assembled = AssembleWriteSet(chunks);
  return assembled ? ShowUses(assembled->uses) : "malformed";
}

TEST(KeyUsesTest, EachOperationIsAKind) {
  EXPECT_EQ(Show(Captured(3, 's', Entry("a")) + Captured(3, 'k', Entry("b")) + Captured(4, 'r', Entry("c")) +
                 Captured(5, 'f', Entry("d")) + Captured(6, 't', "")),
            "shared 3 a, ended 3 b, read 4 c, referrers 5 d, table 6");
}

TEST(KeyUsesTest, AreNoRows) {
  const auto assembled = AssembleWriteSet(Captured(3, 's', Entry("a")) + Captured(6, 't', ""));
  ASSERT_TRUE(assembled);
  EXPECT_EQ(assembled->write_set.rows_size(), 0);
  EXPECT_EQ(assembled->uses.keys_size(), 2);
}

TEST(KeyUsesTest, OfOneKindAKeyIsUsedOnce) {
  EXPECT_EQ(Show(Captured(3, 's', Entry("a") + Entry("b") + Entry("a")) + Captured(3, 's', Entry("b")) +
                 Captured(4, 's', Entry("a")) + Captured(3, 'k', Entry("a")) + Captured(6, 't', "") +
                 Captured(6, 't', "")),
            "shared 3 a, shared 3 b, shared 4 a, ended 3 a, table 6");
}

TEST(KeyUsesTest, AreInTheOrderOfCapture) {
  EXPECT_EQ(Show(Captured(3, 's', Entry("b"), 7) + Captured(3, 's', Entry("a"), 5)),
            "shared 3 a, shared 3 b");
}

TEST(KeyUsesTest, AWrittenRowIsNotReadAsWell) {
  EXPECT_EQ(Show(Captured(3, 'r', Entry("a") + Entry("b") + Entry("c")) + Captured(3, 'u', Entry("a", "1")) +
                 Captured(3, 'd', Entry("b")) + Captured(4, 'u', Entry("c", "1"))),
            "read 3 c");
  EXPECT_EQ(Show(Captured(3, 'r', Entry("a")) + Captured(3, 'g', Entry("a"))), "read 3 a")
      << "a guard is no row";
}

TEST(KeyUsesTest, AKeyThatARowHasInTheEndIsNotEnded) {
  EXPECT_EQ(Show(Captured(3, 'k', Entry("a") + Entry("b") + Entry("c")) + Captured(3, 'u', Entry("a", "1")) +
                 Captured(3, 'd', Entry("b")) + Captured(3, 'g', Entry("c"))),
            "ended 3 b, ended 3 c");
  EXPECT_EQ(Show(Captured(3, 's', Entry("a")) + Captured(3, 'u', Entry("a", "1"))), "shared 3 a");
}

TEST(KeyUsesTest, WhetherAKeyInDoubtHasEndedIsKnownWhenItsRowIs) {
  auto assembled =
      AssembleWriteSet(Captured(3, 'd', Entry("a") + Entry("b")) + Captured(3, 'k', Entry("a") + Entry("b")) +
                       Captured(3, 'u', Entry("a", "1") + Entry("b", "1")));
  ASSERT_TRUE(assembled);
  ASSERT_EQ(assembled->doubts.size(), 2U);
  EXPECT_EQ(ShowUses(assembled->uses), "ended 3 a, ended 3 b");
  ASSERT_TRUE(SettleDoubts(Found(3, Entry("b", "1")), &*assembled));
  EXPECT_EQ(ShowUses(assembled->uses), "ended 3 a");
}

TEST(KeyUsesTest, OfAllSegmentsTheLastStateOfARowCounts) {
  const std::string statement = Captured(kSchemaHistoryId, 'u', Entry("s", "text"));
  const std::string ended = Captured(3, 'k', Entry("a"));
  EXPECT_EQ(Show(Captured(3, 'd', Entry("a")) + ended + Captured(4, 's', Entry("p")) + statement +
                 Captured(3, 'u', Entry("a", "1")) + Captured(4, 's', Entry("p"))),
            "shared 4 p");
  EXPECT_EQ(Show(Captured(3, 'd', Entry("a")) + ended + statement), "ended 3 a");
}

TEST(KeyUsesTest, TheSnapshotBeforeTheFirstEndCounts) {
  EXPECT_EQ(
      Show(Captured(3, 'w', "12 -", 6) + Captured(3, 'w', "10 11,13", 4) + Captured(3, 'k', Entry("a"), 5)),
      "ended 3 a from 10 11 13");
  EXPECT_EQ(Show(Captured(3, 's', Entry("a")) + Captured(3, 'w', "10 -")), "shared 3 a");
  EXPECT_EQ(Show(Captured(3, 'k', Entry("a")) + Captured(3, 'w', "10 -") + Captured(3, 'u', Entry("a", "1"))),
            "")
      << "no key has ended after all";
}

TEST(KeyUsesTest, MalformedPayloadsAreRefused) {
  std::string null_key;
  AppendRecord(&null_key, {{kOidBytea, std::nullopt}});
  for (const char op : {'s', 'k', 'r', 'f'}) {
    EXPECT_EQ(Show(Captured(3, op, "x")), "malformed") << op;
    EXPECT_EQ(Show(Captured(3, op, Entry("a", "image"))), "malformed") << op;
    EXPECT_EQ(Show(Captured(3, op, null_key)), "malformed") << op;
    EXPECT_EQ(Show(Captured(3, op, Entry("a").substr(0, 9))), "malformed") << op;
  }
  EXPECT_EQ(Show(Captured(3, 't', Entry("a"))), "malformed");
  for (const char* text : {"", "x", "10", "10 9", "10 12,11"}) {
    EXPECT_EQ(Show(Captured(3, 'w', text)), "malformed") << text;
    EXPECT_EQ(Show(Captured(3, 'w', "10 -") + Captured(3, 'w', text)), "malformed") << text;
  }
}

}  // namespace
}  // namespace psp
