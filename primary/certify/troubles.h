// Errors of batches that are tried again, until they are decided. Executors write, the main thread reads.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "common/pg_errors.h"

namespace psp::primary {

// Thread-safe.
class Troubles {
 public:
  void Set(std::uint64_t executor, PgError error) {
    const std::lock_guard lock(mutex_);
    errors_.insert_or_assign(executor, std::move(error));
  }
  void Clear(std::uint64_t executor) {
    const std::lock_guard lock(mutex_);
    errors_.erase(executor);
  }
  // One of them.
  std::optional<PgError> Any() const {
    const std::lock_guard lock(mutex_);
    return errors_.empty() ? std::nullopt : std::optional(errors_.begin()->second);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, PgError> errors_;
};

}  // namespace psp::primary
