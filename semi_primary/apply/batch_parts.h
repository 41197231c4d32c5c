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
  // For each transaction, whether it is to be applied alone.
  explicit BatchParts(std::vector<bool> alone) : alone_(std::move(alone)), end_(LargestEnd()) {}

  // The part to apply now: [begin, end).
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return end_; }
  bool is_last() const { return end_ == alone_.size(); }
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
    if (begin_ == alone_.size()) return begin_;
    std::size_t end = begin_ + 1;
    while (!alone_[begin_] && end < alone_.size() && !alone_[end]) ++end;
    return end;
  }

  const std::vector<bool> alone_;
  std::size_t begin_ = 0;
  std::size_t end_;
  bool one_by_one_ = false;  // the rest of the batch, too
  bool replace_all_ = false;
};

}  // namespace psp::sp
