#include "semi_primary/core/own_history.h"

#include <algorithm>

namespace psp::sp {

void OwnHistory::OnApplyStarted(GlobalT watermark_before, GlobalT watermark, const Commits& own,
                                bool joining) {
  if (has_started_ && !earlier_t_) unsure_ = true;
  if (has_started_ && earlier_t_ && watermark < *earlier_t_) back_t_ = std::max(back_t_, *earlier_t_);
  has_started_ = true;
  if (watermark < watermark_before) back_t_ = std::max(back_t_, watermark_before);
  for (auto known = commits_.upper_bound(watermark); known != commits_.end(); ++known) {
    if (!own.contains(known->first)) back_t_ = std::max(back_t_, known->first);
  }
  if (joining) commits_.clear();
  commits_.insert(own.begin(), own.end());
}

void OwnHistory::OnWelcome(GlobalT closed_t, bool is_other) {
  if (is_other) back_t_ = std::min(back_t_, closed_t);
  if (is_other && earlier_t_) earlier_t_ = std::min(*earlier_t_, closed_t);
  if (unsure_) back_t_ = std::max(back_t_, closed_t);
  unsure_ = false;
  if (!earlier_t_) earlier_t_ = closed_t;
}

}  // namespace psp::sp
