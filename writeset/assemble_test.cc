#include "writeset/assemble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/hex.h"
#include "common/pg_binary.h"
#include "embedded/constants.h"
#include "writeset/table_form.h"
#include "writeset/testing/chunks.h"

namespace psp {
namespace {

using chunks::Chunk;
using chunks::Entry;
using chunks::Found;

std::string Upsert(std::string_view key, std::string_view image) { return Chunk(7, 'u', Entry(key, image)); }
std::string Delete(std::string_view key) { return Chunk(7, 'd', Entry(key)); }

std::string ShowRow(const proto::Row& row) {
  if (row.has_image()) return row.key() + "=" + row.image();
  return row.key() + (row.deleted() ? " gone" : " guard" + std::to_string(row.table_id()));
}

// "key=image", "key gone", "key?" for a doubt, or "key guard9", in the order of the write-set.
std::string Show(const std::string& chunks) {
  const auto assembled = AssembleWriteSet(chunks);
  if (!assembled) return "malformed";
  std::string text;
  for (int i = 0; i < assembled->write_set.rows_size(); ++i) {
    const proto::Row& row = assembled->write_set.rows(i);
    const bool is_doubt = std::ranges::find(assembled->doubts, i) != assembled->doubts.end();
    text += (text.empty() ? "" : ", ") + (is_doubt ? row.key() + "?" : ShowRow(row));
  }
  return text;
}

TEST(AssembleWriteSetTest, NothingIsAnEmptyWriteSet) { EXPECT_EQ(Show(""), ""); }

TEST(AssembleWriteSetTest, AKeyThatWasCapturedOnceIsAsItWasCaptured) {
  EXPECT_EQ(Show(Upsert("a", "1") + Delete("b") + Upsert("c", "")), "a=1, b gone, c=");
  EXPECT_EQ(Show(Chunk(7, 'u', Entry("a", "1") + Entry("b", ""))), "a=1, b=");
}

TEST(AssembleWriteSetTest, AKeyThatWasCapturedMoreOftenIsADoubt) {
  EXPECT_EQ(Show(Upsert("a", "1") + Upsert("b", "1") + Upsert("a", "2")), "a?, b=1");
  EXPECT_EQ(Show(Upsert("a", "1") + Delete("a")), "a?");
  EXPECT_EQ(Show(Delete("a") + Upsert("a", "1")), "a?");
  EXPECT_EQ(Show(Delete("a") + Delete("a") + Delete("a")), "a?");
}

TEST(AssembleWriteSetTest, ATableMayLeaveItsKeysInTheImage) {
  const std::string one("\0\0\0\1", 4);
  std::string image;
  AppendRecord(&image, {{kOidText, "x"}, {kOidInt4, one}, {kOidText, "y"}});
  std::string key;
  AppendRecord(&key, {{kOidText, "y"}, {kOidInt4, one}});
  const std::string places("\2\0\2\0\1", 5);
  const std::string entry = places + image;
  const auto assembled = AssembleWriteSet(Chunk(7, 'i', entry) + Delete("b"));
  ASSERT_TRUE(assembled);
  ASSERT_EQ(assembled->write_set.rows_size(), 2);
  EXPECT_EQ(assembled->write_set.rows(0).key(), key);
  EXPECT_EQ(assembled->write_set.rows(0).image(), image);
  for (std::size_t size = 1; size < entry.size(); ++size) {
    EXPECT_FALSE(AssembleWriteSet(Chunk(7, 'i', entry.substr(0, size)))) << size;
  }
  EXPECT_FALSE(AssembleWriteSet(Chunk(7, 'i', std::string("\1\0\3", 3) + image)));
}

TEST(AssembleWriteSetTest, KeysOfDifferentTablesAreDifferent) {
  EXPECT_EQ(Show(Upsert("a", "1") + Chunk(8, 'u', Entry("a", "2"))), "a=1, a=2");
}

TEST(AssembleWriteSetTest, GuardsHaveNeitherImageNorDeleted) {
  EXPECT_EQ(Show(Upsert("a", "1") + Chunk(9, 'g', Entry("x") + Entry("y")) + Chunk(9, 'g', Entry("x"))),
            "a=1, x guard9, y guard9");
}

// "7[8 9]" with its guards, or "7 dropped".
std::string ShowTables(const std::string& chunks) {
  const auto assembled = AssembleWriteSet(chunks);
  if (!assembled) return "malformed";
  std::string text;
  for (const proto::TableChange& change : assembled->write_set.table_changes()) {
    text += (text.empty() ? "" : ", ") + std::to_string(change.table_id());
    if (change.dropped()) text += " dropped";
    if (change.emptied()) text += " emptied";
    for (const std::uint32_t guard_id : change.guard_ids()) text += " guard" + std::to_string(guard_id);
  }
  return text;
}

// What a table has become: (0, guards, form), or emptied (2, guards, form).
std::string Changed(char what, const std::vector<std::int32_t>& guards) {
  std::string payload(1, what);
  AppendInt32(&payload, static_cast<std::int32_t>(guards.size()));
  for (const std::int32_t guard : guards) AppendInt32(&payload, guard);
  return payload + EncodeTableForm({{{kOidInt4, -1, true}}, {{kOidInt4, 0, Normalise::kNone}}});
}

TEST(AssembleWriteSetTest, TheLastChangeOfATableCounts) {
  const std::string no_guards = Changed(0, {});
  const std::string two_guards = Changed(0, {9, 256});
  EXPECT_EQ(ShowTables(Chunk(7, 'c', two_guards) + Upsert("a", "1") + Chunk(5, 'c', "\1")),
            "7 guard9 guard256, 5 dropped");
  EXPECT_EQ(ShowTables(Chunk(7, 'c', two_guards, 4) + Chunk(5, 'c', no_guards, 3) +
                       Chunk(7, 'c', no_guards, 2) + Chunk(5, 'c', "\1", 5)),
            "7 guard9 guard256, 5 dropped");
  EXPECT_EQ(ShowTables(Chunk(7, 'c', two_guards) + Chunk(7, 'c', no_guards)), "7");
  EXPECT_EQ(ShowTables(Upsert("a", "1")), "");
}

TEST(AssembleWriteSetTest, ATableThatWasEmptiedStaysSoUntilItIsDropped) {
  const std::string changed = Changed(0, {9});
  const std::string emptied = Changed(2, {8});
  EXPECT_EQ(ShowTables(Chunk(7, 'c', emptied)), "7 emptied guard8");
  EXPECT_EQ(ShowTables(Chunk(7, 'c', emptied) + Chunk(7, 'c', changed)), "7 emptied guard9");
  EXPECT_EQ(ShowTables(Chunk(7, 'c', changed) + Chunk(7, 'c', emptied)), "7 emptied guard8");
  EXPECT_EQ(ShowTables(Chunk(7, 'c', emptied) + Chunk(7, 'c', "\1")), "7 dropped");
}

TEST(AssembleWriteSetTest, AMalformedChangeOfATableIsRefused) {
  const std::string one = Changed(0, {9});
  EXPECT_EQ(ShowTables(Chunk(7, 'c', one)), "7 guard9");
  for (std::size_t size = 0; size < one.size(); ++size)
    EXPECT_EQ(ShowTables(Chunk(7, 'c', std::string_view(one).substr(0, size))), "malformed") << size;
  for (const std::string& payload :
       {one + "x", Changed(3, {}), Changed(1, {}), Changed(0, {0}), Changed(0, {-1})})
    EXPECT_EQ(ShowTables(Chunk(7, 'c', payload)), "malformed") << payload.size();
}

std::string Statement(std::string_view key) { return Chunk(kSchemaHistoryId, 'u', Entry(key, "text")); }

TEST(AssembleWriteSetTest, TheLastSegmentHasTheKeysOfAllSegments) {
  EXPECT_EQ(Show(Upsert("a", "1") + Statement("s")), "a=1, s=text, a?");
  EXPECT_EQ(Show(Statement("s") + Upsert("a", "1")), "s=text, a=1");
  EXPECT_EQ(Show(Upsert("a", "1") + Statement("s") + Delete("a") + Delete("b")),
            "a=1, s=text, a gone, b gone");
  EXPECT_EQ(Show(Upsert("a", "1") + Statement("s") + Upsert("b", "2") + Statement("t") + Upsert("c", "3")),
            "a=1, s=text, b=2, t=text, c=3, a?, b?");
  EXPECT_EQ(Show(Chunk(9, 'g', Entry("k")) + Statement("s") + Statement("t")),
            "k guard9, s=text, t=text, k guard9");
}

TEST(AssembleWriteSetTest, ARowThatAStatementDeletesIsNotAppliedAsARow) {
  const auto assembled =
      AssembleWriteSet(Upsert("a", "1") + Chunk(7, 'e', Entry("b")) + Statement("s") +
                       Chunk(7, 'e', Entry("c")) + Chunk(7, 'e', Entry("d")) + Upsert("d", "2"));
  ASSERT_TRUE(assembled.ok()) << assembled.error();
  std::string gone;
  for (const proto::Row& row : assembled->write_set.rows()) {
    if (row.deleted()) gone += row.key() + (row.gone_before() ? " before, " : ", ");
  }
  EXPECT_EQ(gone, "b before, c before, b before, ");
  EXPECT_EQ(assembled->doubts, (std::vector<int>{4, 5}));
  const std::string twice = Upsert("a", "1") + Upsert("a", "2") + Chunk(7, 'e', Entry("a"));
  EXPECT_EQ(Show(twice + Statement("s")), "a gone, s=text, a gone") << "it is no doubt";
}

TEST(AssembleWriteSetTest, KeysOfADroppedTableAreNotRepeated) {
  EXPECT_EQ(Show(Upsert("a", "1") + Chunk(7, 'c', std::string(1, 1)) + Statement("s")), "a=1, s=text");
}

TEST(AssembleWriteSetTest, AnEarlierSegmentsDoubtsAreLookedUpAtItsEnd) {
  const std::string twice = Upsert("a", "1") + Upsert("a", "2") + Upsert("b", "3") + Delete("b");
  EXPECT_EQ(Show(twice + Statement("s")), "malformed");
  EXPECT_EQ(Show(twice + Chunk(0, 'l', Found(7, Entry("a", "4"))) + Statement("s")),
            "a=4, b gone, s=text, a?, b gone");
  EXPECT_EQ(Show(twice + Chunk(0, 'l', Found(7, Entry("c", "4"))) + Statement("s")), "malformed");
  EXPECT_EQ(Show(Statement("s") + Chunk(0, 'l', "")), "malformed");
}

TEST(SettleDoubtsTest, FoundRowsHaveTheirImageAndTheOthersAreGone) {
  auto assembled = AssembleWriteSet(Upsert("a", "1") + Delete("b") + Upsert("b", "2") + Upsert("c", "3") +
                                    Delete("c") + Chunk(8, 'd', Entry("b") + Entry("b")));
  ASSERT_TRUE(assembled);
  ASSERT_TRUE(SettleDoubts(Found(7, Entry("b", "now")) + Found(8, ""), &*assembled));
  ASSERT_EQ(assembled->write_set.rows_size(), 4);
  EXPECT_EQ(ShowRow(assembled->write_set.rows(0)), "a=1");
  EXPECT_EQ(ShowRow(assembled->write_set.rows(1)), "b=now");
  EXPECT_EQ(ShowRow(assembled->write_set.rows(2)), "c gone");
  EXPECT_EQ(ShowRow(assembled->write_set.rows(3)), "b gone");
  EXPECT_TRUE(assembled->doubts.empty());
}

TEST(SettleDoubtsTest, ARepeatedKeyThatIsGoneWentBefore) {
  auto assembled = AssembleWriteSet(Upsert("a", "1") + Upsert("b", "2") + Delete("d") + Statement("s") +
                                    Upsert("c", "3") + Upsert("c", "4"));
  ASSERT_TRUE(assembled.ok());
  ASSERT_TRUE(SettleDoubts(Found(7, Entry("b", "5")), &*assembled).ok());
  std::string gone;
  for (const proto::Row& row : assembled->write_set.rows()) {
    if (row.deleted()) gone += row.key() + (row.gone_before() ? " before, " : ", ");
  }
  EXPECT_EQ(gone, "d, c, a before, d before, ");
}

TEST(SettleDoubtsTest, OnlyDoubtsCanBeFound) {
  const std::string found = Found(7, Entry("b", "now"));
  for (const std::string& wrong :
       {Found(7, Entry("a", "now")), Found(8, Entry("b", "now")), Found(7, Entry("b")), Entry("b"),
        found.substr(0, found.size() - 1), std::string("x")}) {
    auto assembled = AssembleWriteSet(Upsert("a", "1") + Delete("b") + Upsert("b", "2"));
    ASSERT_TRUE(assembled);
    EXPECT_FALSE(SettleDoubts(wrong, &*assembled));
  }
}

TEST(DescribeDoubtsTest, TableKeyAndTexts) {
  std::string number;
  AppendInt32(&number, 5);
  std::string key;
  AppendRecord(&key, {{kOidInt4, number}, {kOidText, ""}, {600, "point"}});
  const auto assembled = AssembleWriteSet(Upsert("a", "1") + Delete(key) + Upsert(key, "2") +
                                          Chunk(8, 'd', Entry("x") + Entry("x")));
  ASSERT_TRUE(assembled);
  EXPECT_EQ(DescribeDoubts(*assembled), "7 " + EncodeHex(key) + " t35 t -\n8 78");
}

std::string ImageEntry(std::string_view places, std::string_view first, std::string_view second) {
  std::string entry(1, static_cast<char>(places.size()));
  for (const char place : places) entry += {'\0', place};
  AppendRecord(&entry, {{kOidText, first}, {kOidText, second}});
  return entry;
}

TEST(AssembleWriteSetTest, KeysAreTakenOutOfImages) {
  std::string key;
  AppendRecord(&key, {{kOidText, "second"}, {kOidText, "first"}});
  const auto assembled = AssembleWriteSet(
      Chunk(7, 'i', ImageEntry({"\1\0", 2}, "first", "second") + ImageEntry({"\1\0", 2}, "other", "second")) +
      Chunk(7, 'd', Entry(key)));
  ASSERT_TRUE(assembled.ok()) << assembled.error();
  ASSERT_EQ(assembled->write_set.rows_size(), 2);
  EXPECT_EQ(assembled->write_set.rows(0).key(), key);
  EXPECT_EQ(assembled->doubts, std::vector<int>{0});
  EXPECT_EQ(assembled->write_set.rows(1).image(), ImageEntry({"\1\0", 2}, "other", "second").substr(5));
}

TEST(AssembleWriteSetTest, MalformedKeyPlacesAreRefused) {
  EXPECT_EQ(Show(Chunk(7, 'i', ImageEntry("\2", "a", "b"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'i', ImageEntry("", "a", "b"))), "malformed");
  const std::string entry = ImageEntry("\1", "a", "b");
  for (std::size_t size = 1; size < entry.size(); ++size) {
    EXPECT_EQ(Show(Chunk(7, 'i', entry.substr(0, size))), "malformed") << size;
  }
}

TEST(AssembleWriteSetTest, RowsAreInTheOrderOfTheirFirstCapture) {
  EXPECT_EQ(Show(Chunk(7, 'u', Entry("a", "1"), 9) + Chunk(7, 'u', Entry("b", "1"), 2) +
                 Chunk(7, 'd', Entry("c"), 5)),
            "b=1, c gone, a=1");
}

TEST(AssembleWriteSetTest, AStatementMakesItASchemaChange) {
  const auto kind_of = [](const std::string& chunks) { return AssembleWriteSet(chunks)->write_set.kind(); };
  EXPECT_EQ(kind_of(Upsert("a", "1")), proto::ENTRY_ROWS);
  EXPECT_EQ(kind_of(Upsert("a", "1") + Chunk(kSchemaHistoryId, 'u', Entry("1", "CREATE VIEW"))),
            proto::ENTRY_SCHEMA_CHANGE);
}

TEST(AssembleWriteSetTest, MalformedChunksAreRefused) {
  EXPECT_EQ(Show("x"), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'q', Entry("a"))), "malformed");
  EXPECT_EQ(Show(Chunk(-1, 'd', Entry("a"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'd', Entry("a", "image"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'u', Entry("a"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'd', "x")), "malformed");
  EXPECT_EQ(Show(Entry("a")), "malformed");
  std::string null_key;
  AppendRecord(&null_key, {{kOidBytea, std::nullopt}});
  EXPECT_EQ(Show(Chunk(7, 'd', null_key)), "malformed");
}

TEST(AssembleWriteSetTest, TruncatedAtEveryByte) {
  const std::string first = Delete("c");
  const std::string whole = first + Chunk(7, 'u', Entry("a", "1") + Entry("b", "2"));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size == first.size()) continue;
    EXPECT_EQ(Show(whole.substr(0, size)), "malformed") << size;
  }
  EXPECT_EQ(Show(whole), "c gone, a=1, b=2");
}

TEST(AssembleWriteSetTest, AnyByteMayBeWrong) {
  const std::string whole = Chunk(7, 'u', Entry("a", "1")) + Chunk(9, 'g', Entry("x"));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {1, 0x80, 0xFF}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      Show(bytes);  // an answer or an error, but no crash (run under the sanitizers)
    }
  }
}

}  // namespace
}  // namespace psp
