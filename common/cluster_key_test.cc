#include "common/cluster_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace psp {
namespace {

const std::string kDigits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

class ClusterKeyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "psp-key-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& text, mode_t mode = 0600) const {
    const std::string path = folder_ / "cluster.key";
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  std::filesystem::path folder_;
  std::optional<ClusterKey> key_;
};

TEST_F(ClusterKeyTest, TheSameFileGivesTheSameKeys) {
  ASSERT_EQ(LoadClusterKey(Write(kDigits + "\n"), &key_), "");
  ASSERT_TRUE(key_);
  EXPECT_EQ(key_->secret.size(), 40U);
  EXPECT_EQ(key_->public_key.size(), 40U);
  EXPECT_NE(key_->secret, key_->public_key);
  std::optional<ClusterKey> again;
  ASSERT_EQ(LoadClusterKey(Write(kDigits), &again), "");
  EXPECT_EQ(again->public_key, key_->public_key);
}

TEST_F(ClusterKeyTest, NoFileIsNoKey) {
  EXPECT_EQ(LoadClusterKey("", &key_), "");
  EXPECT_FALSE(key_);
}

TEST_F(ClusterKeyTest, WhatIsWrongIsTold) {
  EXPECT_NE(LoadClusterKey(folder_ / "missing", &key_).find("No such file"), std::string::npos);
  EXPECT_NE(LoadClusterKey(folder_, &key_).find("is not a file"), std::string::npos);
  for (const std::string& text : {std::string(), kDigits.substr(1), kDigits + "0", kDigits.substr(1) + "g",
                                  kDigits + "\n" + kDigits, "-" + kDigits.substr(1)}) {
    EXPECT_NE(LoadClusterKey(Write(text), &key_).find("64 hexadecimal digits"), std::string::npos) << text;
  }
  EXPECT_FALSE(key_);
}

TEST_F(ClusterKeyTest, OthersMustNotReadIt) {
  EXPECT_NE(LoadClusterKey(Write(kDigits, 0604), &key_).find("chmod 600"), std::string::npos);
  const std::string of_group = LoadClusterKey(Write(kDigits, 0640), &key_);
  EXPECT_EQ(of_group.empty(), geteuid() == 0) << of_group;
}

}  // namespace
}  // namespace psp
