#include "primary/core/core_numbers.h"

#include <gtest/gtest.h>

#include "primary/core/core.h"

namespace psp::primary {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

std::shared_ptr<const CertifyRequest> Request(SpId sp_id, std::int64_t arrived_us, std::int64_t admitted_us) {
  CertifyRequest request;
  request.sp_id = sp_id;
  request.arrived_us = arrived_us;
  request.admitted_us = admitted_us;
  return std::make_shared<const CertifyRequest>(std::move(request));
}

Scheduler::Decided Decided(std::shared_ptr<const CertifyRequest> request, Verdict verdict) {
  Scheduler::Decided decided;
  decided.request = std::move(request);
  decided.asked_to_certify = true;
  decided.verdict = std::move(verdict);
  return decided;
}

TEST(DecisionCounts, ThePartsOfATransactionsTime) {
  DecisionCounts counts;
  counts.OnBatchSent(7, 3, 1'500);
  const std::int64_t sent_us = counts.TakeSentUs(7);
  EXPECT_EQ(sent_us, 1'500);
  EXPECT_EQ(counts.TakeSentUs(7), 0) << "it is forgotten";
  const auto parts = counts.OnDecided(Decided(Request(1, 1'000, 1'200), {11, {}, ""}), sent_us, 4'500);
  EXPECT_EQ(parts.parked_us, 200);
  EXPECT_EQ(parts.queue_us, 500);
  EXPECT_EQ(parts.certify_us, 3'000);
  EXPECT_DOUBLE_EQ(counts.parked().sum(), 200e-6);
  EXPECT_DOUBLE_EQ(counts.waiting().sum(), 300e-6);
  EXPECT_DOUBLE_EQ(counts.deciding().sum(), 3'000e-6);
  EXPECT_DOUBLE_EQ(counts.batch_transactions().sum(), 3);
}

TEST(DecisionCounts, OutcomesBySemiPrimary) {
  DecisionCounts counts;
  counts.OnDecided(Decided(Request(1, 0, 0), {11, {}, ""}), 0, 0);
  counts.OnDecided(Decided(Request(1, 0, 0), {0, Conflict{{1, "k"}, 9, 2, std::nullopt}, ""}), 0, 0);
  counts.OnDecided(Decided(Request(2, 0, 0), {0, {}, "why"}), 0, 0);
  EXPECT_EQ(counts.outcomes().at(1).committed, 1U);
  EXPECT_EQ(counts.outcomes().at(1).lost, 1U);
  EXPECT_EQ(counts.outcomes().at(1).refused, 0U);
  EXPECT_EQ(counts.outcomes().at(2).refused, 1U);
}

TEST(CoreNumbers, ReleasedSemiPrimariesAreNotShown) {
  Core::Start start;
  start.epoch = 3;
  start.closed_t = 20;
  start.registry = {{1, "north", false, 15, {}}, {2, "gone", true, 5, {}}, {3, "joins", false, -1, {}}};
  const Core core({}, std::move(start));
  const CoreNumbers numbers = core.Numbers(kSecond);
  EXPECT_EQ(numbers.epoch, 3);
  EXPECT_EQ(numbers.closed_t, 20);
  ASSERT_EQ(numbers.semi_primaries.size(), 2U);
  EXPECT_EQ(numbers.semi_primaries[0].name, "north");
  EXPECT_EQ(numbers.semi_primaries[0].lacks, 5);
  EXPECT_FALSE(numbers.semi_primaries[0].is_connected);
  EXPECT_EQ(numbers.semi_primaries[1].lacks, std::nullopt)
      << "it keeps nothing of the log as far as is known";
  EXPECT_FALSE(numbers.standstill);
}

}  // namespace
}  // namespace psp::primary
