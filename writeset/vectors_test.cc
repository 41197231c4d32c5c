// The decoder against the golden vectors of write-sets (writeset/vectors.json). The encoders in SQL make the
// same bytes: tests/sql/commit/test_vectors.py.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <variant>

#include "common/pg_binary.h"
#include "semi_primary/hook_server/assemble.h"
#include "semi_primary/hook_server/hex.h"
#include "semi_primary/hook_server/key_text.h"
#include "semi_primary/hook_server/request.h"

namespace psp::sp {
namespace {

const YAML::Node& Vectors() {
  static const YAML::Node vectors = YAML::LoadFile(PSP_VECTORS_FILE);  // JSON is YAML
  return vectors;
}

std::string Text(const YAML::Node& node) { return node.as<std::string>(); }

std::string Bytes(const YAML::Node& hex) { return DecodeHex(Text(hex)).value(); }

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

TEST(VectorsTest, Chunk) {
  const YAML::Node chunk = Vectors()["chunk"];
  EXPECT_EQ(EncodeHex(Chunk(chunk["command"].as<std::int32_t>(), chunk)), Text(chunk["bytes"]));
  EXPECT_TRUE(AssembleWriteSet(Bytes(chunk["bytes"])));
}

TEST(VectorsTest, Requests) {
  const YAML::Node requests = Vectors()["requests"];
  ASSERT_EQ(requests["lines"].size(), 4U);
  const auto parsed = [&](std::size_t i) {
    auto request = ParseRequest(Text(requests["lines"][i]["line"]), Text(requests["token"]), 1000);
    EXPECT_TRUE(request.ok()) << request.error().message;
    return *request;
  };
  const auto commit = std::get<CommitRequest>(parsed(0));
  EXPECT_EQ(commit.tx_id.ToText(), "00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(commit.watermark, 10);
  EXPECT_EQ(commit.seen, (std::vector<GlobalT>{12, 15}));
  EXPECT_EQ(commit.assembled.write_set.rows_size(), 1);
  EXPECT_EQ(commit.assembled.write_set.catalog_version(), 3U);
  EXPECT_TRUE(std::get<CommitRequest>(parsed(1)).seen.empty());
  EXPECT_EQ(std::get<RowsRequest>(parsed(2)).found, Bytes(requests["lines"][2]["bytes"]));
  EXPECT_EQ(std::get<OutcomeRequest>(parsed(3)).tx_id, commit.tx_id);
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
}  // namespace psp::sp
