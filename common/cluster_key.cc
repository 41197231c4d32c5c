#include "common/cluster_key.h"

#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "common/pg_binary.h"
#include "common/secret_file.h"

namespace psp {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kTextBytes = 41;  // Z85, with its null
using Text = std::array<char, kTextBytes>;

}  // namespace

std::string LoadClusterKey(const std::string& path, std::optional<ClusterKey>* key) {
  key->reset();
  if (path.empty()) return {};
  if (std::string objection = ObjectionToSecretFile(path); !objection.empty()) return objection;
  std::ifstream file(path);
  std::string digits;
  std::string more;
  if (!file) return "'" + path + "': " + std::strerror(errno);
  file >> digits;
  const auto bytes = DecodeByteaText("\\x" + digits);
  if (!bytes || bytes->size() != kKeyBytes || file >> more)
    return "'" + path + "' must hold 64 hexadecimal digits and no more; psp primary key makes such a file";
  Text secret{};
  Text public_key{};
  zmq_z85_encode(secret.data(), reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size());
  if (zmq_curve_public(public_key.data(), secret.data()) != 0) return "this libzmq has no CURVE";
  *key = ClusterKey{secret.data(), public_key.data()};
  return {};
}

}  // namespace psp
