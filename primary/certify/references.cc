#include "primary/certify/references.h"

#include <algorithm>

namespace psp::primary {
namespace {

std::uint64_t HashOf(const proto::KeyUse& use) { return RowKeyHash{}(RowKeyView(use.table_id(), use.key())); }

}  // namespace

void References::Uses::Note(std::uint64_t key, const User& user, GlobalT watermark) {
  std::vector<User>& users = users_[key];
  std::erase_if(users,
                [&](const User& older) { return older.sp_id == user.sp_id && older.global_t <= watermark; });
  users.push_back(user);
  noted_.push_back({user.global_t, key});
  if (noted_.size() > remembered_max_) ForgetOldest();
}

void References::Uses::ForgetOldest() {
  const Noted oldest = noted_.front();
  noted_.pop_front();
  const auto found = users_.find(oldest.key);
  if (found == users_.end()) return;
  const auto forgotten =
      std::erase_if(found->second, [&](const User& user) { return user.global_t == oldest.global_t; });
  if (forgotten > 0) forgotten_t_ = std::max(forgotten_t_, oldest.global_t);
  if (found->second.empty()) users_.erase(found);
}

std::optional<References::User> References::Uses::Missing(std::uint64_t key,
                                                          const SnapshotView& snapshot) const {
  std::optional<User> missing;
  if (const auto found = users_.find(key); found != users_.end()) {
    for (const User& user : found->second) {
      if (snapshot.Has(user.global_t) || (missing && missing->global_t > user.global_t)) continue;
      missing = user;
    }
  }
  if (!missing && snapshot.watermark < forgotten_t_) missing = User{forgotten_t_, 0};
  return missing;
}

void References::Note(const CertifyRequest& request, GlobalT global_t) {
  const User user{global_t, request.sp_id};
  for (const proto::KeyUse& use : request.uses.keys()) {
    if (use.kind() == proto::USE_SHARED) shared_.Note(HashOf(use), user, request.watermark);
    if (use.kind() == proto::USE_ENDED) ended_.Note(HashOf(use), user, request.watermark);
  }
}

std::optional<Conflict> References::Lost(const CertifyRequest& request) const {
  const SnapshotView snapshot{request.watermark, request.seen};
  const proto::Snapshot& ended = request.uses.ended_snapshot();
  const SnapshotView before_end =
      request.uses.has_ended_snapshot()
          ? SnapshotView{ended.watermark(),
                         {ended.seen().data(), static_cast<std::size_t>(ended.seen_size())}}
          : snapshot;
  for (const proto::KeyUse& use : request.uses.keys()) {
    std::optional<User> missing;
    if (use.kind() == proto::USE_SHARED) missing = ended_.Missing(HashOf(use), snapshot);
    if (use.kind() == proto::USE_ENDED) missing = shared_.Missing(HashOf(use), before_end);
    if (use.kind() == proto::USE_REFERRERS_READ) missing = shared_.Missing(HashOf(use), snapshot);
    if (missing) {
      return Conflict{{use.table_id(), use.key()}, missing->global_t, missing->sp_id, use.kind()};
    }
  }
  return std::nullopt;
}

}  // namespace psp::primary
