#include "common/wake_up.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace psp {
namespace {

int MakeEventFd() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::system_category(), "eventfd");
  return fd;
}

}  // namespace

WakeUp::WakeUp() : fd_(MakeEventFd()) {}

WakeUp::~WakeUp() { close(fd_); }

void WakeUp::Notify() const {
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full, so the loop is awake anyway.
  if (write(fd_, &one, sizeof one) < 0 && errno != EAGAIN && errno != EINTR) {
    throw std::system_error(errno, std::system_category(), "eventfd write");
  }
}

void WakeUp::Drain() const {
  std::uint64_t count = 0;
  if (read(fd_, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR) {
    throw std::system_error(errno, std::system_category(), "eventfd read");
  }
}

}  // namespace psp
