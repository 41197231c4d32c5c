#include "common/conninfo.h"

#include <libpq-fe.h>

#include <memory>
#include <string_view>

namespace psp {
namespace {

// Puts a backslash before each of `special`.
std::string Escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

}  // namespace

std::string WithSettings(const std::string& conninfo,
                         const std::vector<std::pair<std::string, std::string>>& settings) {
  if (settings.empty()) return conninfo;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(
      PQconninfoParse(conninfo.c_str(), nullptr), &PQconninfoFree);
  if (parsed == nullptr) return conninfo;
  std::string out;
  std::string options;
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    if (std::string_view(option->keyword) == "options") {
      options = option->val;
    } else {
      out += std::string(option->keyword) + "='" + Escaped(option->val, "'\\") + "' ";
    }
  }
  for (const auto& [name, value] : settings) options += " -c " + name + "=" + Escaped(value, " \\");
  return out + "options='" + Escaped(options, "'\\") + "'";
}

}  // namespace psp
