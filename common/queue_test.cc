#include "common/queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace psp {
namespace {

bool Readable(int fd) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, 0) == 1;
}

TEST(BoundedQueue, KeepsOrderAndBound) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.TryPush(3));
  EXPECT_EQ(queue.TakeAll(), (std::vector<int>{2, 3}));
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueue, EveryProducersOrderHolds) {
  BoundedQueue<std::pair<int, int>> queue(8);
  std::vector<std::jthread> producers;
  for (int producer = 0; producer < 3; ++producer) {
    producers.emplace_back([&queue, producer] {
      for (int i = 0; i < 2000; ++i) queue.Push({producer, i});
    });
  }
  std::vector<int> next(3, 0);
  for (int i = 0; i < 6000; ++i) {
    const auto item = queue.Pop();
    ASSERT_TRUE(item);
    EXPECT_EQ(item->second, next[static_cast<std::size_t>(item->first)]++);
  }
}

TEST(BoundedQueue, CloseEndsWaiting) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.TryPush(1));
  std::jthread pusher([&queue] { EXPECT_FALSE(queue.Push(2)); });
  queue.Close();
  pusher.join();
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(BoundedQueue, StopEndsPop) {
  BoundedQueue<int> queue(1);
  std::jthread popper([&queue](std::stop_token stop) { EXPECT_EQ(queue.Pop(stop), std::nullopt); });
  popper.request_stop();
}

TEST(Mailbox, WakesThePollLoop) {
  Mailbox<int> mailbox(4);
  EXPECT_FALSE(Readable(mailbox.fd()));
  mailbox.TryPush(1);
  mailbox.TryPush(2);
  EXPECT_TRUE(Readable(mailbox.fd()));
  EXPECT_EQ(mailbox.TakeAll(), (std::vector<int>{1, 2}));
  EXPECT_FALSE(Readable(mailbox.fd()));
}

}  // namespace
}  // namespace psp
