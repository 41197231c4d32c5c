#include "semi_primary/commit_hook/request.h"

#include <gtest/gtest.h>

#include "semi_primary/commit_hook/hex.h"

namespace psp {
namespace {

constexpr const char* kTx = "00112233-4455-6677-8899-aabbccddeeff";

std::string Sqlstate(std::string_view line, std::size_t bytes_max = 1000) {
  const auto request = ParseRequest(line, "secret", bytes_max);
  return request ? "ok" : request.error().sqlstate;
}

std::string Commit(std::string_view tail) {
  return std::string("commit secret ") + kTx + " " + std::string(tail);
}

TEST(ParseRequestTest, Commit) {
  auto request = ParseRequest(Commit("10 12,15 "), "secret", 1000);
  ASSERT_TRUE(request.ok());
  const auto& commit = std::get<CommitRequest>(*request);
  EXPECT_EQ(commit.tx_id.ToText(), kTx);
  EXPECT_EQ(commit.watermark, 10);
  EXPECT_EQ(commit.seen, (std::vector<GlobalT>{12, 15}));
  EXPECT_EQ(commit.write_set->rows_size(), 0);
  EXPECT_EQ(Sqlstate(Commit("10 - ")), "ok");
}

TEST(ParseRequestTest, MalformedCommit) {
  for (const char* tail : {"", "x - ", "-5 - ", "10 9 ", "10 12,12 ", "10 12, ", "10 x ", "10 - 0", "10 - zz",
                           "10 - 00", "10 -  more", "99999999999999999999 - "}) {
    EXPECT_EQ(Sqlstate(Commit(tail)), "08P01") << tail;
  }
  EXPECT_EQ(Sqlstate("commit secret nonsense 10 - "), "08P01");
}

TEST(ParseRequestTest, TooLarge) {
  EXPECT_EQ(Sqlstate(Commit("10 - " + std::string(202, '0')), 100), "54000");
  EXPECT_EQ(Sqlstate(Commit("10 - " + std::string(200, '0')), 100),
            "08P01");  // within the limit, but nonsense
}

TEST(ParseRequestTest, OtherRequests) {
  EXPECT_EQ(Sqlstate(std::string("outcome secret ") + kTx), "ok");
  EXPECT_EQ(Sqlstate("outcome secret x"), "08P01");
  EXPECT_EQ(Sqlstate("ping secret"), "ok");
  EXPECT_EQ(Sqlstate("ping secret x"), "08P01");
  EXPECT_EQ(Sqlstate("set client_encoding to 'UTF8'"), "ok");
  EXPECT_EQ(Sqlstate(""), "ok");
  EXPECT_EQ(Sqlstate("SELECT 1"), "0A000");
}

TEST(ParseRequestTest, WrongToken) {
  EXPECT_EQ(Sqlstate("ping Secret"), "28P01");
  EXPECT_EQ(Sqlstate("ping "), "28P01");
  EXPECT_EQ(Sqlstate("ping secretsecret"), "28P01");
  EXPECT_FALSE(EqualInConstantTime("", "secret"));
  EXPECT_FALSE(EqualInConstantTime("secret", ""));
  EXPECT_TRUE(EqualInConstantTime("secret", "secret"));
}

TEST(DecodeHexTest, BothCasesAndErrors) {
  EXPECT_EQ(DecodeHex("00fFAb"), std::string("\x00\xff\xab", 3));
  EXPECT_EQ(DecodeHex(""), "");
  EXPECT_FALSE(DecodeHex("0"));
  EXPECT_FALSE(DecodeHex("0g"));
  EXPECT_FALSE(DecodeHex("\xff\xff"));
}

}  // namespace
}  // namespace psp
