#include "writeset/table_form.h"

#include <gtest/gtest.h>

namespace psp {
namespace {

const TableForm kForm{
    {{23, -1, true}, {1043, 14, false}, {1700, -1, false}},
    {{23, 0, Normalise::kNone}, {1700, 2, Normalise::kNumeric}, {20, std::nullopt, Normalise::kBase}}};

TEST(TableFormTest, ComesBackAsItWas) { EXPECT_EQ(DecodeTableForm(EncodeTableForm(kForm)), kForm); }

TEST(TableFormTest, MalformedBytesAreNoForm) {
  const std::string bytes = EncodeTableForm(kForm);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeTableForm(bytes.substr(0, size))) << size;
  EXPECT_FALSE(DecodeTableForm(bytes + '\0'));
  EXPECT_FALSE(DecodeTableForm(EncodeTableForm({{{23, -1, true}}, {}}))) << "no key";
  EXPECT_FALSE(DecodeTableForm(EncodeTableForm({{{23, -1, true}}, {{23, 1, Normalise::kNone}}})))
      << "no such column";
  EXPECT_FALSE(DecodeTableForm(EncodeTableForm({{}, {{23, std::nullopt, static_cast<Normalise>(5)}}})));
}

}  // namespace
}  // namespace psp
