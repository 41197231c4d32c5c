#include "semi_primary/apply/own_commits.h"

#include <unordered_set>

namespace psp::sp {

OwnCommits::OwnCommits(std::vector<ApplyTransaction> transactions, bool views_mode)
    : views_mode_(views_mode), transactions_(std::move(transactions)) {
  for (const ApplyTransaction& transaction : transactions_) {
    if (transaction.own) own_.push_back(transaction.global_t);
  }
  if (own_.empty()) stage_ = Stage::kKnown;
}

std::optional<ApplyRequest> OwnCommits::Next() const {
  if (stage_ == Stage::kKnown) return std::nullopt;
  if (stage_ != Stage::kUnproven || next_ == unproven_.size()) return FindMissingProofs{own_};
  const ApplyTransaction& transaction = unproven_[next_];
  if (views_mode_) return ApplyTemporaryRows{transaction.tx_id, transaction.global_t};
  return WaitForBackend{transaction.tx_id};
}

std::vector<ApplyTransaction> OwnCommits::WithoutOwnRows() const {
  std::vector<ApplyTransaction> result = transactions_;
  for (ApplyTransaction& transaction : result) {
    if (transaction.own) transaction.write_set.reset();
  }
  return result;
}

void OwnCommits::OnMissingProofs(const std::vector<GlobalT>& missing) {
  if (stage_ != Stage::kFirstLook || missing.empty()) return Conclude(missing);
  const std::unordered_set<GlobalT> unproven(missing.begin(), missing.end());
  for (const ApplyTransaction& transaction : transactions_) {
    if (transaction.own && unproven.contains(transaction.global_t)) unproven_.push_back(transaction);
  }
  stage_ = Stage::kUnproven;
}

void OwnCommits::OnBackend(bool has_ended) {
  if (has_ended) ++next_;
}

void OwnCommits::Conclude(const std::vector<GlobalT>& missing) {
  stage_ = Stage::kKnown;
  const std::unordered_set<GlobalT> dead(missing.begin(), missing.end());
  for (ApplyTransaction& transaction : transactions_) {
    if (!transaction.own) continue;
    const std::string name = "own transaction " + transaction.tx_id.ToText();
    if (!dead.contains(transaction.global_t)) {
      transaction.write_set.reset();
    } else if (transaction.write_set == nullptr) {
      lacks_rows_ = name + " must be applied here and its rows are not known: asking for them";
    } else {
      notes_.push_back({.text = name + " (global_t " + std::to_string(transaction.global_t) +
                                ") was committed and its session has gone: applying it",
                        .event = "own_commit_applied",
                        .fields = {LogField::Text("tx", transaction.tx_id.ToText()),
                                   LogField::Number("global_t", transaction.global_t)}});
    }
  }
}

}  // namespace psp::sp
