#include "semi_primary/hook_server/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <stdexcept>

#include "common/hex.h"

namespace psp::sp {
namespace {

// OpenSSL's SHA256() looks for the algorithm each time, which takes longer than a short message.
const EVP_MD* Algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

}  // namespace

std::string Sha256(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
                 Algorithm(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL does not make a SHA-256");
  }
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
