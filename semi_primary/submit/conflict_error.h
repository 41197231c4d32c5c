// What an application reads when its transaction has lost a key to another one, and psp.status of keys that are reserved for those that
// have. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/conflict.h"
#include "common/user_error.h"
#include "writeset/describe_key.h"

namespace psp::sp {

// 40001 with PostgreSQL's own message. DETAIL tells the key, how the transaction has used it, and the winner. Without
// a winner's name the primary has forgotten who that was, and perhaps nobody.
UserError ConflictError(const KeyNames& names, const Conflict& conflict, std::string_view winner_name);

// The key, how many are reserved with it, since when, and how many requests of others wait.
std::string ReservationText(const KeyNames& names, const proto::Reservation& reservation);

}  // namespace psp::sp
