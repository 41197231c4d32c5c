#include "primary/certify/table_holds.h"

#include <algorithm>
#include <utility>

namespace psp::primary {

void TableHolds::Ask(HeldTables hold) {
  if (active_ && active_->sp_id == hold.sp_id && active_->transaction == hold.transaction) {
    active_->hold_id = hold.hold_id;
    active_->table_ids.merge(hold.table_ids);
    granted_ = false;
    return;
  }
  EndAllOf(hold.sp_id);
  waiting_.push_back(std::move(hold));
  if (!active_) Release();
}

void TableHolds::End(SpId sp_id, std::uint64_t transaction) {
  std::erase_if(waiting_, [&](const HeldTables& hold) {
    return hold.sp_id == sp_id && hold.transaction == transaction;
  });
  if (active_ && active_->sp_id == sp_id && active_->transaction == transaction) Release();
}

void TableHolds::EndAllOf(SpId sp_id) {
  std::erase_if(waiting_, [&](const HeldTables& hold) { return hold.sp_id == sp_id; });
  if (active_ && active_->sp_id == sp_id) Release();
}

std::optional<HeldTables> TableHolds::TakeExpired(std::int64_t now_us) {
  if (!active_) return std::nullopt;
  if (!since_us_) since_us_ = now_us;
  if (now_us - *since_us_ < active_->timeout_us) return std::nullopt;
  std::optional<HeldTables> expired = active_;
  Release();
  return expired;
}

// The next one's turn begins. Who waits is looked at again.
void TableHolds::Release() {
  active_.reset();
  since_us_.reset();
  granted_ = false;
  parked_.ReleaseAll();
  if (waiting_.empty()) return;
  active_ = std::move(waiting_.front());
  waiting_.pop_front();
}

bool TableHolds::Concerns(const CertifyRequest& request) const {
  if (!active_ || request.sp_id == active_->sp_id || !request.refusal.reason.empty()) return false;
  if (request.rows.kind() == proto::ENTRY_SCHEMA_CHANGE) return true;
  return std::ranges::any_of(request.rows.rows(), [this](const proto::Row& row) {
    return active_->table_ids.contains(row.table_id());
  });
}

bool TableHolds::Park(CertifyRequest* request) {
  if (!Concerns(*request)) return false;
  parked_.Add(std::move(*request), 0);
  return true;
}

}  // namespace psp::primary
