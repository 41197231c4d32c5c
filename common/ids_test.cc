#include "common/ids.h"

#include <gtest/gtest.h>

#include <unordered_map>

namespace psp {
namespace {

TEST(TxId, TextAndBytesGoRoundTrip) {
  const std::string text = "00112233-4455-6677-8899-aabbccddeeff";
  const auto id = TxId::FromText(text);
  ASSERT_TRUE(id);
  EXPECT_EQ(id->ToText(), text);
  EXPECT_EQ(TxId::FromBytes(id->ToBytes()), id);
  EXPECT_EQ(static_cast<unsigned char>(id->ToBytes()[15]), 0xff);
}

TEST(TxId, RefusesWhatIsNoUuid) {
  EXPECT_FALSE(TxId::FromText(""));
  EXPECT_FALSE(TxId::FromText("00112233-4455-6677-8899-aabbccddeef"));
  EXPECT_FALSE(TxId::FromText("00112233x4455-6677-8899-aabbccddeeff"));
  EXPECT_FALSE(TxId::FromText("0011223g-4455-6677-8899-aabbccddeeff"));
  EXPECT_FALSE(TxId::FromBytes("123456789012345"));
  EXPECT_FALSE(TxId::FromBytes("12345678901234567"));
}

TEST(RowKey, IsFoundByItsView) {
  std::unordered_map<RowKey, int, RowKeyHash, RowKeyEqual> map;
  map[RowKey{7, "key"}] = 1;
  EXPECT_NE(map.find(RowKeyView(7, "key")), map.end());
  EXPECT_EQ(map.find(RowKeyView(8, "key")), map.end());
  EXPECT_EQ(map.find(RowKeyView(7, "kez")), map.end());
}

}  // namespace
}  // namespace psp
