#include "semi_primary/losses/lost_keys.h"

#include <algorithm>
#include <utility>

#include "common/pg_binary.h"
#include "embedded/constants.h"

namespace psp::sp {
namespace {

constexpr std::int64_t kNewsUs = 5'000'000;
constexpr std::int64_t kMovedUs = 60'000'000;

void AddDifferences(std::string_view before, std::string_view after, std::set<std::size_t>* places) {
  std::vector<RecordField> old_fields;
  std::vector<RecordField> new_fields;
  if (before.empty() || after.empty()) return;
  if (!DecodeRecord(&before, &old_fields).empty() || !DecodeRecord(&after, &new_fields).empty()) return;
  if (old_fields.size() != new_fields.size()) return places->clear();  // a schema change lies between them
  for (std::size_t i = 0; i < new_fields.size(); ++i) {
    if (old_fields[i] != new_fields[i]) places->insert(i);
  }
}

proto::LossKind KindOf(const Conflict& conflict, bool is_guard) {
  if (conflict.key.table_id == kAdvisoryLocksId) return proto::LOSS_ADVISORY_LOCK;
  if (!conflict.use) return is_guard ? proto::LOSS_UNIQUE_VALUE : proto::LOSS_ROW;
  const bool is_reference = *conflict.use == proto::USE_SHARED || *conflict.use == proto::USE_ENDED;
  return is_reference ? proto::LOSS_FOREIGN_KEY : proto::LOSS_READ;
}

void Add(const LostKey& some, LostKey* all) {
  all->losses += some.losses;
  all->spent_us += some.spent_us;
  for (const auto& [winner, losses] : some.winners) all->winners[winner] += losses;
  all->changed.insert(some.changed.begin(), some.changed.end());
  if (some.query_id != 0) all->query_id = some.query_id;
}

}  // namespace

Loss LossOf(const proto::WriteSet& write_set, const Conflict* conflict, bool is_guard,
            std::int64_t spent_us) {
  Loss loss;
  loss.spent_us = spent_us;
  if (conflict == nullptr) {
    loss.kind = proto::LOSS_SCHEMA_CHANGE;
    if (write_set.rows_size() > 0) loss.key.table_id = write_set.rows(0).table_id();
    return loss;
  }
  loss.key = conflict->key;
  loss.kind = KindOf(*conflict, is_guard);
  loss.winner = conflict->winner_sp_id;
  for (const proto::Row& row : write_set.rows()) {
    if (row.table_id() == loss.key.table_id && row.key() == loss.key.key) loss.image = row.image();
  }
  return loss;
}

void LostKeys::OnLost(Loss loss, std::int64_t now_us) {
  ++news_;
  if (loss.key.key.size() > kKeyBytesMax) loss.key.key.clear();
  if (loss.image.size() > kImageBytesMax) loss.image.clear();
  const Id id{loss.key, loss.kind};
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    const std::int64_t number = now_us / (kWindowsUs[window] / static_cast<std::int64_t>(kSlices));
    Slice& slice = windows_[window][static_cast<std::size_t>(number) % (kSlices + 1)];
    if (slice.number != number) slice = {number, 0, 0, {}};
    Count(&slice, id, loss);
  }
  if (untold_.size() == kUntoldMax) untold_.pop_front();
  untold_.emplace_back(loss.tx_id, id);
}

void LostKeys::OnStatements(const LosersStatements& losers) {
  const auto loser = std::find_if(untold_.rbegin(), untold_.rend(),
                                  [&](const auto& one) { return one.first == losers.tx_id; });
  if (loser == untold_.rend()) return;
  const Id id = loser->second;
  untold_.erase(std::next(loser).base());
  const auto written = std::find_if(losers.statements.begin(), losers.statements.end(),
                                    [&](const WrittenBy& one) { return one.table_id == id.first.table_id; });
  if (written == losers.statements.end()) return;
  for (Slices& slices : windows_) {
    for (Slice& slice : slices) {
      const auto counter = slice.counters.find(id);
      if (counter == slice.counters.end() || counter->second.lost.query_id == written->query_id) continue;
      counter->second.lost.query_id = written->query_id;
      ++news_;
    }
  }
}

void LostKeys::Count(Slice* slice, const Id& id, const Loss& loss) {
  ++slice->losses;
  auto found = slice->counters.find(id);
  if (found == slice->counters.end()) {
    std::uint64_t inherited = 0;
    if (slice->counters.size() == kKeysMax) {
      const auto fewest = std::min_element(
          slice->counters.begin(), slice->counters.end(),
          [](const auto& a, const auto& b) { return a.second.lost.losses < b.second.lost.losses; });
      inherited = fewest->second.lost.losses;
      slice->taken_over = std::max(slice->taken_over, inherited);
      slice->counters.erase(fewest);
    }
    found = slice->counters.emplace(id, Counter{}).first;
    found->second.lost.losses = inherited;
  }
  Counter& counter = found->second;
  ++counter.lost.losses;
  counter.lost.spent_us += loss.spent_us;
  ++counter.lost.winners[loss.winner];
  AddDifferences(counter.image, loss.image, &counter.lost.changed);
  counter.image = loss.image;
}

std::vector<LostKeys::Window> LostKeys::Rank(std::size_t keys_max, std::int64_t now_us) const {
  std::vector<Window> ranking;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    Window& window = ranking.emplace_back();
    window.us = kWindowsUs[i];
    const std::int64_t now = now_us / (kWindowsUs[i] / static_cast<std::int64_t>(kSlices));
    std::map<Id, LostKey> all;
    for (const Slice& slice : windows_[i]) {
      if (slice.number < 0 || slice.number < now - static_cast<std::int64_t>(kSlices)) continue;
      window.losses += slice.losses;
      window.losses_error += slice.taken_over;
      for (const auto& [id, counter] : slice.counters) Add(counter.lost, &all[id]);
    }
    for (auto& [id, lost] : all) window.ranked.push_back({id, std::move(lost)});
    std::stable_sort(window.ranked.begin(), window.ranked.end(),
                     [](const Ranked& a, const Ranked& b) { return a.lost.losses > b.lost.losses; });
    if (window.ranked.size() > keys_max) window.ranked.resize(keys_max);
  }
  return ranking;
}

bool LostKeys::TakeNews(std::int64_t now_us) {
  if (news_ == 0 || now_us - told_us_ < (news_ == told_news_ ? kMovedUs : kNewsUs)) return false;
  told_us_ = now_us;
  told_news_ = news_;
  return true;
}

}  // namespace psp::sp
