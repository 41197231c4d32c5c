#include "semi_primary/primary_sockets.h"

#include <algorithm>
#include <set>

namespace psp::sp {

std::vector<std::string> SplitEndpoints(std::string_view text) {
  std::vector<std::string> endpoints;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view one = text.substr(begin, end - begin);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    endpoints.emplace_back(one);
    begin = end + 1;
  }
  return endpoints;
}

std::string CheckEndpoints(std::string_view text) {
  std::set<std::string> seen;
  for (const std::string& endpoint : SplitEndpoints(text)) {
    if (std::string problem = CheckEndpoint(endpoint); !problem.empty()) return problem;
    if (!seen.insert(endpoint).second) return endpoint + " is there twice";
  }
  return {};
}

PrimarySockets::PrimarySockets(zmq::context_t& context, const std::vector<std::string>& endpoints,
                               const SocketOptions& options) {
  for (const std::string& endpoint : endpoints) sockets_.emplace_back(context, endpoint, options);
}

bool PrimarySockets::Receive(proto::ToSemiPrimary* message, std::size_t* address) {
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    *address = (used_ + i) % sockets_.size();
    if (sockets_[*address].Receive(message)) return true;
  }
  return false;
}

void PrimarySockets::Use(std::size_t address) {
  if (address != used_) Reconnect();
  used_ = address;
}

void PrimarySockets::SendToAll(const proto::ToPrimary& message) {
  for (DealerSocket& socket : sockets_) socket.Send(message);
}

std::uint64_t PrimarySockets::malformed_total() const {
  std::uint64_t total = 0;
  for (const DealerSocket& socket : sockets_) total += socket.malformed_total();
  return total;
}

}  // namespace psp::sp
