// For tests of what happens without descriptors.
#pragma once

#include <sys/resource.h>

namespace psp::sp {

// While it lives, no descriptor of this number or a larger one is given out.
class DescriptorsLimit {
 public:
  explicit DescriptorsLimit(rlim_t numbers) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lowered = {numbers, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~DescriptorsLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorsLimit(const DescriptorsLimit&) = delete;
  DescriptorsLimit& operator=(const DescriptorsLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace psp::sp
