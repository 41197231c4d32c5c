// Proves that the sender of a request or an answer knows the token of the database (psp.identity). The token
// itself is never sent: a role that may call dblink can put its own server in the daemon's place. Pure.
#pragma once

#include <string>
#include <string_view>

namespace psp::sp {

// The 32 bytes of SHA-256 (FIPS 180-4).
std::string Sha256(std::string_view bytes);

// The halves of Sha256(token + message), 32 hexadecimal digits each. One half does not help to find the
// other, nor to make the proof of a longer message. The same as psp.proofs
// (sql/native/install/hook_daemon.sql.j2).
struct Proofs {
  std::string request;
  std::string answer;
};

Proofs ProofsOf(std::string_view token, std::string_view message);

// The proof of a request, or of a message of the daemon's own.
std::string Proof(std::string_view token, std::string_view message);

// Takes as long for a wrong value as for the right one.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace psp::sp
