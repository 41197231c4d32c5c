// Carries packets between the devices of the places. One thread: that of the io_context.
#pragma once

#include <asio.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/wan/site.h"
#include "benchmarks/wan/star.h"

namespace psp::wan {

class Carrier {
 public:
  // Makes the devices. Throws std::system_error.
  Carrier(asio::io_context& io, const std::vector<Site>& sites);

  // Does what a line says, `cut NAME` or `heal NAME`; returns the answer.
  std::string OnCommand(std::string_view line);

 private:
  void Read(size_t site);
  void ReadAll(size_t site);
  void DeliverDue();
  void WaitForNext();

  Star star_;
  std::vector<asio::posix::stream_descriptor> devices_;
  asio::steady_timer timer_;
  std::vector<char> buffer_;
};

}  // namespace psp::wan
