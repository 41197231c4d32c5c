// The secret that the primary and all semi-primaries of a cluster share. With it their connections are
// encrypted, and each end knows that the other one has it.
//
// ZeroMQ's CURVE (https://rfc.zeromq.org/spec/26/), with one pair of keys for both ends: the file holds the
// secret one. A server's public key never crosses the network in the clear, and no handshake begins without
// it. So a peer that connects has derived it from the secret. Each connection has its own session keys.
#pragma once

#include <optional>
#include <string>

namespace psp {

struct ClusterKey {  // in ZeroMQ's Z85 notation
  std::string secret;
  std::string public_key;
};

// Reads the file of the setting key_file: 64 hexadecimal digits, readable by its owner only (a file of root's
// by its group, too). Sets `*key`, to nothing when `path` is empty. Returns what is wrong with the file, or
// "".
std::string LoadClusterKey(const std::string& path, std::optional<ClusterKey>* key);

}  // namespace psp
