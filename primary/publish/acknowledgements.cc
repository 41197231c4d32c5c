#include "primary/publish/acknowledgements.h"

#include <algorithm>
#include <utility>

namespace psp::primary {

void Acknowledgements::OnJoin(SpId sp_id, GlobalT snapshot_t) {
  GlobalT& oldest = joining_.try_emplace(sp_id, snapshot_t).first->second;
  oldest = std::min(oldest, snapshot_t);
  news_.joins[sp_id] = oldest;
}

void Acknowledgements::OnAck(SpId sp_id, GlobalT watermark) {
  const auto joining = joining_.find(sp_id);
  if (joining != joining_.end()) {
    if (watermark < joining->second) return;
    joining_.erase(joining);
  }
  GlobalT& newest = news_.acks.try_emplace(sp_id, watermark).first->second;
  newest = std::max(newest, watermark);
}

void Acknowledgements::OnReleased(SpId sp_id) {
  joining_.erase(sp_id);
  news_.joins.erase(sp_id);
  news_.acks.erase(sp_id);
}

Acknowledgements::News Acknowledgements::TakeNews() { return std::exchange(news_, {}); }

void Acknowledgements::PutBack(const News& news) {
  for (const auto& [sp_id, snapshot_t] : news.joins) news_.joins.try_emplace(sp_id, snapshot_t);
  for (const auto& [sp_id, acked_t] : news.acks) {
    GlobalT& newest = news_.acks.try_emplace(sp_id, acked_t).first->second;
    newest = std::max(newest, acked_t);
  }
}

}  // namespace psp::primary
