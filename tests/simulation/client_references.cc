// A client's transactions that rely on keys which they do not write: foreign keys, and rules that snapshot isolation alone does not keep.
#include <algorithm>
#include <optional>

#include "tests/simulation/client.h"
#include "tests/simulation/rows.h"
#include "writeset/key_uses.h"

namespace psp::simulation {
namespace {

// The uses that a mistake leaves out.
std::optional<proto::UseKind> Untold(Mutation mutation) {
  switch (mutation) {
    case Mutation::kSharedIsNotTold:
      return proto::USE_SHARED;
    case Mutation::kEndedIsNotTold:
      return proto::USE_ENDED;
    case Mutation::kReferrersReadIsNotTold:
      return proto::USE_REFERRERS_READ;
    case Mutation::kTableReadIsNotTold:
      return proto::USE_TABLE_READ;
    default:
      return std::nullopt;
  }
}

}  // namespace

Client::Operation Client::DrawReference() {
  const std::int64_t parent = sim_.Between(0, kParentRows - 1);
  const std::int64_t child = sim_.Between(0, kChildRows - 1);
  const std::int64_t dice = sim_.Between(1, 10);
  if (dice <= 1) return {Kind::kPutParent, parent, 0};
  if (dice <= 3) return {Kind::kEndParent, parent, 0};
  if (dice <= 7) return {Kind::kPutChild, child, parent};
  if (dice <= 8) return {Kind::kDeleteChild, child, 0};
  return {Kind::kChangeDuty, sim_.Between(0, kDoctorRows - 1), 0};
}

std::vector<RowKey> Client::ChildrenOf(std::int64_t parent, const SpState& state) {
  std::vector<RowKey> children;
  for (auto row = state.rows.lower_bound(RowKey{kChildren, ""}); row != state.rows.end(); ++row) {
    if (row->first.table_id != kChildren) break;
    if (ValueOf(row->second.image) == parent) children.push_back(row->first);
  }
  return children;
}

// PostgreSQL's own checks of a foreign key lock the parent's row.
bool Client::LockParent(const Operation& operation) {
  using Lock = SpDatabase::TableLock;
  const bool is_child = operation.kind == Kind::kPutChild;
  if (!is_child && operation.kind != Kind::kEndParent) return true;
  const std::uint32_t lock = ParentLock(ParentKey(is_child ? operation.other : operation.id));
  return node_.database().TryLockTable(number_, lock, is_child ? Lock::kWrite : Lock::kChange).empty();
}

void Client::Use(proto::UseKind kind, const RowKey& key) {
  for (const proto::KeyUse& use : open_->uses.keys()) {
    if (use.kind() == kind && use.table_id() == key.table_id && use.key() == key.key) return;
  }
  proto::KeyUse* use = open_->uses.add_keys();
  use->set_kind(kind);
  use->set_table_id(key.table_id);
  use->set_key(key.key);
}

void Client::PutParent(std::int64_t id) {
  const auto old = Visible(ParentKey(id));
  open_->writes[ParentKey(id)] = Image(id, old ? ValueOf(*old) + 1 : 0);
}

// ON DELETE CASCADE. PostgreSQL looks for the children that are there now; under REPEATABLE READ it fails if the transaction does not
// see just these.
bool Client::EndParent(std::int64_t id) {
  if (!Visible(ParentKey(id))) return true;
  const SpState& now = *node_.database().state();
  if (open_->repeatable_read && ChildrenOf(id, now) != ChildrenOf(id, *open_->begin)) return false;
  for (const RowKey& child : ChildrenOf(id, now)) {
    if (!open_->writes.contains(child)) open_->writes[child] = std::nullopt;
  }
  for (auto& [key, image] : open_->writes) {
    if (key.table_id == kChildren && image && ValueOf(*image) == id) image = std::nullopt;
  }
  open_->writes[ParentKey(id)] = std::nullopt;
  Use(proto::USE_ENDED, ParentKey(id));
  if (!open_->repeatable_read && !open_->uses.has_ended_snapshot()) {
    const sp::Snapshot snapshot = now.Snapshot();
    proto::Snapshot* told = open_->uses.mutable_ended_snapshot();
    told->set_watermark(snapshot.watermark);
    told->mutable_seen()->Add(snapshot.seen.begin(), snapshot.seen.end());
  }
  return true;
}

// The limited parent gets one only under REPEATABLE READ, and only while it has not enough.
bool Client::PutChild(std::int64_t id, std::int64_t parent) {
  const auto own = open_->writes.find(ParentKey(parent));
  const bool is_own = own != open_->writes.end();
  const bool is_there = node_.database().state()->rows.contains(ParentKey(parent));
  if (!Visible(ParentKey(parent)) || (!is_own && !is_there)) return false;  // foreign key violation
  if (parent == kLimitedParent) {
    std::int64_t others = 0;
    for (std::int64_t child = 0; child < kChildRows; ++child) {
      const auto image = Visible(ChildKey(child));
      others += child != id && image && ValueOf(*image) == parent ? 1 : 0;
    }
    if (!open_->repeatable_read || others >= kLimitedChildren) return true;
    Use(proto::USE_REFERRERS_READ, ParentKey(parent));
  }
  open_->writes[ChildKey(id)] = Image(id, parent);
  Use(proto::USE_SHARED, ParentKey(parent));
  return true;
}

bool Client::IsOnCall(std::int64_t id) {
  const auto image = Visible(DoctorKey(id));
  if (!image) sim_.Violation("SP ", node_.sp_id(), ": ", Text(DoctorKey(id)), " is not there");
  return image && ValueOf(*image) == 1;
}

// A doctor goes off call only while another one is on call.
void Client::ChangeDuty(std::int64_t id) {
  if (!open_->repeatable_read) return;
  if (!IsOnCall(id)) {
    open_->writes[DoctorKey(id)] = Image(id, 1);
    return;
  }
  const bool reads_table = sim_.Chance(50);
  bool other_is_on_call = false;
  for (std::int64_t other = 0; other < kDoctorRows; ++other) {
    if (other == id) continue;
    other_is_on_call = other_is_on_call || IsOnCall(other);
    if (!reads_table) Use(proto::USE_READ, DoctorKey(other));
  }
  if (reads_table) Use(proto::USE_TABLE_READ, {kDoctors, ""});
  if (other_is_on_call) open_->writes[DoctorKey(id)] = Image(id, 0);
}

// What the transaction tells of its uses, with mistakes.
std::shared_ptr<proto::KeyUses> Client::MakeUses(const proto::WriteSet& write_set) const {
  auto uses = std::make_shared<proto::KeyUses>(open_->uses);
  DropNeedlessUses(write_set, uses.get());
  const std::optional<proto::UseKind> untold = Untold(scenario_.mutation);
  auto* keys = uses->mutable_keys();
  const auto is_untold = [&](const proto::KeyUse& use) { return use.kind() == untold; };
  keys->erase(std::remove_if(keys->begin(), keys->end(), is_untold), keys->end());
  if (scenario_.mutation == Mutation::kEndedIsToldLate) uses->clear_ended_snapshot();
  return uses;
}

}  // namespace psp::simulation
