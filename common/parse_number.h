// Numbers in text that must be nothing but the number. Pure.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace psp {

// Nothing unless all of `text` is one decimal number that is not negative and fits.
template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Nothing unless it is a comma list of one or more numbers.
template <class T>
std::optional<std::vector<T>> ParseNumbers(std::string_view text) {
  std::vector<T> numbers;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto value = ParseNumber<T>(text.substr(0, comma));
    if (!value) return std::nullopt;
    numbers.push_back(*value);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace psp
