#include "primary/certify/reservations.h"

#include <algorithm>
#include <utility>

namespace psp::primary {
namespace {

constexpr int kLossesInARow = 2;
// After a reservation the key is free for all three and a half times as long: it is reserved for two ninths of the time at most.
constexpr std::int64_t kFreeForTwoReserved = 7;
// Losses that are older are forgotten.
constexpr std::int64_t kRememberUs = 10'000'000;
// Who has not lost the key for so long does not stand in the way of another one's turn.
constexpr std::int64_t kTriesUs = 1'000'000;
// How long the attempt itself may take, besides its round trip.
constexpr std::int64_t kAttemptUs = 50'000;

}  // namespace

void Reservations::SetRoundTrip(SpId sp_id, std::int64_t rtt_us) { rtt_us_[sp_id] = rtt_us; }

std::int64_t Reservations::TimeFor(SpId sp_id) const {
  const auto rtt = rtt_us_.find(sp_id);
  if (rtt == rtt_us_.end() || rtt->second <= 0) return options_.reservation_max_us;
  return std::min(rtt->second + rtt->second / 4 + kAttemptUs, options_.reservation_max_us);
}

void Reservations::OnLost(SpId sp_id, const RowKey& lost, std::int64_t now_us) {
  if (options_.reservation_max_us == 0) return;
  ++counters_.losses;
  auto found = keys_.find(lost);
  if (found == keys_.end()) {
    if (keys_.size() >= options_.keys_max) return;
    found = keys_.emplace(lost, Key{}).first;
  }
  Key& key = found->second;
  key.lost_us = now_us;
  auto loser = std::ranges::find(key.losers, sp_id, &Loser::sp_id);
  if (loser == key.losers.end()) loser = key.losers.insert(loser, {.sp_id = sp_id});
  loser->lost_us = now_us;
  if (++loser->in_a_row == kLossesInARow) loser->turns_us = std::max(loser->turns_us, key.turn_us);
  const bool may_reserve =
      key.reserved_for == 0 && now_us >= key.free_from_us && reserved_.size() < options_.reserved_max;
  if (may_reserve && IsNext(key, *loser, now_us)) Reserve(found, &*loser, now_us);
}

// Of those who lose it now, it had the key for the shortest time.
bool Reservations::IsNext(const Key& key, const Loser& loser, std::int64_t now_us) {
  return loser.in_a_row >= kLossesInARow && std::ranges::none_of(key.losers, [&](const Loser& other) {
           return other.in_a_row >= kLossesInARow && now_us - other.lost_us < kTriesUs &&
                  other.turns_us < loser.turns_us;
         });
}

void Reservations::Reserve(Keys::iterator key, Loser* loser, std::int64_t now_us) {
  ++counters_.reservations;
  loser->in_a_row = 0;
  key->second.turn_us = loser->turns_us;
  key->second.reserved_for = loser->sp_id;
  key->second.since_us = now_us;
  key->second.until_us = now_us + TimeFor(loser->sp_id);
  reserved_.push_back(key->first);
}

void Reservations::End(Keys::iterator key, std::int64_t now_us) {
  Key& ended = key->second;
  const std::int64_t had_us = now_us - ended.since_us;
  std::ranges::find(ended.losers, ended.reserved_for, &Loser::sp_id)->turns_us += had_us;
  ended.free_from_us = now_us + kFreeForTwoReserved * had_us / 2;
  ended.reserved_for = 0;
  std::erase(reserved_, key->first);
  has_ended_ = true;
}

void Reservations::OnCommitted(const CertifyRequest& request, std::int64_t now_us) {
  if (keys_.empty()) return;
  for (const proto::Row& row : request.rows.rows()) {
    const auto found = keys_.find(RowKeyView(row.table_id(), row.key()));
    if (found == keys_.end()) continue;
    for (Loser& loser : found->second.losers) {
      if (loser.sp_id == request.sp_id) loser.in_a_row = 0;
    }
    if (found->second.reserved_for != request.sp_id) continue;
    ++counters_.used;
    End(found, now_us);
  }
  if (has_ended_) Release(now_us);
}

void Reservations::Forget(SpId sp_id) {
  rtt_us_.erase(sp_id);
  for (auto& [name, key] : keys_) {
    std::erase_if(key.losers, [sp_id](const Loser& loser) { return loser.sp_id == sp_id; });
    if (key.reserved_for != sp_id) continue;
    key.reserved_for = 0;
    std::erase(reserved_, name);
    has_ended_ = true;
  }
}

void Reservations::OnTime(std::int64_t now_us) {
  for (const RowKey& reserved : std::vector<RowKey>(reserved_)) {
    const auto key = keys_.find(reserved);
    if (now_us >= key->second.until_us) End(key, now_us);
  }
  const auto oldest_us = parked_.oldest_us();
  if (has_ended_ || (oldest_us && now_us - *oldest_us >= options_.reservation_max_us)) Release(now_us);
  if (now_us < forget_at_us_) return;
  forget_at_us_ = now_us + kRememberUs / 10;
  std::erase_if(keys_, [now_us](const auto& one) {
    return one.second.reserved_for == 0 && now_us - one.second.lost_us >= kRememberUs;
  });
}

bool Reservations::MustWait(const CertifyRequest& request) const {
  bool is_reserved = false;
  for (const proto::Row& row : request.rows.rows()) {
    const auto found = keys_.find(RowKeyView(row.table_id(), row.key()));
    if (found == keys_.end() || found->second.reserved_for == 0) continue;
    if (found->second.reserved_for == request.sp_id) return false;
    is_reserved = true;
  }
  return is_reserved;
}

bool Reservations::Park(CertifyRequest* request, std::int64_t now_us) {
  const bool is_rows = request->refusal.reason.empty() && request->rows.kind() == proto::ENTRY_ROWS;
  if (reserved_.empty() || !is_rows || !MustWait(*request)) return false;
  if (parked_.Has(request->tx_id)) return true;
  if (parked_.size() >= options_.parked_max) return false;
  parked_.Add(std::move(*request), now_us);
  return true;
}

// A reservation that has begun meanwhile lets them wait further, but not for longer than one may last.
void Reservations::Release(std::int64_t now_us) {
  has_ended_ = false;
  parked_.ReleaseIf([&](const ParkedRequests::Parked& one) {
    return now_us - one.since_us >= options_.reservation_max_us || !MustWait(one.request);
  });
}

}  // namespace psp::primary
