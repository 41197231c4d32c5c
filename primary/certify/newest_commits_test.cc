#include "primary/certify/newest_commits.h"

#include <gtest/gtest.h>

namespace psp::primary {
namespace {

TEST(NewestCommits, WhatASnapshotLacks) {
  NewestCommits commits;
  EXPECT_FALSE(commits.Missing({0, {}}).has_value());
  commits.Note({2, 101}, 100);
  commits.Note({1, 103}, 100);
  EXPECT_EQ(commits.Missing({100, {}}), (Commit{1, 103})) << "the newest";
  const std::vector<GlobalT> seen{103};
  EXPECT_EQ(commits.Missing({100, seen}), (Commit{2, 101}));
  EXPECT_FALSE(commits.Missing({101, seen}).has_value());
  EXPECT_FALSE(commits.Missing({103, {}}).has_value());
}

TEST(NewestCommits, WhatTheSemiPrimaryHadAppliedIsLeftOut) {
  NewestCommits commits;
  commits.Note({1, 101}, 100);
  commits.Note({1, 102}, 100);
  commits.Note({2, 103}, 100);
  commits.Note({1, 104}, 101);
  EXPECT_FALSE(commits.Forget({1, 101}));
  EXPECT_EQ(commits.Missing({103, std::vector<GlobalT>{104}}), std::nullopt);
  EXPECT_EQ(commits.Missing({101, std::vector<GlobalT>{103, 104}}), (Commit{1, 102}))
      << "it may be unseen by who has seen 104";
  EXPECT_TRUE(commits.Forget({1, 102}));
  EXPECT_EQ(commits.Missing({101, std::vector<GlobalT>{103, 104}}), std::nullopt);
  EXPECT_TRUE(commits.Forget({2, 103}));
  EXPECT_FALSE(commits.empty());
  EXPECT_TRUE(commits.Forget({1, 104}));
  EXPECT_TRUE(commits.empty());
}

}  // namespace
}  // namespace psp::primary
