// What shows that a request or an answer comes from one who knows the token of the database (psp.identity).
// The token itself is never sent: a role that may call dblink can put a server of its own in the daemon's
// place. Pure.
#pragma once

#include <string>
#include <string_view>

namespace psp {

// The 32 bytes of SHA-256 (FIPS 180-4).
std::string Sha256(std::string_view bytes);

// Sha256(token + Sha256(message)) as 64 hexadecimal digits: who has the proof of one message cannot make that
// of a longer one. The same as psp.proof (sql/native/install/hook.sql.j2).
std::string Proof(std::string_view token, std::string_view message);

// Takes as long for a wrong value as for the right one.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace psp
