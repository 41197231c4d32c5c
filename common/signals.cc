#include "common/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace psp {
namespace {

int MakeSignalFd() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  const int problem = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (problem != 0) throw std::system_error(problem, std::system_category(), "pthread_sigmask");
  if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR)
    throw std::system_error(errno, std::system_category(), "signal");
  const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::system_category(), "signalfd");
  return fd;
}

}  // namespace

StopSignals::StopSignals() : fd_(MakeSignalFd()) {}

StopSignals::~StopSignals() { close(fd_); }

bool StopSignals::TakeSignal() const {
  signalfd_siginfo info;
  return read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

}  // namespace psp
