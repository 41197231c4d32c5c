// The hook's requests as the golden vectors have them (writeset/vectors.json).
#include <gtest/gtest.h>

#include <variant>

#include "semi_primary/hook_server/request.h"
#include "writeset/testing/vectors.h"

namespace psp::sp {
namespace {

using vectors::Bytes;
using vectors::Text;
using vectors::Vectors;

TEST(RequestVectorsTest, AreParsed) {
  const YAML::Node requests = Vectors()["requests"];
  ASSERT_EQ(requests["lines"].size(), 5U);
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
  EXPECT_EQ(std::get<HookOutcomeRequest>(parsed(3)).tx_id, commit.tx_id);
  EXPECT_EQ(std::get<StatementsRequest>(parsed(4)).lines, "other 0 8\nddl 10 12");
}

}  // namespace
}  // namespace psp::sp
