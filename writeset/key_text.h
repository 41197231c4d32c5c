// The values of a key as text that PostgreSQL reads back as the same values, under any of its settings. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace psp {

// `key`: record_send of the key's columns. One text for each column; nothing for a type by whose text no row is
// found (has_text in sql/facts/index_column_facts.sql). An empty vector: the key is malformed.
std::vector<std::optional<std::string>> KeyTexts(std::string_view key);

}  // namespace psp
