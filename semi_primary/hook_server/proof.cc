#include "semi_primary/hook_server/proof.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "common/hex.h"

namespace psp::sp {

std::string Sha256(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

Proofs ProofsOf(std::string_view token, std::string_view message) {
  const std::string digits = EncodeHex(Sha256(std::string(token).append(message)));
  const std::size_t half = digits.size() / 2;
  return {digits.substr(0, half), digits.substr(half)};
}

std::string Proof(std::string_view token, std::string_view message) {
  return ProofsOf(token, message).request;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace psp::sp
