#include "semi_primary/losses/remedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psp::sp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LossFacts Row(std::vector<LossFacts::Column> changed) {
  LossFacts facts;
  facts.table = "public.item";
  facts.changed = std::move(changed);
  facts.losses = 100;
  facts.usual_winner = "tokyo";
  return facts;
}

TEST(RemedyTest, NumbersBecomeMultiRecordValues) {
  EXPECT_THAT(Remedy(Row({{"stock", true}})), HasSubstr("psp mrv create public.item.stock DSN"));
  EXPECT_THAT(Remedy(Row({{"stock", true}, {"sold", true}})),
              HasSubstr("stock DSN; psp mrv create public.item.sold DSN"));
}

TEST(RemedyTest, NamesAreWordsOfAShell) {
  EXPECT_THAT(Remedy(Row({{"\"$(id) it's\"", true}})),
              HasSubstr("psp mrv create 'public.item.\"$(id) it'\\''s\"' DSN"));
}

TEST(RemedyTest, NoMultiRecordValueWhereItWouldNotHelp) {
  const auto no_mrv = Not(HasSubstr("psp mrv"));
  EXPECT_THAT(Remedy(Row({})), no_mrv);                                        // nothing is known
  EXPECT_THAT(Remedy(Row({{"stock", true}, {"changed_at", false}})), no_mrv);  // the row conflicts anyway
  EXPECT_THAT(Remedy(Row({{"stock", true, true}})), no_mrv);                   // it is one already
  LossFacts unknown = Row({{"stock", true}});
  unknown.table.clear();
  EXPECT_THAT(Remedy(unknown), no_mrv);
}

TEST(RemedyTest, TheUsualWinnerDoesTheWrites) {
  LossFacts facts = Row({});
  facts.its_wins = 90;
  EXPECT_THAT(Remedy(facts), HasSubstr("semi-primary \"tokyo\""));
  facts.its_wins = 89;
  EXPECT_THAT(Remedy(facts), Not(HasSubstr("tokyo")));
  EXPECT_THAT(Remedy(facts), HasSubstr("docs/retrying.md"));
}

TEST(RemedyTest, EachKindHasItsOwn) {
  LossFacts facts = Row({{"stock", true}});
  for (const auto& [kind, words] : {std::pair{proto::LOSS_UNIQUE_VALUE, "gen_random_uuid()"},
                                    {proto::LOSS_FOREIGN_KEY, "in place of deleting it"},
                                    {proto::LOSS_READ, "certify fewer rows"},
                                    {proto::LOSS_ADVISORY_LOCK, "a narrower meaning"},
                                    {proto::LOSS_SCHEMA_CHANGE, "from one semi-primary"}}) {
    facts.kind = kind;
    EXPECT_THAT(Remedy(facts), HasSubstr(words));
    EXPECT_THAT(Remedy(facts), Not(HasSubstr("psp mrv")));
  }
}

}  // namespace
}  // namespace psp::sp
