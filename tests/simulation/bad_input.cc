#include "tests/simulation/bad_input.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "common/pg_binary.h"
#include "tests/simulation/rows.h"

namespace psp::simulation {
namespace {

constexpr std::uint32_t kUnknownTable = 99;
constexpr std::uint32_t kUnknownVersion = 1'000'000;

void MakeDeleted(std::uint32_t table_id, proto::Row* row) {
  row->set_table_id(table_id);
  row->set_access(proto::ACCESS_WRITE);
  row->set_deleted(true);
  row->clear_image();
}

// What no other server can apply, or would apply to another row.
void SpoilImage(std::uint64_t dice, proto::Row* row) {
  const bool had_image = row->has_image();
  const std::uint32_t table_id = had_image ? row->table_id() : kCounters;
  const std::int64_t id = IdOf({table_id, row->key()});
  MakeDeleted(table_id, row);
  row->set_deleted(false);
  std::string image;
  switch (dice % 5) {
    case 0:
      return;
    case 1:
      image = "no record";
      break;
    case 2:
      image = Image(id + 1, 0);
      break;
    case 3:
      AppendRecord(&image, {{kOidInt8, "12345678"}, {kOidInt8, std::nullopt}});
      break;
    default:
      AppendRecord(&image, {{kOidInt8, "12345678"}, {kOidInt8, "1234"}});
  }
  row->set_image(image);
}

}  // namespace

bool Spoil(const TxId& tx_id, int percent, proto::WriteSet* write_set) {
  std::uint64_t dice = 0;
  std::memcpy(&dice, tx_id.View().data(), sizeof dice);
  if (dice % 100 >= static_cast<std::uint64_t>(percent)) return false;
  proto::Row* last = write_set->mutable_rows(write_set->rows_size() - 1);
  switch (dice / 100 % 10) {
    case 0:
      last->set_access(static_cast<proto::AccessKind>(7));
      break;
    case 1:
      last->set_access(static_cast<proto::AccessKind>(proto::AccessKind_MAX + 1));
      break;
    case 2:
      write_set->set_kind(static_cast<proto::EntryKind>(proto::EntryKind_MAX + 1));
      break;
    case 3:
      write_set->set_catalog_version(kUnknownVersion);
      break;
    case 4:
      write_set->clear_catalog_version();
      break;
    case 5:
      last->set_table_id(kUnknownTable);
      break;
    case 6:  // a unique value that somebody else has becomes free
      MakeDeleted(kNamesGuard, last);
      break;
    case 7:
      MakeDeleted(kCounters, last);
      last->set_deleted(false);
      last->set_access(proto::ACCESS_GUARD);
      break;
    case 8:
      SpoilImage(dice / 1000, last);
      break;
    default:  // the row goes at the primary, and stays elsewhere
      MakeDeleted(kCounters, last);
      last->set_gone_before(true);
      if (write_set->kind() == proto::ENTRY_SCHEMA_CHANGE) last->set_image("no record");
  }
  return true;
}

void TakeForKnown(std::uint32_t version, proto::WriteSet* write_set) {
  const std::uint32_t found = write_set->catalog_version();
  if (!proto::EntryKind_IsValid(write_set->kind())) write_set->clear_kind();
  if (found == 0 || found == kUnknownVersion) write_set->set_catalog_version(version);
  for (proto::Row& row : *write_set->mutable_rows()) {
    if (row.table_id() == kUnknownTable) row.set_table_id(kNamesGuard);
    row.set_access(row.has_image() || row.deleted() ? proto::ACCESS_WRITE : proto::ACCESS_GUARD);
  }
}

}  // namespace psp::simulation
