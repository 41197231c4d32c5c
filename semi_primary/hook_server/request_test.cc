#include "semi_primary/hook_server/request.h"

#include <gtest/gtest.h>

#include "common/hex.h"
#include "semi_primary/hook_server/proof.h"

namespace psp::sp {
namespace {

constexpr const char* kTx = "00112233-4455-6677-8899-aabbccddeeff";

std::string Sqlstate(std::string_view line, std::size_t bytes_max = 1000) {
  const auto request = ParseRequest(line, "secret", bytes_max);
  return request ? "ok" : request.error().sqlstate;
}

// `head` and `bytes` with the proof between them.
std::string Proven(const std::string& name, const std::string& head, const std::string& bytes) {
  const std::string proven = name == "commit" ? head : name + " " + head + " ";
  return name + " " + head + " " + Proof("secret", proven + Sha256(bytes)) + " " + EncodeHex(bytes);
}

std::string Commit(const std::string& snapshot, const std::string& bytes = "") {
  return Proven("commit", std::string(kTx) + " 3 " + snapshot, bytes);
}

TEST(ParseRequestTest, Commit) {
  auto request = ParseRequest(Commit("10 12,15"), "secret", 1000);
  ASSERT_TRUE(request.ok()) << request.error().message;
  const auto& commit = std::get<CommitRequest>(*request);
  EXPECT_EQ(commit.tx_id.ToText(), kTx);
  EXPECT_EQ(commit.watermark, 10);
  EXPECT_EQ(commit.seen, (std::vector<GlobalT>{12, 15}));
  EXPECT_EQ(commit.assembled.write_set.rows_size(), 0);
  EXPECT_EQ(commit.assembled.write_set.catalog_version(), 3U);
  EXPECT_EQ(Sqlstate(Commit("10 -")), "ok");
}

TEST(ParseRequestTest, MalformedCommit) {
  for (const char* snapshot :
       {"", "x -", "-5 -", "10 9", "10 12,12", "10 12,", "10 x", "99999999999999999999 -"}) {
    EXPECT_EQ(Sqlstate(Commit(snapshot)), "08P01") << snapshot;
  }
  EXPECT_EQ(Sqlstate(Proven("commit", "nonsense 1 10 -", "")), "08P01");
  for (const char* version : {"0", "-1", "x", "4294967296", ""}) {
    EXPECT_EQ(Sqlstate(Proven("commit", std::string(kTx) + " " + version + " 10 -", "")), "08P01") << version;
  }
  EXPECT_EQ(Sqlstate(Commit("10 -") + " more"), "08P01");
  EXPECT_EQ(Sqlstate(Commit("10 -") + "0"), "08P01");
  EXPECT_EQ(Sqlstate(Commit("10 -") + "zz"), "08P01");
  EXPECT_EQ(Sqlstate(Commit("10 -", "x")), "08P01");
}

TEST(ParseRequestTest, TooLarge) {
  EXPECT_EQ(Sqlstate(Commit("10 -", std::string(101, '\0')), 100), "54000");
  EXPECT_EQ(Sqlstate(Commit("10 -", std::string(100, '\0')), 100),
            "08P01");  // within the limit, but nonsense
  EXPECT_EQ(Sqlstate(Proven("rows", kTx, std::string(101, '\0')), 100), "54000");
}

TEST(ParseRequestTest, Rows) {
  const auto request = ParseRequest(Proven("rows", kTx, "found"), "secret", 1000);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(std::get<RowsRequest>(*request).tx_id.ToText(), kTx);
  EXPECT_EQ(std::get<RowsRequest>(*request).found, "found");
  EXPECT_EQ(Sqlstate(Proven("rows", "nonsense", "found")), "08P01");
}

TEST(ParseRequestTest, Segment) {
  const std::string proof = Proof("secret", "segment " + Sha256(""));
  const auto request = ParseRequest("segment " + proof + " ", "secret", 1000);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(std::get<SegmentRequest>(*request).assembled.write_set.rows_size(), 0);
  EXPECT_EQ(std::get<SegmentRequest>(*request).hash, Sha256(""));
  EXPECT_EQ(Sqlstate("segment " + Proof("secret", "segment " + Sha256("x")) + " 78"), "08P01");
  EXPECT_EQ(Sqlstate("segment " + proof + " 78"), "28P01");
}

std::string Statements(const std::string& message) {
  return "statements 10 " + Proof("secret", "statements 10 " + Sha256(message)) + " " + EncodeHex(message);
}

TEST(ParseRequestTest, Statements) {
  const auto request = ParseRequest(Statements("SELECT 'ä'"), "secret", 1000);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(std::get<StatementsRequest>(*request).lines, "other 0 11");
  EXPECT_EQ(std::get<StatementsRequest>(*request).hash, Sha256("SELECT 'ä'"));
  EXPECT_EQ(Sqlstate(Statements("")), "ok");
  EXPECT_EQ(Sqlstate(Statements("SELECT 'x")), "42601");
  EXPECT_EQ(Sqlstate(Statements(std::string("SELECT\0 1", 9))), "08P01");
  EXPECT_EQ(Sqlstate(Statements("SELECT 1") + "00"), "28P01");
  EXPECT_EQ(Sqlstate("statements"), "28P01");
  EXPECT_EQ(Sqlstate("statements x " + Proof("secret", "statements x " + Sha256("SELECT 1")) + " " +
                     EncodeHex("SELECT 1")),
            "08P01");
}

TEST(ParseRequestTest, TheRoleThatAsks) {
  EXPECT_EQ(AskingRole("statements 4294967295 proof 00"), 4294967295U);
  for (const char* other : {"statements", "statements x proof 00", "commit 10", ""})
    EXPECT_EQ(AskingRole(other), std::nullopt) << other;
}

TEST(ParseRequestTest, Hold) {
  const auto hold = [](const std::string& text) {
    return "hold " + Proof("secret", "hold " + Sha256(text)) + " " + EncodeHex(text);
  };
  const auto request = ParseRequest(hold("700 5000 3,14"), "secret", 1000);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(std::get<HookHoldRequest>(*request).transaction, 700U);
  EXPECT_EQ(std::get<HookHoldRequest>(*request).timeout_ms, 5000U);
  EXPECT_EQ(std::get<HookHoldRequest>(*request).table_ids, (std::vector<std::uint32_t>{3, 14}));
  for (const char* malformed : {"", "700", "700 5000", "700 5000 ", "700 5000 3,", "x 5000 3", "700 -1 3"}) {
    EXPECT_EQ(Sqlstate(hold(malformed)), "08P01") << malformed;
  }
  EXPECT_EQ(Sqlstate(hold("700 5000 3") + "00"), "28P01");
}

TEST(ParseRequestTest, StatementsOfALoser) {
  const auto lost = [](const std::string& list) {
    const std::string words = std::string("lost ") + kTx + " " + list;
    return words + " " + Proof("secret", words);
  };
  const auto request = ParseRequest(lost("3:18446744073709551609,14:99"), "secret", 1000);
  ASSERT_TRUE(request.ok()) << request.error().message;
  const LosersStatements& losers = std::get<HookLostRequest>(*request).losers;
  EXPECT_EQ(losers.tx_id, TxId::FromText(kTx));
  ASSERT_EQ(losers.statements.size(), 2U);
  EXPECT_EQ(losers.statements[0].query_id, -7);
  EXPECT_EQ(losers.statements[1].table_id, 14U);
  std::string many = "1:1";
  for (std::size_t i = 1; i < kStatementsOfALoserMax; ++i) many += ",1:1";
  EXPECT_EQ(Sqlstate(lost(many)), "ok");
  EXPECT_EQ(Sqlstate(lost(many + ",1:1")), "08P01");
  for (const char* malformed : {"", ":", "3", "3:", "3:7,", ",3:7", "-3:7", "3:-7", "3:x", "3:7:8"}) {
    EXPECT_EQ(Sqlstate(lost(malformed)), "08P01") << malformed;
  }
  EXPECT_EQ(Sqlstate(lost("3:7") + "0"), "28P01");
  EXPECT_EQ(Sqlstate("lost x"), "08P01");
}

TEST(ParseRequestTest, OtherRequests) {
  const std::string outcome = std::string("outcome ") + kTx + " 10";
  EXPECT_EQ(Sqlstate(outcome + " " + Proof("secret", outcome)), "ok");
  EXPECT_EQ(Sqlstate(std::string("outcome ") + kTx + " x"), "08P01");
  EXPECT_EQ(Sqlstate("outcome x"), "08P01");
  EXPECT_EQ(Sqlstate(std::string("doubts ") + kTx), "ok");
  EXPECT_EQ(Sqlstate("doubts x"), "08P01");
  EXPECT_EQ(Sqlstate("reach 12"), "ok");
  for (const char* malformed : {"reach", "reach x", "reach -1", "reach 12 ", "reach 99999999999999999999"})
    EXPECT_EQ(Sqlstate(malformed), "08P01") << malformed;
  EXPECT_EQ(Sqlstate("ping"), "ok");
  EXPECT_EQ(Sqlstate("ping x"), "0A000");
  EXPECT_EQ(Sqlstate("set client_encoding to 'UTF8'"), "ok");
  EXPECT_EQ(Sqlstate(""), "ok");
  EXPECT_EQ(Sqlstate("SELECT 1"), "0A000");
}

TEST(ParseRequestTest, WhatIsNotProvenIsRefused) {
  const std::string row = Proven("rows", kTx, "found");
  EXPECT_EQ(Sqlstate(row + "00"), "28P01");
  EXPECT_EQ(Sqlstate("commit" + row.substr(4)), "08P01");
  const std::string outcome = std::string("outcome ") + kTx + " 10";
  EXPECT_EQ(Sqlstate(outcome), "28P01");
  EXPECT_EQ(Sqlstate(outcome + " " + Proof("guess", outcome)), "28P01");
  EXPECT_EQ(Sqlstate(outcome + "0 " + Proof("secret", outcome)), "28P01") << "another role's share";
  // Neither another snapshot nor other rows under the proof of a request that somebody was shown.
  const std::string commit = Commit("10 -");
  const std::size_t watermark = commit.find("10 -");
  EXPECT_EQ(Sqlstate(std::string(commit).replace(watermark, 2, "11")), "28P01");
  EXPECT_EQ(Sqlstate(commit + "00"), "28P01");
}

TEST(DecodeHexTest, BothCasesAndErrors) {
  EXPECT_EQ(DecodeHex("00fFAb"), std::string("\x00\xff\xab", 3));
  EXPECT_EQ(DecodeHex(""), "");
  EXPECT_FALSE(DecodeHex("0"));
  EXPECT_FALSE(DecodeHex("0g"));
  EXPECT_FALSE(DecodeHex("\xff\xff"));
}

}  // namespace
}  // namespace psp::sp
