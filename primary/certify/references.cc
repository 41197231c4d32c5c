#include "primary/certify/references.h"

#include <algorithm>

namespace psp::primary {
namespace {

std::uint64_t HashOf(const proto::KeyUse& use) { return RowKeyHash{}(RowKeyView(use.table_id(), use.key())); }

}  // namespace

void References::Uses::Note(std::uint64_t key, const Commit& user, GlobalT watermark) {
  users_[key].Note(user, watermark);
  noted_.push_back({user, key});
  if (noted_.size() > remembered_max_) ForgetOldest();
}

void References::Uses::ForgetOldest() {
  const Noted oldest = noted_.front();
  noted_.pop_front();
  const auto found = users_.find(oldest.key);
  if (found == users_.end()) return;
  if (found->second.Forget(oldest.user)) forgotten_t_ = std::max(forgotten_t_, oldest.user.global_t);
  if (found->second.empty()) users_.erase(found);
}

std::optional<Commit> References::Uses::Missing(std::uint64_t key, const SnapshotView& snapshot) const {
  const auto found = users_.find(key);
  if (found != users_.end()) {
    if (const auto missing = found->second.Missing(snapshot)) return missing;
  }
  if (snapshot.watermark < forgotten_t_) return Commit{0, forgotten_t_};
  return std::nullopt;
}

void References::Note(const CertifyRequest& request, GlobalT global_t) {
  const Commit user{request.sp_id, global_t};
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
    std::optional<Commit> missing;
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
