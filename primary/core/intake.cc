#include "primary/core/intake.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "embedded/constants.h"
#include "primary/core/catalog_check.h"
#include "writeset/check.h"

namespace psp::primary {
namespace {

std::string Version(std::uint32_t version) {
  return "version " + std::to_string(version) + " of the catalog";
}

// Of tables and guards, some of them more than once.
std::vector<std::uint32_t> NumbersIn(const CertifyRequest& request) {
  std::vector<std::uint32_t> numbers;
  for (const proto::Row& row : request.rows.rows()) numbers.push_back(row.table_id());
  for (const proto::KeyUse& use : request.uses.keys()) numbers.push_back(use.table_id());
  return numbers;
}

std::string Table(std::uint32_t table_id) { return "table_id " + std::to_string(table_id); }

// A schema change may name a key in several segments; the last one has the row as the transaction leaves it.
void KeepLastOfEachKey(proto::WriteSet* write_set) {
  auto* rows = write_set->mutable_rows();
  std::unordered_set<RowKeyView, RowKeyHash, RowKeyEqual> seen;
  std::vector<int> last;
  for (int i = rows->size() - 1; i >= 0; --i) {
    if (seen.emplace(rows->Get(i).table_id(), rows->Get(i).key()).second) last.push_back(i);
  }
  int kept = 0;
  for (auto i = last.rbegin(); i != last.rend(); ++i) rows->SwapElements(kept++, *i);
  rows->DeleteSubrange(kept, rows->size() - kept);
}

}  // namespace

bool Intake::Parse(SpId sp_id, std::uint64_t incarnation, proto::Certify* message,
                   CertifyRequest* request) const {
  const auto tx_id = TxId::FromBytes(message->tx_id());
  if (!tx_id) return false;
  request->tx_id = *tx_id;
  request->sp_id = sp_id;
  request->incarnation = incarnation;
  std::string& reason = request->refusal.reason;
  const std::size_t bytes = message->write_set().size() + message->uses().ByteSizeLong();
  if (bytes > write_set_bytes_max_) {
    reason = "write-set of " + std::to_string(bytes) +
             " bytes is larger than write_set_bytes_max = " + std::to_string(write_set_bytes_max_);
    return true;
  }
  if (!request->rows.ParseFromString(message->write_set())) {
    reason = "malformed write-set";
    return true;
  }
  request->uses_bytes = bytes - message->write_set().size();
  request->uses = std::move(*message->mutable_uses());
  reason = ProblemOf(request->rows);
  if (reason.empty()) reason = ProblemOf(request->uses);
  if (reason.empty() && request->rows.catalog_version() == 0) {
    reason = "malformed write-set: no catalog version";
  }
  if (reason.empty()) request->refusal = OlderCatalog(*request);
  if (request->rows.kind() == proto::ENTRY_SCHEMA_CHANGE) KeepLastOfEachKey(&request->rows);
  request->watermark = message->snapshot().watermark();
  request->seen.assign(message->snapshot().seen().begin(), message->snapshot().seen().end());
  std::ranges::sort(request->seen);
  request->write_set = std::move(*message->mutable_write_set());
  return true;
}

Refusal Intake::OlderCatalog(const CertifyRequest& request) const {
  const std::uint32_t version = request.rows.catalog_version();
  if (request.rows.kind() == proto::ENTRY_SCHEMA_CHANGE && version <= tables_.version) {
    return {"another schema change has made " + Version(version), true};
  }
  if (version >= tables_.version) return {};
  for (const std::uint32_t number : NumbersIn(request)) {
    const auto table = tables_.numbers.find(number);
    if (table == tables_.numbers.end() || table->second.changed_in <= version) continue;
    return {Table(number) + (table->second.dropped ? " was dropped in " : " was changed in ") +
                Version(table->second.changed_in) + ", the transaction found version " +
                std::to_string(version),
            true};
  }
  return {};
}

void Intake::Judge(CertifyRequest* request) const {
  request->refusal = OlderCatalog(*request);  // it may have become newer meanwhile
  if (!request->refusal.reason.empty()) return;
  if (const std::string unknown = UnknownIn(*request); !unknown.empty()) {
    request->refusal.reason = "the primary does not know " + unknown;
    return;
  }
  request->refusal.reason = ProblemByCatalog(*request, tables_);
}

std::string Intake::UnknownIn(const CertifyRequest& request) const {
  const std::uint32_t version = request.rows.catalog_version();
  const bool is_schema_change = request.rows.kind() == proto::ENTRY_SCHEMA_CHANGE;
  if (version > tables_.version + (is_schema_change ? 1 : 0)) return Version(version);
  std::unordered_set<std::uint32_t> own;  // that the change creates
  for (const proto::TableChange& change : request.rows.table_changes()) {
    own.insert(change.table_id());
    own.insert(change.guard_ids().begin(), change.guard_ids().end());
  }
  const auto is_known = [&](std::uint32_t number) {
    const auto table = tables_.numbers.find(number);
    return (table != tables_.numbers.end() && !table->second.dropped) || own.contains(number);
  };
  for (const proto::Row& row : request.rows.rows()) {
    // A guard of an index that the change has made and dropped has a number that nobody will have.
    const bool needs_none =
        row.access() == proto::ACCESS_GUARD && (is_schema_change || row.table_id() == kAdvisoryLocksId);
    if (!needs_none && !is_known(row.table_id())) return Table(row.table_id());
  }
  for (const proto::KeyUse& use : request.uses.keys()) {
    if (!is_schema_change && !is_known(use.table_id())) return Table(use.table_id());
  }
  for (const proto::TableChange& change : request.rows.table_changes()) {
    const auto table = tables_.numbers.find(change.table_id());
    if (table != tables_.numbers.end() && table->second.dropped) return Table(change.table_id());
  }
  return {};
}

void Intake::SetTables(KnownTables tables) {
  if (tables.version >= tables_.version) tables_ = std::move(tables);
}

void Intake::Change(const proto::WriteSet& schema_change) {
  const std::uint32_t version = schema_change.catalog_version();
  if (version <= tables_.version) return;  // it was read from the database before the decision came
  tables_.version = version;
  for (const proto::TableChange& change : schema_change.table_changes()) {
    tables_.numbers[change.table_id()] = {version, change.dropped(), change.table_id(),
                                          DecodeTableForm(change.form())};
    for (const std::uint32_t guard_id : change.guard_ids())
      tables_.numbers[guard_id] = {version, false, change.table_id()};
  }
}

}  // namespace psp::primary
