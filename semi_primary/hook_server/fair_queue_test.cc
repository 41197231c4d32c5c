#include "semi_primary/hook_server/fair_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace psp::sp {
namespace {

struct Item {
  std::uint64_t connection = 0;
};

std::vector<std::uint64_t> TakeAll(FairQueue<Item>* queue, int count) {
  std::vector<std::uint64_t> taken;
  for (int i = 0; i < count; ++i) taken.push_back(queue->Pop({})->connection);
  return taken;
}

TEST(FairQueueTest, LanesTakeTurns) {
  FairQueue<Item> queue(3);
  for (const std::uint64_t connection : {1, 2, 3}) EXPECT_TRUE(queue.TryPush(10, {connection}));
  EXPECT_FALSE(queue.TryPush(10, {4})) << "the lane is full";
  EXPECT_TRUE(queue.TryPush(20, {5}));
  EXPECT_EQ(TakeAll(&queue, 4), (std::vector<std::uint64_t>{1, 5, 2, 3}));
  EXPECT_TRUE(queue.TryPush(10, {6}));
  EXPECT_EQ(TakeAll(&queue, 1), (std::vector<std::uint64_t>{6}));
}

TEST(FairQueueTest, WhoHasGoneIsDropped) {
  FairQueue<Item> queue(3);
  for (const std::uint64_t connection : {1, 2}) queue.TryPush(10, {connection});
  queue.TryPush(20, {3});
  queue.Drop(1);
  queue.Drop(3);
  EXPECT_EQ(TakeAll(&queue, 1), (std::vector<std::uint64_t>{2}));
  queue.TryPush(20, {4});
  EXPECT_EQ(TakeAll(&queue, 1), (std::vector<std::uint64_t>{4}));
}

TEST(FairQueueTest, PopEndsWithStop) {
  FairQueue<Item> queue(1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(queue.Pop(stop.get_token()).has_value());
}

}  // namespace
}  // namespace psp::sp
