// Which transactions of a batch are applied together. All at first; if that fails because of their content, one
// after the other, each with DELETE and INSERT if it fails with ON CONFLICT. Pure.
#pragma once

#include <cstddef>

namespace psp::sp {

class BatchParts {
 public:
  explicit BatchParts(std::size_t transactions) : size_(transactions), end_(transactions) {}

  // The part to apply now: [begin, end).
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return end_; }
  bool is_last() const { return end_ == size_; }
  bool replace_all() const { return replace_all_; }

  // The part has failed. False: nothing is left to try.
  bool TrySmaller() {
    if (end_ - begin_ > 1) {
      end_ = begin_ + 1;
      return true;
    }
    return !replace_all_ && (replace_all_ = true);
  }

  // The part is applied. False: it was the last one.
  bool NextPart() {
    if (is_last()) return false;
    begin_ = end_++;
    replace_all_ = false;
    return true;
  }

 private:
  const std::size_t size_;
  std::size_t begin_ = 0;
  std::size_t end_;
  bool replace_all_ = false;
};

}  // namespace psp::sp
