// Hexadecimal text to bytes and back, fast enough for write-sets of hundreds of megabytes. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace psp {

// Nothing unless `hex` is an even number of hexadecimal digits.
std::optional<std::string> DecodeHex(std::string_view hex);

// In small letters.
std::string EncodeHex(std::string_view bytes);

}  // namespace psp
