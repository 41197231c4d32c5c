#include "semi_primary/submit/local_certification.h"

#include <gtest/gtest.h>

#include <random>

namespace psp::sp {
namespace {

TxId Tx(char name) { return *TxId::FromBytes(std::string(16, name)); }

WriteSetPtr Rows(std::initializer_list<std::string> keys) {
  auto write_set = std::make_shared<proto::WriteSet>();
  for (const std::string& key : keys) {
    proto::Row* row = write_set->add_rows();
    row->set_table_id(1);
    row->set_key(key);
  }
  return write_set;
}

TEST(LocalCertification, NewCommitAgainstWhatArrived) {
  LocalCertification certification;
  EXPECT_TRUE(certification.Arrived(11, 2, Rows({"a", "b"})).empty());
  EXPECT_TRUE(certification.Arrived(12, 3, Rows({"b"})).empty());
  const auto conflict = certification.Add(Tx('t'), {10, {}}, Rows({"c", "b"}));
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->key.key, "b");
  EXPECT_EQ(conflict->winner_t, 12);
  EXPECT_EQ(conflict->winner_sp_id, 3U);
  EXPECT_FALSE(certification.Add(Tx('u'), {10, {12}}, Rows({"b"})));
  EXPECT_FALSE(certification.Add(Tx('v'), {12, {}}, Rows({"a"})));
  EXPECT_TRUE(certification.Add(Tx('w'), {10, {12}}, Rows({"a"})));
}

TEST(LocalCertification, AppliedIsForgotten) {
  LocalCertification certification;
  certification.Arrived(11, 2, Rows({"a", "b"}));
  certification.Arrived(12, 2, Rows({"b"}));
  certification.Applied(11);
  EXPECT_EQ(certification.arrived_transactions(), 1U);
  EXPECT_FALSE(certification.Add(Tx('t'), {10, {}}, Rows({"a"})));
  EXPECT_TRUE(certification.Add(Tx('u'), {11, {}}, Rows({"b"})));
  certification.ForgetArrived();
  EXPECT_FALSE(certification.Add(Tx('u'), {11, {}}, Rows({"b"})));
}

TEST(LocalCertification, ArrivingDoomsTheWaiting) {
  LocalCertification certification;
  certification.Add(Tx('t'), {10, {}}, Rows({"a", "b"}));
  certification.Add(Tx('u'), {10, {11}}, Rows({"c"}));
  certification.Add(Tx('v'), {11, {}}, Rows({"d"}));
  const auto doomed = certification.Arrived(11, 2, Rows({"d", "c", "b", "a"}));
  ASSERT_EQ(doomed.size(), 1U);  // once, though two keys meet
  EXPECT_EQ(doomed[0].tx_id, Tx('t'));
  EXPECT_EQ(doomed[0].conflict.key.key, "b");
  EXPECT_TRUE(certification.Arrived(12, 2, Rows({"a"})).empty());
}

WriteSetPtr Replacing(const std::string& key, GlobalT known_t) {
  auto write_set = std::make_shared<proto::WriteSet>(*Rows({key}));
  write_set->mutable_rows(0)->set_global_t(known_t);
  return write_set;
}

TEST(LocalCertification, AKnownVersionDecidesInsteadOfTheSnapshot) {
  LocalCertification certification;
  certification.Arrived(11, 2, Rows({"a"}));
  EXPECT_TRUE(certification.Add(Tx('t'), {11, {}}, Replacing("a", 10)));
  EXPECT_FALSE(certification.Add(Tx('u'), {10, {}}, Replacing("a", 11)));
  certification.Add(Tx('v'), {12, {}}, Replacing("b", 10));
  certification.Add(Tx('w'), {10, {}}, Replacing("c", 12));
  const auto doomed = certification.Arrived(12, 2, Rows({"b", "c"}));
  ASSERT_EQ(doomed.size(), 1U);
  EXPECT_EQ(doomed[0].tx_id, Tx('v'));
}

TEST(LocalCertification, RemovedIsNotDoomed) {
  LocalCertification certification;
  certification.Add(Tx('t'), {10, {}}, Rows({"a"}));
  certification.Remove(Tx('t'));
  certification.Remove(Tx('x'));
  EXPECT_TRUE(certification.Arrived(11, 2, Rows({"a"})).empty());
}

// Random order of everything against the definition, mostly for the sanitizers: views must never dangle.
TEST(LocalCertification, AgreesWithTheDefinition) {
  std::mt19937 random(7);
  LocalCertification certification;
  std::vector<std::pair<GlobalT, std::string>> arrived;
  GlobalT applied = 0;
  for (GlobalT now = 1; now <= 3000; ++now) {
    const std::string key(1, static_cast<char>('a' + random() % 20));
    const std::string other(1, static_cast<char>('A' + random() % 20));
    certification.Arrived(now, 2, Rows({key, other}));
    arrived.emplace_back(now, key);
    arrived.emplace_back(now, other);
    if (random() % 3 == 0) {
      applied = std::max<GlobalT>(applied, now - random() % 30);
      certification.Applied(applied);
    }
    const std::string mine(1, static_cast<char>('a' + random() % 20));
    bool expected = false;
    for (const auto& [t, written] : arrived) expected |= t > applied && written == mine;
    EXPECT_EQ(certification.Add(Tx('t'), {applied, {}}, Rows({mine})).has_value(), expected);
    certification.Remove(Tx('t'));
  }
}

}  // namespace
}  // namespace psp::sp
