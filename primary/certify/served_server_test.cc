#include "primary/certify/served_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::primary {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const ServerFacts kKnown{
    .is_standby = false, .identity = "7 16384", .timeline = "00000001", .written = 100, .newest_t = 20};

ServerFacts Found(void (*change)(ServerFacts*)) {
  ServerFacts found = kKnown;
  change(&found);
  return found;
}

TEST(ServedServer, TheSameServerGoesOn) {
  EXPECT_THAT(ServerObjection(kKnown, kKnown), IsEmpty());
  EXPECT_THAT(ServerObjection(kKnown, Found([](ServerFacts* found) {
                                found->written = 101;
                                found->newest_t = 21;
                              })),
              IsEmpty());
}

TEST(ServedServer, AnotherServerIsNamed) {
  const ServerFacts found = Found([](ServerFacts* one) { one->identity = "8 16384"; });
  EXPECT_THAT(ServerObjection(kKnown, found), HasSubstr("8 16384, not 7 16384"));
}

TEST(ServedServer, AStandbyIsNot) {
  const ServerFacts found = Found([](ServerFacts* one) {
    one->is_standby = true;
    one->timeline.clear();
    one->written = 0;
  });
  EXPECT_THAT(ServerObjection(kKnown, found), HasSubstr("a standby"));
}

TEST(ServedServer, NorOneThatWasPromotedSince) {
  const ServerFacts found = Found([](ServerFacts* one) {
    one->timeline = "00000002";
    one->written = 200;
  });
  EXPECT_THAT(ServerObjection(kKnown, found), HasSubstr("00000002, not 00000001"));
}

TEST(ServedServer, NorOneWithAnOlderState) {
  ServerFacts known = kKnown;
  known.written = (WalPosition{2} << 32) + 0xAB;
  EXPECT_THAT(ServerObjection(known, kKnown), HasSubstr("ends at 0/64, and was on its disk up to 2/AB"));
  const ServerFacts found = Found([](ServerFacts* one) { one->newest_t = 19; });
  EXPECT_THAT(ServerObjection(kKnown, found), HasSubstr("newest number is 19, and 20"));
}

TEST(ServedServer, WhatIsKnownOnlyGrows) {
  ServedServer server(kKnown);
  server.OnWritten(90);
  server.OnTold(10);
  EXPECT_EQ(server.known().written, 100U);
  EXPECT_EQ(server.known().newest_t, 20);
  server.OnWritten(110);
  server.OnTold(30);
  EXPECT_EQ(server.known().written, 110U);
  EXPECT_EQ(server.known().newest_t, 30);
}

}  // namespace
}  // namespace psp::primary
