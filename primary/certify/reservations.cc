#include "primary/certify/reservations.h"

#include <algorithm>
#include <utility>

namespace psp::primary {
namespace {

// Who has lost so often lately gets a turn. A commit halves what is counted, so that one that seldom commits soon has its next turn.
constexpr int kLosses = 2;
constexpr int kLatelyMax = 3;
// The part of the time for which a key may be reserved: so many times what its users leave of it, within these bounds.
constexpr double kOfWhatIsLeft = 2;
constexpr double kLeastPart = 0.25;
constexpr double kMostPart = 3.0 / 5;
// Losses that are older are forgotten.
constexpr std::int64_t kRememberUs = 10'000'000;
// Who has not lost the key for so long does not stand in the way of another one's turn.
constexpr std::int64_t kTriesUs = 1'000'000;
// How long the attempt itself may take, besides its round trip.
constexpr std::int64_t kAttemptUs = 50'000;

}  // namespace

std::int64_t Reservations::TimeFor(SpId sp_id) const {
  const std::int64_t rtt_us = round_trips_.Of(sp_id);
  if (rtt_us <= 0) return options_.reservation_max_us;
  return std::min(rtt_us + rtt_us / 4 + kAttemptUs, options_.reservation_max_us);
}

const Reservations::Key* Reservations::Find(const KeyClaim& claim) const {
  const Keys& keys = claim.is_reference ? references_ : rows_;
  const auto found = keys.find(claim.key);
  return found == keys.end() ? nullptr : &found->second;
}

Reservations::Key* Reservations::Find(const KeyClaim& claim) {
  return const_cast<Key*>(std::as_const(*this).Find(claim));
}

Reservations::Key* Reservations::Remember(const KeyClaim& claim) {
  if (Key* known = Find(claim)) return known;
  if (rows_.size() + references_.size() >= options_.keys_max) return nullptr;
  Key key;
  key.name = {claim.key.table_id, std::string(claim.key.key)};
  key.is_reference = claim.is_reference;
  return &KeysOf(key.is_reference).emplace(key.name, key).first->second;
}

void Reservations::OnLost(const CertifyRequest& request, const Conflict& conflict, std::int64_t now_us) {
  if (options_.reservation_max_us == 0) return;
  ++counters_[request.sp_id].losses;
  const std::vector<KeyClaim> claims = ClaimsOf(request);
  const bool is_reference = conflict.use && *conflict.use != proto::USE_READ;
  const auto claim = std::ranges::find_if(claims, [&](const KeyClaim& one) {
    return one.is_reference == is_reference && one.key == RowKeyView(conflict.key);
  });
  if (claim == claims.end()) return;  // a whole table was read
  Key* lost = Remember(*claim);
  if (lost == nullptr || !IsNext(claims, request.sp_id, lost, now_us)) return;
  const bool may_reserve = std::ranges::all_of(claims, [&](const KeyClaim& one) {
    const Key* key = Find(one);
    return key == nullptr || IsAvailable(*key, now_us);
  });
  if (may_reserve && reserved_ < options_.reserved_max) Reserve(claims, *claim, request.sp_id, now_us);
}

// The most that is counted for one of the keys.
int Reservations::LostLately(const std::vector<KeyClaim>& claims, SpId sp_id) const {
  int most = 0;
  for (const KeyClaim& claim : claims) {
    const Key* key = Find(claim);
    if (key == nullptr) continue;
    for (const Loser& loser : key->losers) {
      if (loser.sp_id == sp_id) most = std::max(most, loser.lately);
    }
  }
  return most;
}

// Counts the loss. Of those who lose the key now, who had it for the shortest time is next.
bool Reservations::IsNext(const std::vector<KeyClaim>& claims, SpId sp_id, Key* lost, std::int64_t now_us) {
  const int lately = std::min(LostLately(claims, sp_id) + 1, kLatelyMax);
  lost->lost_us = now_us;
  auto loser = std::ranges::find(lost->losers, sp_id, &Loser::sp_id);
  if (loser == lost->losers.end()) loser = lost->losers.insert(loser, {.sp_id = sp_id});
  loser->lost_us = now_us;
  const bool is_new = loser->lately < kLosses;
  loser->lately = lately;
  if (lately < kLosses) return false;
  if (is_new) loser->had_us = std::max(loser->had_us, lost->newcomer_had_us);
  return std::ranges::none_of(lost->losers, [&](const Loser& other) {
    return other.lately >= kLosses && now_us - other.lost_us < kTriesUs && other.had_us < loser->had_us;
  });
}

// One that follows the last use closely leaves no time for others in between.
void Reservations::NoteUse(Key* key, SpId sp_id, std::int64_t now_us) const {
  const std::int64_t closely_us = 2 * round_trips_.Of(sp_id);
  key->busy_us += std::min(now_us - std::max(key->used_us, key->free_since_us), closely_us);
  key->used_us = now_us;
}

bool Reservations::IsAvailable(const Key& key, std::int64_t now_us) {
  if (key.reservation != nullptr) return false;
  const auto free_us = static_cast<double>(now_us - key.free_since_us);
  const auto reserved_us = static_cast<double>(key.reserved_us);
  // The next user may be on its way.
  const std::int64_t waited_us = std::min(now_us - std::max(key.used_us, key.free_since_us), kAttemptUs);
  const double left = 1 - static_cast<double>(key.busy_us + waited_us) / std::max(free_us, 1.0);
  return reserved_us <= std::clamp(kOfWhatIsLeft * left, kLeastPart, kMostPart) * (reserved_us + free_us);
}

void Reservations::Reserve(const std::vector<KeyClaim>& claims, const KeyClaim& lost, SpId sp_id,
                           std::int64_t now_us) {
  ++counters_[sp_id].reservations;
  Reservation& reservation = reservations_.emplace_back();
  reservation.number = ++last_number_;
  reservation.sp_id = sp_id;
  reservation.since_us = now_us;
  reservation.until_us = now_us + TimeFor(sp_id);
  Add(lost, &reservation);
  for (const KeyClaim& claim : claims) Add(claim, &reservation);
  Key* key = reservation.keys.front();
  const auto loser = std::ranges::find(key->losers, sp_id, &Loser::sp_id);
  key->newcomer_had_us = loser->had_us;
}

void Reservations::Add(const KeyClaim& claim, Reservation* reservation) {
  if (reserved_ >= options_.reserved_max) return;
  Key* key = Remember(claim);
  if (key == nullptr || key->reservation != nullptr) return;
  key->reservation = reservation;
  key->access = claim.access;
  reservation->keys.push_back(key);
  ++reserved_;
}

// Keys that nobody has lost are forgotten.
Reservations::List::iterator Reservations::End(List::iterator ended, std::int64_t now_us) {
  const std::int64_t reserved_us = now_us - ended->since_us;
  for (Loser& loser : ended->keys.front()->losers) {
    if (loser.sp_id == ended->sp_id) loser.had_us += reserved_us;
  }
  for (Key* key : ended->keys) {
    key->reservation = nullptr;
    key->reserved_us = reserved_us;
    key->free_since_us = now_us;
    key->busy_us = 0;
    key->used_us = now_us;
    if (key->losers.empty()) KeysOf(key->is_reference).erase(RowKey(key->name));
  }
  reserved_ -= ended->keys.size();
  has_ended_ = true;
  return reservations_.erase(ended);
}

void Reservations::OnCommitted(const CertifyRequest& request, std::int64_t now_us) {
  if (rows_.empty() && references_.empty()) return;
  for (const KeyClaim& claim : ClaimsOf(request)) {
    Key* key = Find(claim);
    if (key == nullptr) continue;
    for (Loser& loser : key->losers) {
      if (loser.sp_id == request.sp_id) loser.lately /= 2;
    }
    NoteUse(key, request.sp_id, now_us);
    const auto used = std::ranges::find_if(reservations_, [&](const Reservation& one) {
      return &one == key->reservation && one.sp_id == request.sp_id && one.keys.front() == key;
    });
    if (used == reservations_.end()) continue;
    ++counters_[request.sp_id].used;
    End(used, now_us);
  }
  if (has_ended_) Release(now_us);
}

void Reservations::Forget(SpId sp_id) {
  for (Keys* keys : {&rows_, &references_}) {
    for (auto& [name, key] : *keys) {
      std::erase_if(key.losers, [sp_id](const Loser& loser) { return loser.sp_id == sp_id; });
    }
  }
  for (Reservation& one : reservations_) {
    if (one.sp_id == sp_id) one.until_us = 0;
  }
}

void Reservations::OnTime(std::int64_t now_us) {
  for (auto one = reservations_.begin(); one != reservations_.end();) {
    one = now_us >= one->until_us ? End(one, now_us) : std::next(one);
  }
  const auto oldest_us = parked_.oldest_us();
  if (has_ended_ || (oldest_us && now_us - *oldest_us >= options_.reservation_max_us)) Release(now_us);
  if (now_us < forget_at_us_) return;
  forget_at_us_ = now_us + kRememberUs / 10;
  for (Keys* keys : {&rows_, &references_}) {
    std::erase_if(*keys, [now_us](const auto& one) {
      return one.second.reservation == nullptr && now_us - one.second.lost_us >= kRememberUs;
    });
  }
}

const Reservations::Reservation* Reservations::WaitsFor(const CertifyRequest& request) const {
  const auto older = [](const Reservation* a, const Reservation* b) {
    return a == nullptr || b->number < a->number ? b : a;
  };
  const Reservation* own = nullptr;
  const Reservation* others = nullptr;
  for (const KeyClaim& claim : ClaimsOf(request)) {
    const Key* key = Find(claim);
    if (key == nullptr || key->reservation == nullptr) continue;
    if (key->reservation->sp_id == request.sp_id) {
      own = older(own, key->reservation);
    } else if (LostBy(key->access, claim.access) != 0) {
      others = older(others, key->reservation);
    }
  }
  return others != nullptr && older(own, others) == others ? others : nullptr;
}

bool Reservations::Park(CertifyRequest* request, std::int64_t now_us) {
  const bool is_rows = request->refusal.reason.empty() && request->rows.kind() == proto::ENTRY_ROWS;
  if (reservations_.empty() || !is_rows || WaitsFor(*request) == nullptr) return false;
  if (parked_.Has(request->tx_id)) return true;
  if (parked_.size() >= options_.parked_max) return false;
  parked_.Add(std::move(*request), now_us);
  return true;
}

// A reservation that has begun meanwhile lets them wait further, but not for longer than one may last.
void Reservations::Release(std::int64_t now_us) {
  has_ended_ = false;
  parked_.ReleaseIf([&](const ParkedRequests::Parked& one) {
    return now_us - one.since_us >= options_.reservation_max_us || WaitsFor(one.request) == nullptr;
  });
}

std::vector<Reservations::InForce> Reservations::in_force() const {
  std::map<const Reservation*, std::size_t> waiting;
  parked_.ForEach([&](const ParkedRequests::Parked& one) { ++waiting[WaitsFor(one.request)]; });
  std::vector<InForce> all;
  for (const Reservation& one : reservations_) {
    all.push_back({one.sp_id, one.keys.front()->name, one.keys.size(), one.since_us, waiting[&one]});
  }
  return all;
}

}  // namespace psp::primary
