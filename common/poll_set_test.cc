#include "common/poll_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wake_up.h"

namespace psp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(PollSetTest, NamesThoseThatAreReady) {
  WakeUp one;
  WakeUp two;
  PollSet set;
  set.Add(one.fd(), 1, PollSet::For::kRead);
  set.Add(two.fd(), 2, PollSet::For::kRead);
  EXPECT_THAT(set.TakeReady(), IsEmpty());
  one.Notify();
  EXPECT_THAT(set.TakeReady(), ElementsAre(1));
  two.Notify();
  EXPECT_THAT(set.TakeReady(), UnorderedElementsAre(1, 2));  // also the one that was named before
  one.Drain();
  EXPECT_THAT(set.TakeReady(), ElementsAre(2));
}

TEST(PollSetTest, TellsWhatItIsAskedFor) {
  WakeUp one;
  PollSet set;
  set.Add(one.fd(), 1, PollSet::For::kReadOrWrite);  // takes a notification, so it can be written
  EXPECT_THAT(set.TakeReady(), ElementsAre(1));
  set.Change(one.fd(), 1, PollSet::For::kRead);
  EXPECT_THAT(set.TakeReady(), IsEmpty());
  one.Notify();
  set.Change(one.fd(), 1, PollSet::For::kNothing);
  EXPECT_THAT(set.TakeReady(), IsEmpty());
}

TEST(PollSetTest, RemovingWhatIsNotThereDoesNothing) {
  PollSet set;
  {
    WakeUp one;
    set.Add(one.fd(), 1, PollSet::For::kRead);
    one.Notify();
    set.Remove(one.fd());
    EXPECT_THAT(set.TakeReady(), IsEmpty());
    set.Remove(one.fd());
  }
  set.Remove(-1);
}

}  // namespace
}  // namespace psp
