// Requests that wait for a report of the housekeeper, in order of arrival. A report answers all that were
// asked with its number or a lower one. Pure; one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace psp::primary {

template <class T>
class AwaitsReport {
 public:
  void Add(std::uint64_t report_number, T item) { items_.push_back({report_number, std::move(item)}); }

  // Those that the report answers.
  std::vector<T> TakeAnswered(std::uint64_t report_number) {
    std::vector<T> answered;
    for (Waiting& waiting : std::exchange(items_, {})) {
      if (waiting.report_number <= report_number) {
        answered.push_back(std::move(waiting.item));
      } else {
        items_.push_back(std::move(waiting));
      }
    }
    return answered;
  }

  std::size_t size() const { return items_.size(); }

 private:
  struct Waiting {
    std::uint64_t report_number = 0;
    T item;
  };
  std::vector<Waiting> items_;
};

}  // namespace psp::primary
