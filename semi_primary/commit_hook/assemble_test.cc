#include "semi_primary/commit_hook/assemble.h"

#include <gtest/gtest.h>

#include "common/pg_binary.h"

namespace psp {
namespace {

std::string Entry(std::string_view key, std::optional<std::string_view> image = std::nullopt) {
  std::vector<RecordField> fields{{kOidBytea, key}};
  if (image) fields.push_back({kOidBytea, *image});
  std::string out;
  AppendRecord(&out, fields);
  return out;
}

std::string Chunk(std::int32_t table_id, char op, std::int16_t depth, std::string_view payload,
                  std::int32_t command = 0) {
  std::string cmin;
  AppendInt32(&cmin, command);
  std::string id;
  AppendInt32(&id, table_id);
  std::string level;
  AppendInt16(&level, depth);
  std::string out;
  AppendRecord(&out, {{kOidCid, cmin},
                      {kOidInt4, id},
                      {kOidChar, std::string_view(&op, 1)},
                      {kOidInt2, level},
                      {kOidBytea, payload}});
  return out;
}

std::string Upsert(std::string_view key, std::string_view image, std::int16_t depth = 1) {
  return Chunk(7, 'u', depth, Entry(key, image));
}
std::string Delete(std::string_view key, std::int16_t depth = 1) { return Chunk(7, 'd', depth, Entry(key)); }
std::string Begin(std::int16_t depth = 1) { return Chunk(7, 's', depth, ""); }

// "key=image" or "key gone" or "table:key guard", in the order of the write-set.
std::string Show(const std::string& chunks) {
  const auto write_set = AssembleWriteSet(chunks);
  if (!write_set) return "malformed";
  std::string text;
  for (const proto::Row& row : write_set->rows()) {
    if (!text.empty()) text += ", ";
    text += row.has_image()
                ? row.key() + "=" + row.image()
                : row.key() + (row.deleted() ? " gone" : " guard" + std::to_string(row.table_id()));
  }
  return text;
}

TEST(AssembleWriteSetTest, NothingIsAnEmptyWriteSet) { EXPECT_EQ(Show(""), ""); }

TEST(AssembleWriteSetTest, OneRowForEachKey) {
  EXPECT_EQ(Show(Upsert("a", "1") + Upsert("b", "1") + Upsert("a", "2")), "a=2, b=1");
  EXPECT_EQ(Show(Upsert("a", "1") + Delete("a")), "a gone");
  EXPECT_EQ(Show(Delete("a") + Upsert("a", "1")), "a=1");
  EXPECT_EQ(Show(Chunk(7, 'u', 1, Entry("a", "1") + Entry("b", ""))), "a=1, b=");
}

TEST(AssembleWriteSetTest, ATableMayLeaveItsKeysInTheImage) {
  const std::string one("\0\0\0\1", 4);
  std::string image;
  AppendRecord(&image, {{kOidText, "x"}, {kOidInt4, one}, {kOidText, "y"}});
  std::string key;
  AppendRecord(&key, {{kOidText, "y"}, {kOidInt4, one}});
  const std::string places("\2\0\2\0\1", 5);
  const std::string entry = places + image;
  const auto write_set = AssembleWriteSet(Chunk(7, 'i', 0, entry + entry) + Delete("b"));
  ASSERT_TRUE(write_set);
  ASSERT_EQ(write_set->rows_size(), 2);
  EXPECT_EQ(write_set->rows(0).key(), key);
  EXPECT_EQ(write_set->rows(0).image(), image);
  for (std::size_t size = 1; size < entry.size(); ++size) {
    EXPECT_FALSE(AssembleWriteSet(Chunk(7, 'i', 0, entry.substr(0, size)))) << size;
  }
  EXPECT_FALSE(AssembleWriteSet(Chunk(7, 'i', 0, std::string("\1\0\3", 3) + image)));
}

TEST(AssembleWriteSetTest, KeysOfDifferentTablesAreDifferent) {
  EXPECT_EQ(Show(Upsert("a", "1") + Chunk(8, 'u', 1, Entry("a", "2"))), "a=1, a=2");
}

TEST(AssembleWriteSetTest, GuardsHaveNeitherImageNorDeleted) {
  EXPECT_EQ(Show(Upsert("a", "1") + Chunk(9, 'g', 1, Entry("x") + Entry("y")) + Chunk(9, 'g', 1, Entry("x"))),
            "a=1, x guard9, y guard9");
}

TEST(AssembleWriteSetTest, SwappedKeysInOneStatementBothStay) {
  EXPECT_EQ(
      Show(Chunk(7, 'd', 1, Entry("a") + Entry("b")) + Chunk(7, 'u', 1, Entry("b", "1") + Entry("a", "2"))),
      "a=2, b=1");
}

TEST(AssembleWriteSetTest, KeyUpdateDeletesTheOldKey) {
  EXPECT_EQ(Show(Delete("a") + Upsert("b", "1")), "a gone, b=1");
}

// An UPDATE whose row trigger updates the same row again: the inner capture comes first and is the newer.
TEST(AssembleWriteSetTest, NestedStatementIsNewerThanItsOuterOne) {
  EXPECT_EQ(Show(Begin(1) + Begin(2) + Upsert("a", "inner", 2) + Upsert("a", "outer", 1)), "a=inner");
  EXPECT_EQ(Show(Begin(1) + Begin(2) + Delete("a", 2) + Upsert("a", "outer", 1)), "a gone");
}

TEST(AssembleWriteSetTest, LaterStatementIsNewerThanANestedOneBefore) {
  EXPECT_EQ(Show(Begin(1) + Begin(2) + Upsert("a", "inner", 2) + Upsert("a", "outer", 1) + Begin(1) +
                 Upsert("a", "later", 1)),
            "a=later");
}

TEST(AssembleWriteSetTest, TwoNestedStatementsKeepTheirOrder) {
  EXPECT_EQ(Show(Begin(1) + Begin(2) + Upsert("a", "first", 2) + Begin(2) + Upsert("a", "second", 2) +
                 Upsert("a", "outer", 1)),
            "a=second");
}

// MERGE captures its inserts before its deletes, although a key that has both was deleted first.
TEST(AssembleWriteSetTest, InsideOneStatementAnUpsertBeatsADelete) {
  EXPECT_EQ(Show(Begin(1) + Upsert("a", "1") + Delete("a")), "a=1");
  EXPECT_EQ(Show(Begin(1) + Upsert("a", "1") + Begin(1) + Delete("a")), "a gone");
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
  const auto write_set = AssembleWriteSet(
      Chunk(7, 'i', 0,
            ImageEntry({"\1\0", 2}, "first", "second") + ImageEntry({"\1\0", 2}, "other", "second")) +
      Chunk(7, 'd', 0, Entry(key)));
  ASSERT_TRUE(write_set.ok()) << write_set.error();
  ASSERT_EQ(write_set->rows_size(), 2);
  EXPECT_EQ(write_set->rows(0).key(), key);
  EXPECT_TRUE(write_set->rows(0).deleted());
  EXPECT_EQ(write_set->rows(1).image(), ImageEntry({"\1\0", 2}, "other", "second").substr(5));
}

TEST(AssembleWriteSetTest, MalformedKeyPlacesAreRefused) {
  EXPECT_EQ(Show(Chunk(7, 'i', 0, ImageEntry("\2", "a", "b"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'i', 0, ImageEntry("", "a", "b"))), "malformed");
  const std::string entry = ImageEntry("\1", "a", "b");
  for (std::size_t size = 1; size < entry.size(); ++size) {
    EXPECT_EQ(Show(Chunk(7, 'i', 0, entry.substr(0, size))), "malformed") << size;
  }
}

TEST(AssembleWriteSetTest, ChunksArePutInTheOrderOfCapture) {
  const auto upsert = [](std::string_view image, std::int32_t command) {
    return Chunk(7, 'u', 0, Entry("a", image), command);
  };
  EXPECT_EQ(Show(upsert("3", 9) + upsert("1", 2) + Chunk(7, 'd', 0, Entry("a"), 5)), "a=3");
  EXPECT_EQ(Show(Chunk(7, 'd', 0, Entry("a"), 10) + upsert("1", 9)), "a gone");
}

TEST(AssembleWriteSetTest, MalformedChunksAreRefused) {
  EXPECT_EQ(Show("x"), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'q', 1, Entry("a"))), "malformed");
  EXPECT_EQ(Show(Chunk(0, 'd', 1, Entry("a"))), "malformed");
  EXPECT_EQ(Show(Chunk(-1, 'd', 1, Entry("a"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'd', 1, Entry("a", "image"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'u', 1, Entry("a"))), "malformed");
  EXPECT_EQ(Show(Chunk(7, 's', 1, "x")), "malformed");
  EXPECT_EQ(Show(Chunk(7, 'd', 1, "x")), "malformed");
  EXPECT_EQ(Show(Entry("a")), "malformed");
  std::string null_key;
  AppendRecord(&null_key, {{kOidBytea, std::nullopt}});
  EXPECT_EQ(Show(Chunk(7, 'd', 1, null_key)), "malformed");
}

TEST(AssembleWriteSetTest, TruncatedAtEveryByte) {
  const std::string first = Begin(1);
  const std::string whole = first + Chunk(7, 'u', 1, Entry("a", "1") + Entry("b", "2"));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size == first.size()) continue;
    EXPECT_EQ(Show(whole.substr(0, size)), "malformed") << size;
  }
  EXPECT_EQ(Show(whole), "a=1, b=2");
}

TEST(AssembleWriteSetTest, AnyByteMayBeWrong) {
  const std::string whole = Begin(1) + Chunk(7, 'u', 1, Entry("a", "1")) + Chunk(9, 'g', 1, Entry("x"));
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
