#include "common/poll_set.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

namespace psp {
namespace {

constexpr std::size_t kReadyAtOnce = 64;  // then the loop's other work has its turn

FileDescriptor MakeSet() {
  FileDescriptor made(epoll_create1(EPOLL_CLOEXEC));
  if (!made.is_open()) throw std::system_error(errno, std::system_category(), "epoll_create1");
  return made;
}

std::uint32_t EventsOf(PollSet::For what) {
  switch (what) {
    case PollSet::For::kRead:
      return EPOLLIN;
    case PollSet::For::kWrite:
      return EPOLLOUT;
    case PollSet::For::kReadOrWrite:
      return EPOLLIN | EPOLLOUT;
    case PollSet::For::kNothing:
      break;
  }
  return 0;
}

}  // namespace

PollSet::PollSet() : set_(MakeSet()) {}

void PollSet::Add(int fd, std::uint64_t name, For what) { Control(EPOLL_CTL_ADD, fd, name, what); }
void PollSet::Change(int fd, std::uint64_t name, For what) { Control(EPOLL_CTL_MOD, fd, name, what); }

void PollSet::Remove(int fd) {
  epoll_event ignored{};
  epoll_ctl(set_.get(), EPOLL_CTL_DEL, fd, &ignored);
}

void PollSet::Control(int operation, int fd, std::uint64_t name, For what) {
  epoll_event wanted{};
  wanted.events = EventsOf(what);
  wanted.data.u64 = name;
  if (epoll_ctl(set_.get(), operation, fd, &wanted) != 0) {
    throw std::system_error(errno, std::system_category(), "epoll_ctl");
  }
}

std::vector<std::uint64_t> PollSet::TakeReady() const {
  std::array<epoll_event, kReadyAtOnce> ready{};
  const int found = epoll_wait(set_.get(), ready.data(), ready.size(), 0);
  if (found < 0 && errno != EINTR) throw std::system_error(errno, std::system_category(), "epoll_wait");
  std::vector<std::uint64_t> names;
  for (const epoll_event& one : std::span(ready).first(found > 0 ? static_cast<std::size_t>(found) : 0)) {
    names.push_back(one.data.u64);
  }
  return names;
}

}  // namespace psp
