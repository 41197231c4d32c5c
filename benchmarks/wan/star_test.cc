#include "benchmarks/wan/star.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace psp::wan {
namespace {

using std::chrono::milliseconds;

constexpr size_t kHeaderBytes = 3;
constexpr size_t kHub = 0;
constexpr size_t kNear = 1;
constexpr size_t kFar = 2;
constexpr const char* kAddresses[] = {"10.77.0.1", "10.77.0.2", "10.77.0.3"};

// The device's header, and an IPv4 packet that ends in `text`.
std::string PacketTo(const char* address, const std::string& text = "") {
  std::string packet(kHeaderBytes + 20, '\0');
  packet[kHeaderBytes] = 0x45;
  const in_addr_t to = inet_addr(address);
  std::memcpy(packet.data() + kHeaderBytes + 16, &to, sizeof to);
  return packet + text;
}

class StarTest : public testing::Test {
 protected:
  static std::vector<Site> Sites() {
    std::vector<Site> sites;
    const int one_way_ms[] = {0, 15, 95};
    const char* names[] = {"hub", "near", "far"};
    for (size_t i = 0; i < 3; ++i) {
      sites.push_back({names[i], names[i], inet_addr(kAddresses[i]), milliseconds(one_way_ms[i])});
    }
    return sites;
  }

  void Send(size_t from, size_t to, int at_ms, const std::string& text = "") {
    star_.Send(from, At(at_ms), PacketTo(kAddresses[to], text));
  }

  static Time At(int ms) { return Time(milliseconds(ms)); }

  Star star_{Sites(), kHeaderBytes, 1000};
};

TEST_F(StarTest, APacketArrivesAfterTheOneWayTime) {
  Send(kHub, kFar, 7, "hello");
  EXPECT_EQ(star_.NextArrival(), At(102));
  EXPECT_FALSE(star_.Take(At(101)));
  const auto arrival = star_.Take(At(102));
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->site, kFar);
  EXPECT_EQ(arrival->packet, PacketTo(kAddresses[kFar], "hello"));
  EXPECT_FALSE(star_.NextArrival());
}

TEST_F(StarTest, TheWayBetweenTwoZonesLeadsOverTheHub) {
  Send(kFar, kNear, 0);
  EXPECT_EQ(star_.NextArrival(), At(110));
}

TEST_F(StarTest, PacketsOfOneTimeKeepTheirOrder) {
  Send(kNear, kHub, 0, "first");
  Send(kNear, kHub, 0, "second");
  EXPECT_EQ(star_.Take(At(15))->packet, PacketTo(kAddresses[kHub], "first"));
  EXPECT_EQ(star_.Take(At(15))->packet, PacketTo(kAddresses[kHub], "second"));
}

TEST_F(StarTest, ACutLosesWhatIsUnderWayAndWhatIsSent) {
  Send(kHub, kFar, 0);
  Send(kFar, kHub, 0);
  Send(kHub, kNear, 0);
  EXPECT_TRUE(star_.SetCut("far", true));
  Send(kNear, kFar, 1);
  Send(kFar, kNear, 1);
  EXPECT_EQ(star_.Take(At(1000))->site, kNear);
  EXPECT_FALSE(star_.Take(At(1000)));
}

TEST_F(StarTest, AHealedPlaceIsReachedAgain) {
  star_.SetCut("far", true);
  EXPECT_TRUE(star_.SetCut("far", false));
  Send(kHub, kFar, 0);
  EXPECT_EQ(star_.Take(At(95))->site, kFar);
}

TEST_F(StarTest, AnUnknownPlaceCannotBeCut) { EXPECT_FALSE(star_.SetCut("nowhere", true)); }

TEST_F(StarTest, WhatHasNoKnownAddressIsLost) {
  star_.Send(kHub, At(0), PacketTo("10.77.0.9"));
  star_.Send(kHub, At(0), "short");
  std::string version_6 = PacketTo(kAddresses[kFar]);
  version_6[kHeaderBytes] = 0x60;
  star_.Send(kHub, At(0), version_6);
  EXPECT_FALSE(star_.NextArrival());
}

TEST_F(StarTest, WhatIsTooMuchIsLostUntilSomethingHasArrived) {
  const std::string large(900, 'x');
  Send(kHub, kNear, 0, large);
  Send(kHub, kNear, 0, large);
  EXPECT_TRUE(star_.Take(At(15)));
  EXPECT_FALSE(star_.Take(At(15)));
  Send(kHub, kNear, 15, large);
  EXPECT_TRUE(star_.Take(At(30)));
}

TEST_F(StarTest, WhatACutHasLostIsNotCounted) {
  const std::string large(900, 'x');
  Send(kHub, kFar, 0, large);
  star_.SetCut("far", true);
  Send(kHub, kNear, 0, large);
  EXPECT_TRUE(star_.Take(At(15)));
}

}  // namespace
}  // namespace psp::wan
