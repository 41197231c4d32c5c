// Which transactions of a batch are applied together: all that stand between schema changes, which are applied
// alone. If that fails because of their content, one after the other, each with DELETE and INSERT if it fails
// with ON CONFLICT. Pure.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace psp::sp {

class BatchParts {
 public:
  // For each transaction, whether it is a schema change.
  explicit BatchParts(std::vector<bool> schema_changes)
      : schema_changes_(std::move(schema_changes)), end_(LargestEnd()) {}

  // The part to apply now: [begin, end).
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return end_; }
  bool is_schema_change() const { return begin_ < end_ && schema_changes_[begin_]; }
  bool is_last() const { return end_ == schema_changes_.size(); }
  bool replace_all() const { return replace_all_; }

  // The part has failed. False: nothing is left to try.
  bool TrySmaller() {
    if (end_ - begin_ > 1) {
      end_ = begin_ + 1;
      one_by_one_ = true;
      return true;
    }
    return !replace_all_ && (replace_all_ = true);
  }

  // The part is applied. False: it was the last one.
  bool NextPart() {
    if (is_last()) return false;
    begin_ = end_;
    end_ = one_by_one_ ? begin_ + 1 : LargestEnd();
    replace_all_ = false;
    return true;
  }

 private:
  std::size_t LargestEnd() const {
    if (begin_ == schema_changes_.size()) return begin_;
    std::size_t end = begin_ + 1;
    while (!schema_changes_[begin_] && end < schema_changes_.size() && !schema_changes_[end]) ++end;
    return end;
  }

  const std::vector<bool> schema_changes_;
  std::size_t begin_ = 0;
  std::size_t end_;
  bool one_by_one_ = false;  // the rest of the batch, too
  bool replace_all_ = false;
};

}  // namespace psp::sp
