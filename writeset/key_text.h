// The values of a key as text that PostgreSQL reads back as the same values, under any of its settings. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace psp {

// `key`: record_send of the key's columns. One text for each column; nothing for a type that is not in
// LOOK_TYPES (schema_tool/psp/schema/keys.py). An empty vector: the key is malformed.
std::vector<std::optional<std::string>> KeyTexts(std::string_view key);

}  // namespace psp
