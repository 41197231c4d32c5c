// Many descriptors behind one, which a poll loop waits for (epoll).
#pragma once

#include <cstdint>
#include <vector>

#include "common/file_descriptor.h"

namespace psp {

// One owner. Throws std::system_error when the kernel has no room for another descriptor.
class PollSet {
 public:
  enum class For { kRead, kWrite, kReadOrWrite, kNothing };

  PollSet();

  // `name` tells which of them is ready.
  void Add(int fd, std::uint64_t name, For what);
  void Change(int fd, std::uint64_t name, For what);
  // Closing a descriptor removes it, too; then this does nothing.
  void Remove(int fd);

  // Readable while TakeReady has something.
  int fd() const { return set_.get(); }
  // The names of those that are ready, some of them if there are many; does not wait.
  std::vector<std::uint64_t> TakeReady() const;

 private:
  void Control(int operation, int fd, std::uint64_t name, For what);

  const FileDescriptor set_;
};

}  // namespace psp
