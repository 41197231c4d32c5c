#include "primary/publish/acknowledgements.h"

#include <algorithm>
#include <utility>

namespace psp {

void Acknowledgements::OnAck(SpId sp_id, GlobalT watermark) {
  const auto joining = joining_.find(sp_id);
  if (joining != joining_.end()) {
    if (watermark < joining->second) return;
    joining_.erase(joining);
  }
  GlobalT& newest = new_.try_emplace(sp_id, watermark).first->second;
  newest = std::max(newest, watermark);
}

void Acknowledgements::OnReleased(SpId sp_id) {
  joining_.erase(sp_id);
  new_.erase(sp_id);
}

std::map<SpId, GlobalT> Acknowledgements::TakeNew() { return std::exchange(new_, {}); }

std::optional<GlobalT> Acknowledgements::JoinersNeedLogAfter() const {
  std::optional<GlobalT> needed;
  for (const auto& [sp_id, snapshot_t] : joining_) needed = std::min(needed.value_or(snapshot_t), snapshot_t);
  return needed;
}

}  // namespace psp
