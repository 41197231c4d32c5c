#include "primary/core/catalog_check.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/pg_binary.h"
#include "embedded/constants.h"

namespace psp::primary {
namespace {

constexpr std::uint32_t kItem = 1;  // (id int4, v text), and a unique value
constexpr std::uint32_t kItemGuard = 2;
constexpr std::uint32_t kOther = 3;
constexpr std::uint32_t kOtherGuard = 4;
constexpr std::uint32_t kNoted = 5;  // by an older psp
constexpr std::uint32_t kNew = 9;
const TableForm kForm{{{kOidInt4, -1, true}, {0, -1, false}}, {{kOidInt4, 0, Normalise::kNone}}};

KnownTables Tables() {
  KnownTables tables;
  tables.version = 1;
  tables.numbers[kItem] = {1, false, kItem, kForm};
  tables.numbers[kItemGuard] = {1, false, kItem};
  tables.numbers[kOther] = {1, false, kOther};
  tables.numbers[kOtherGuard] = {1, false, kOther};
  tables.numbers[kNoted] = {};
  return tables;
}

void AppendField(std::string* record, std::uint32_t type, std::string_view value) {
  AppendInt32(record, static_cast<std::int32_t>(type));
  AppendInt32(record, static_cast<std::int32_t>(value.size()));
  record->append(value);
}

std::string Record(std::int32_t fields, std::uint32_t type) {
  std::string record;
  AppendInt32(&record, fields);
  for (std::int32_t i = 0; i < fields; ++i) AppendField(&record, type, "1234");
  return record;
}

proto::Row* AddRow(CertifyRequest* request, std::uint32_t table_id) {
  proto::Row* row = request->rows.add_rows();
  row->set_table_id(table_id);
  row->set_key(Record(1, kOidInt4));
  row->set_image(Record(2, kOidInt4));
  return row;
}

void AddGuard(CertifyRequest* request, std::uint32_t number) {
  proto::Row* row = request->rows.add_rows();
  row->set_table_id(number);
  row->set_key("value");
  row->set_access(proto::ACCESS_GUARD);
}

CertifyRequest OneRow(std::uint32_t table_id = kItem) {
  CertifyRequest request;
  AddRow(&request, table_id);
  return request;
}

TEST(ProblemByCatalogTest, RowsGuardsAndUsesOfKnownTables) {
  CertifyRequest request = OneRow();
  AddGuard(&request, kItemGuard);
  AddGuard(&request, kAdvisoryLocksId);
  AddRow(&request, kNoted);
  for (const std::uint32_t number : {kItem, kOtherGuard}) {
    proto::KeyUse* use = request.uses.add_keys();
    use->set_kind(proto::USE_SHARED);
    use->set_table_id(number);
  }
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "");
}

TEST(ProblemByCatalogTest, AGuardIsNoRow) {
  CertifyRequest request = OneRow(kItemGuard);
  request.rows.mutable_rows(0)->clear_image();
  request.rows.mutable_rows(0)->set_deleted(true);
  EXPECT_EQ(ProblemByCatalog(request, Tables()),
            "malformed write-set: a row has the number of a guard, table_id 2");
  request.rows.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  EXPECT_NE(ProblemByCatalog(request, Tables()), "") << "nor in a schema change";
}

TEST(ProblemByCatalogTest, ARowIsNoGuard) {
  CertifyRequest request = OneRow();
  AddGuard(&request, kOther);
  EXPECT_EQ(ProblemByCatalog(request, Tables()),
            "malformed write-set: a guard has the number of a table, table_id 3");
}

TEST(ProblemByCatalogTest, AGuardNeedsARowOfItsTable) {
  CertifyRequest request = OneRow();
  AddGuard(&request, kOtherGuard);
  EXPECT_EQ(ProblemByCatalog(request, Tables()),
            "malformed write-set: a guard without a row of its table, table_id 4");
  request.rows.set_kind(proto::ENTRY_SCHEMA_CHANGE);  // the rows may have gone by a statement
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "");
}

TEST(ProblemByCatalogTest, KeysAndImagesAreRecordsOfTheColumns) {
  const std::string key_problem = "malformed write-set: a key has not the form of table_id 1";
  const std::string image_problem = "malformed write-set: an image has not the form of table_id 1";
  for (const std::string& bad :
       {std::string("no record"), Record(3, kOidInt4), Record(1, kOidText), Record(1, kOidInt4) + "x"}) {
    CertifyRequest request = OneRow();
    request.rows.mutable_rows(0)->set_key(bad);
    EXPECT_EQ(ProblemByCatalog(request, Tables()), key_problem);
    CertifyRequest other = OneRow();
    other.rows.mutable_rows(0)->set_image(bad);
    EXPECT_EQ(ProblemByCatalog(other, Tables()), image_problem);
    EXPECT_EQ(ProblemByCatalog(OneRow(kOther), Tables()), "") << "its columns are not known";
  }
}

TEST(ProblemByCatalogTest, AKeyIsNotNull) {
  CertifyRequest request = OneRow();
  std::string key;
  for (const std::int32_t part : {1, static_cast<std::int32_t>(kOidInt4), -1}) AppendInt32(&key, part);
  request.rows.mutable_rows(0)->set_key(key);
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "malformed write-set: a key is NULL, table_id 1");
}

// Of a row with the key '1234'.
std::string ProblemOfImage(std::optional<std::string_view> id, std::optional<std::string_view> value,
                           const ColumnForm& form = {}) {
  KnownTables tables = Tables();
  tables.numbers[kItem].form->columns[1] = form;
  CertifyRequest request = OneRow();
  std::string image;
  AppendRecord(&image, {{kOidInt4, id}, {form.type == 0 ? kOidText : form.type, value}});
  request.rows.mutable_rows(0)->set_image(image);
  return ProblemByCatalog(request, tables);
}

