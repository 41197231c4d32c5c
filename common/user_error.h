// An error as an application sees it: the fields of PostgreSQL's ErrorResponse.
#pragma once

#include <string>

namespace psp {

struct UserError {
  std::string sqlstate;  // five characters
  std::string message;
  std::string detail{};  // empty: none
  std::string hint{};    // empty: none

  friend bool operator==(const UserError&, const UserError&) = default;
};

}  // namespace psp
