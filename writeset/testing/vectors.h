// The golden vectors of write-sets (writeset/vectors.json), for tests.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "common/hex.h"

namespace psp::vectors {

inline const YAML::Node& Vectors() {
  static const YAML::Node vectors = YAML::LoadFile(PSP_VECTORS_FILE);  // JSON is YAML
  return vectors;
}

inline std::string Text(const YAML::Node& node) { return node.as<std::string>(); }

inline std::string Bytes(const YAML::Node& hex) { return DecodeHex(Text(hex)).value(); }

}  // namespace psp::vectors
