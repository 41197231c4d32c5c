// The decoder against the golden vectors of write-sets (writeset/vectors.json). The encoders in SQL make the
// same bytes: tests/sql/commit/test_vectors.py.
#include "writeset/testing/vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/hex.h"
#include "common/pg_binary.h"
#include "writeset/assemble.h"
#include "writeset/key_text.h"

namespace psp {
namespace {

using vectors::Bytes;
using vectors::Text;
using vectors::Vectors;

std::string Chunk(std::int32_t command, const YAML::Node& captured) {
  std::string cmin;
  AppendInt32(&cmin, command);
  std::string table_id;
  AppendInt32(&table_id, captured["table_id"].as<std::int32_t>());
  const std::string op = Text(captured["op"]);
  const std::string payload = Bytes(captured["payload"]);
  std::string chunk;
  AppendRecord(&chunk, {{kOidCid, cmin}, {kOidInt4, table_id}, {kOidChar, op}, {kOidBytea, payload}});
  return chunk;
}

std::string Lines(const YAML::Node& list) {
  std::string lines;
  for (const YAML::Node& line : list) lines += (lines.empty() ? "" : "\n") + Text(line);
  return lines;
}

void ExpectRow(const YAML::Node& expected, const proto::Row& row) {
  EXPECT_EQ(row.table_id(), expected["table_id"].as<std::uint32_t>());
  EXPECT_EQ(EncodeHex(row.key()), Text(expected["key"]));
  EXPECT_EQ(row.access(), Text(expected["access"]) == "guard" ? proto::ACCESS_GUARD : proto::ACCESS_WRITE);
  EXPECT_EQ(row.deleted(), expected["deleted"].IsDefined());
  ASSERT_EQ(row.has_image(), expected["image"].IsDefined());
  EXPECT_EQ(EncodeHex(row.image()), row.has_image() ? Text(expected["image"]) : "");
}

TEST(VectorsTest, WhatIsCapturedBecomesTheWriteSet) {
  ASSERT_GT(Vectors()["transactions"].size(), 10U);
  for (const YAML::Node& transaction : Vectors()["transactions"]) {
    SCOPED_TRACE(Text(transaction["name"]));
    std::string chunks;
    std::int32_t command = 0;
    for (const YAML::Node& captured : transaction["captured"]) chunks += Chunk(command++, captured);
    auto assembled = AssembleWriteSet(chunks);
    ASSERT_TRUE(assembled.ok()) << assembled.error();
    EXPECT_EQ(DescribeDoubts(*assembled), Lines(transaction["doubts"]));
    if (transaction["found"]) {
      ASSERT_TRUE(SettleDoubts(Bytes(transaction["found"]), &*assembled));
    }
    const YAML::Node expected = transaction["write_set"];
    ASSERT_EQ(static_cast<std::size_t>(assembled->write_set.rows_size()), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ExpectRow(expected[i], assembled->write_set.rows(static_cast<int>(i)));
    }
  }
}

TEST(VectorsTest, WhatASchemaChangeTellsOfItsTables) {
  std::string chunks;
  std::int32_t command = 0;
  for (const YAML::Node& captured : Vectors()["table_changes"]["captured"])
    chunks += Chunk(command++, captured);
  const auto assembled = AssembleWriteSet(chunks);
  ASSERT_TRUE(assembled.ok()) << assembled.error();
  const YAML::Node expected = Vectors()["table_changes"]["table_changes"];
  ASSERT_EQ(static_cast<std::size_t>(assembled->write_set.table_changes_size()), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const proto::TableChange& change = assembled->write_set.table_changes(static_cast<int>(i));
    EXPECT_EQ(change.table_id(), expected[i]["table_id"].as<std::uint32_t>());
    EXPECT_THAT(change.guard_ids(),
                testing::ElementsAreArray(expected[i]["guard_ids"].as<std::vector<std::uint32_t>>()));
    EXPECT_EQ(change.dropped(), expected[i]["dropped"].as<bool>());
    EXPECT_EQ(EncodeHex(change.form()), Text(expected[i]["form"]));
  }
}

TEST(VectorsTest, Chunk) {
  const YAML::Node chunk = Vectors()["chunk"];
  EXPECT_EQ(EncodeHex(Chunk(chunk["command"].as<std::int32_t>(), chunk)), Text(chunk["bytes"]));
  EXPECT_TRUE(AssembleWriteSet(Bytes(chunk["bytes"])));
}

TEST(VectorsTest, KeyTexts) {
  for (const YAML::Node& vector : Vectors()["key_texts"]) {
    SCOPED_TRACE(Text(vector["type"]) + " " + Text(vector["value"]));
    const auto texts = KeyTexts(Bytes(vector["key"]));
    ASSERT_EQ(texts.size(), 1U);
    EXPECT_EQ(texts[0], Text(vector["text"]));
  }
}

}  // namespace
}  // namespace psp
