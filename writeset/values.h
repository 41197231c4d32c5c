// Whether every server's PostgreSQL takes a value in binary form, as far as a short look tells. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "writeset/table_form.h"

namespace psp {

// As PostgreSQL has it: without zeros, surrogates and needlessly long forms.
bool IsUtf8(std::string_view text);

// False only of values that PostgreSQL's receive function refuses, or makes other ones of: no value that a PostgreSQL sends is
// refused (primary/testing/values_integration_test.cc). `column.type` and `modifier` are those of the field. Known are types that
// travel in binary form (sql/facts/type_facts.sql). Not asked: the syntax of json, the bounds of ranges, and all of other
// types. What travels as text need only be UTF-8: nothing here knows an enum's labels, or what a domain permits.
bool IsValue(const ColumnForm& column, std::string_view value);

// Whether a key's value is the one that all values equal to it have (FORMAT.md, "Key").
bool IsNormalised(const KeyForm& key, std::string_view value);

// Whether the key's value is that of its column in an image. True where the bytes do not tell.
bool IsKeyOf(const KeyForm& key, std::string_view key_value, std::uint32_t image_type,
             std::string_view image_value);

}  // namespace psp