TEST(ProblemByCatalogTest, ValuesAreThoseOfTheirTypes) {
  const std::string problem = "malformed write-set: an image has not the form of table_id 1";
  EXPECT_EQ(ProblemOfImage("1234", "abc", {kOidText}), "");
  EXPECT_EQ(ProblemOfImage("1234", "a\xff", {kOidText}), problem);
  EXPECT_EQ(ProblemOfImage("1234", "123", {kOidInt4}), problem);
  EXPECT_EQ(ProblemOfImage("1234", "abcd", {kOidVarchar, 7}), problem);
}

TEST(ProblemByCatalogTest, AColumnWithoutNullsHasNone) {
  const std::string problem = "malformed write-set: an image has not the form of table_id 1";
  EXPECT_EQ(ProblemOfImage("1234", std::nullopt, {kOidText}), "");
  EXPECT_EQ(ProblemOfImage("1234", std::nullopt, {kOidText, -1, true}), problem);
}

TEST(ProblemByCatalogTest, AnImageHasItsKey) {
  EXPECT_EQ(ProblemOfImage("1235", "abc"), "malformed write-set: an image has another key, table_id 1");
}

TEST(ProblemByCatalogTest, KeysAreNormalised) {
  KnownTables tables = Tables();
  tables.numbers[kItem].form = {{{kOidFloat4, -1, true}}, {{kOidFloat4, 0, Normalise::kFloat}}};
  for (const auto& [value, problem] :
       {std::pair(std::string("\0\0\0\0", 4), std::string()),
        {std::string("\x80\0\0\0", 4), "malformed write-set: a key is not normalised, table_id 1"}}) {
    CertifyRequest request = OneRow();
    std::string record;
    AppendRecord(&record, {{kOidFloat4, value}});
    request.rows.mutable_rows(0)->set_key(record);
    request.rows.mutable_rows(0)->set_image(record);
    EXPECT_EQ(ProblemByCatalog(request, tables), problem);
  }
}

TEST(ProblemByCatalogTest, GuardsAreNotRead) {
  CertifyRequest request = OneRow();
  proto::KeyUse* use = request.uses.add_keys();
  use->set_kind(proto::USE_READ);
  use->set_table_id(kItemGuard);
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "malformed write-set: a guard is read, table_id 2");
}

TEST(ProblemByCatalogTest, OnlyACopyTellsUnderWhichVersionARowWasWritten) {
  CertifyRequest request = OneRow(kOther);
  request.rows.mutable_rows(0)->set_catalog_version(1);
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "malformed write-set: a row of a copy, table_id 3");
}

CertifyRequest Change(std::uint32_t table_id, std::uint32_t guard_id) {
  CertifyRequest request;
  request.rows.set_kind(proto::ENTRY_SCHEMA_CHANGE);
  proto::TableChange* change = request.rows.add_table_changes();
  change->set_table_id(table_id);
  change->add_guard_ids(guard_id);
  change->set_form(EncodeTableForm(kForm));
  return request;
}

TEST(ProblemByCatalogTest, AChangeTakesNoNumberOfSomethingElse) {
  EXPECT_EQ(ProblemByCatalog(Change(kItem, kItemGuard), Tables()), "");
  EXPECT_EQ(ProblemByCatalog(Change(kItem, kNew), Tables()), "");
  EXPECT_EQ(ProblemByCatalog(Change(kItemGuard, kNew), Tables()),
            "malformed write-set: a changed table has the number of a guard, table_id 2");
  for (const std::uint32_t taken : {kOther, kOtherGuard}) {
    EXPECT_EQ(ProblemByCatalog(Change(kItem, taken), Tables()),
              "malformed write-set: a changed table has the number of something else, table_id " +
                  std::to_string(taken));
  }
}

TEST(ProblemByCatalogTest, WhatAChangeChangesHasItsNewForm) {
  CertifyRequest request = Change(kItem, kItemGuard);
  TableForm form = kForm;
  form.columns.emplace_back(kOidInt4);
  request.rows.mutable_table_changes(0)->set_form(EncodeTableForm(form));
  AddRow(&request, kItem)->set_image(Record(3, kOidInt4));
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "");
  request.rows.mutable_rows(0)->set_image(Record(2, kOidInt4));
  EXPECT_EQ(ProblemByCatalog(request, Tables()),
            "malformed write-set: an image has not the form of table_id 1");
  request.rows.mutable_rows(0)->clear_image();  // deleted, under the key that it had before
  request.rows.mutable_rows(0)->set_deleted(true);
  request.rows.mutable_rows(0)->set_key(Record(2, kOidInt4));
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "");
}

TEST(ProblemByCatalogTest, AChangedTableHasAForm) {
  CertifyRequest request = Change(kItem, kItemGuard);
  for (const char* form : {"", "no form"}) {
    request.rows.mutable_table_changes(0)->set_form(form);
    EXPECT_EQ(ProblemByCatalog(request, Tables()),
              "malformed write-set: a changed table without a form, table_id 1");
  }
  request.rows.mutable_table_changes(0)->set_dropped(true);
  EXPECT_EQ(ProblemByCatalog(request, Tables()), "");
}

TEST(ProblemByCatalogTest, WhatAChangeMakesAGuardIsNoRow) {
  CertifyRequest guard_as_row = Change(kItem, kNew);
  AddRow(&guard_as_row, kNew);
  EXPECT_EQ(ProblemByCatalog(guard_as_row, Tables()),
            "malformed write-set: a row has the number of a guard, table_id 9");
}

}  // namespace
}  // namespace psp::primary
