#include "primary/certify/references.h"

#include <gtest/gtest.h>

namespace psp::primary {
namespace {

constexpr GlobalT kStart = 100;

CertifyRequest Request(SpId sp_id, GlobalT watermark, std::vector<GlobalT> seen = {}) {
  CertifyRequest request;
  request.sp_id = sp_id;
  request.watermark = watermark;
  request.seen = std::move(seen);
  return request;
}

CertifyRequest With(CertifyRequest request, proto::UseKind kind, const std::string& key = "k") {
  proto::KeyUse* use = request.uses.add_keys();
  use->set_kind(kind);
  use->set_table_id(1);
  use->set_key(key);
  return request;
}

Conflict On(proto::UseKind kind, GlobalT winner_t, SpId winner) { return {{1, "k"}, winner_t, winner, kind}; }

class ReferencesTest : public testing::Test {
 protected:
  References references_{kStart, 4};
};

TEST_F(ReferencesTest, AChildLosesAgainstAnEndingThatItHasNotSeen) {
  references_.Note(With(Request(1, 100), proto::USE_ENDED), 101);
  EXPECT_EQ(references_.Lost(With(Request(2, 100), proto::USE_SHARED)), On(proto::USE_SHARED, 101, 1));
  EXPECT_EQ(references_.Lost(With(Request(2, 101), proto::USE_SHARED)), std::nullopt);
  EXPECT_EQ(references_.Lost(With(Request(1, 100, {101}), proto::USE_SHARED)), std::nullopt);
  EXPECT_EQ(references_.Lost(With(Request(2, 100), proto::USE_SHARED, "another")), std::nullopt);
}

TEST_F(ReferencesTest, AnEndingLosesAgainstAnyChildThatItHasNotSeen) {
  references_.Note(With(Request(1, 100), proto::USE_SHARED), 101);
  references_.Note(With(Request(2, 100), proto::USE_SHARED), 102);
  EXPECT_EQ(references_.Lost(With(Request(2, 100, {102}), proto::USE_ENDED)), On(proto::USE_ENDED, 101, 1))
      << "the newest alone proves nothing";
  EXPECT_EQ(references_.Lost(With(Request(1, 100, {101}), proto::USE_ENDED)), On(proto::USE_ENDED, 102, 2));
  EXPECT_EQ(references_.Lost(With(Request(1, 101), proto::USE_REFERRERS_READ)),
            On(proto::USE_REFERRERS_READ, 102, 2));
  EXPECT_EQ(references_.Lost(With(Request(3, 102), proto::USE_ENDED)), std::nullopt);
}

TEST_F(ReferencesTest, ChildrenOfOneParentDoNotMeet) {
  references_.Note(With(Request(1, 100), proto::USE_SHARED), 101);
  EXPECT_EQ(references_.Lost(With(Request(2, 100), proto::USE_SHARED)), std::nullopt);
}

TEST_F(ReferencesTest, AnEndingIsCertifiedByWhatItCouldSeeWhenItEnded) {
  references_.Note(With(Request(1, 100), proto::USE_SHARED), 101);
  CertifyRequest ending = With(Request(2, 105), proto::USE_ENDED);
  ending.uses.mutable_ended_snapshot()->set_watermark(100);
  EXPECT_EQ(references_.Lost(ending), On(proto::USE_ENDED, 101, 1));
  ending.uses.mutable_ended_snapshot()->add_seen(101);
  EXPECT_EQ(references_.Lost(ending), std::nullopt);
}

TEST_F(ReferencesTest, AllOfAnSpsUsesThatItHadNotAppliedCount) {
  references_.Note(With(Request(1, 100), proto::USE_SHARED), 101);
  references_.Note(With(Request(1, 100, {101}), proto::USE_SHARED), 102);
  EXPECT_EQ(references_.Lost(With(Request(1, 100, {102}), proto::USE_ENDED)), On(proto::USE_ENDED, 101, 1))
      << "a session may have gone before it heard that it has committed";
  references_.Note(With(Request(1, 102), proto::USE_SHARED), 103);
  EXPECT_EQ(references_.Lost(With(Request(1, 102, {103}), proto::USE_ENDED)), std::nullopt);
}

TEST_F(ReferencesTest, WhoseSnapshotIsOlderThanTheStartHasLost) {
  EXPECT_EQ(references_.Lost(With(Request(1, 99), proto::USE_SHARED)), On(proto::USE_SHARED, kStart, 0));
  EXPECT_EQ(references_.Lost(With(Request(1, 99), proto::USE_ENDED)), On(proto::USE_ENDED, kStart, 0));
  EXPECT_EQ(references_.Lost(With(Request(1, 100), proto::USE_ENDED)), std::nullopt);
  EXPECT_EQ(references_.Lost(Request(1, 99)), std::nullopt) << "it uses none";
}

TEST_F(ReferencesTest, WhoseSnapshotIsOlderThanWhatIsRememberedHasLost) {
  for (GlobalT t = 101; t <= 105; ++t)
    references_.Note(With(Request(1, 100), proto::USE_SHARED, std::to_string(t)), t);
  EXPECT_EQ(references_.Lost(With(Request(2, 100), proto::USE_ENDED)), On(proto::USE_ENDED, 101, 0));
  EXPECT_EQ(references_.Lost(With(Request(2, 101), proto::USE_ENDED)), std::nullopt);
  EXPECT_EQ(references_.Lost(With(Request(2, 100), proto::USE_SHARED)), std::nullopt) << "endings are apart";
}

TEST_F(ReferencesTest, WhatANewerUseStandsForIsNotForgotten) {
  references_.Note(With(Request(1, 100), proto::USE_SHARED), 101);
  for (GlobalT t = 102; t <= 105; ++t) references_.Note(With(Request(1, t - 1), proto::USE_SHARED), t);
  EXPECT_EQ(references_.Lost(With(Request(1, 100, {105}), proto::USE_ENDED)), std::nullopt)
      << "who has seen 105 has seen all that its semi-primary had applied";
}

}  // namespace
}  // namespace psp::primary
