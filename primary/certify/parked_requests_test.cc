#include "primary/certify/parked_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primary/certify/released_for_tests.h"

namespace psp::primary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TxId IdOf(char name) { return *TxId::FromBytes(std::string(TxId::kSize, name)); }

CertifyRequest Request(SpId sp_id, char name) {
  CertifyRequest request;
  request.tx_id = IdOf(name);
  request.sp_id = sp_id;
  request.write_set = "bytes";
  return request;
}

TEST(ParkedRequests, TheyAreReleasedInTheOrderInWhichTheyCame) {
  ParkedRequests requests;
  EXPECT_FALSE(requests.oldest_us().has_value());
  requests.Add(Request(3, 'a'), 10);
  requests.Add(Request(1, 'b'), 20);
  requests.Add(Request(2, 'c'), 30);
  EXPECT_EQ(requests.oldest_us(), 10);
  EXPECT_EQ(requests.bytes(), 15U);
  EXPECT_THAT(TakeReleasedSpIds(&requests), IsEmpty());
  requests.ReleaseIf([](const ParkedRequests::Parked& one) { return one.since_us != 20; });
  EXPECT_THAT(TakeReleasedSpIds(&requests), ElementsAre(3, 2));
  EXPECT_THAT(TakeReleasedSpIds(&requests), IsEmpty()) << "they were taken";
  EXPECT_EQ(requests.oldest_us(), 20);
  requests.ReleaseAll();
  EXPECT_THAT(TakeReleasedSpIds(&requests), ElementsAre(1));
  EXPECT_EQ(requests.size(), 0U);
  EXPECT_EQ(requests.bytes(), 0U);
}

TEST(ParkedRequests, OneComesOnceAndCanBeTaken) {
  ParkedRequests requests;
  requests.Add(Request(1, 'a'), 10);
  requests.Add(Request(1, 'a'), 20);
  EXPECT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests.bytes(), 5U);
  EXPECT_TRUE(requests.Has(IdOf('a')));
  EXPECT_FALSE(requests.Take(IdOf('b')).has_value());
  EXPECT_EQ(requests.Take(IdOf('a'))->sp_id, 1U);
  EXPECT_FALSE(requests.Take(IdOf('a')).has_value());
  EXPECT_FALSE(requests.Has(IdOf('a')));
  EXPECT_EQ(requests.bytes(), 0U);
  requests.ReleaseAll();
  EXPECT_THAT(TakeReleasedSpIds(&requests), IsEmpty());
}

}  // namespace
}  // namespace psp::primary
