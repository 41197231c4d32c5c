// Certificates for tests, made in a moment.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

namespace psp::sp {

// An authority, and what it signs, as PEM files in a folder.
class TestAuthority {
 public:
  explicit TestAuthority(std::string folder);

  // The root certificate's file.
  std::string root() const { return folder_ + "/root.crt"; }

  // Writes NAME.crt and NAME.key for a host name, with the address 127.0.0.1 if `of_loopback`. It ends `seconds` from
  // now.
  void Sign(const std::string& name, const std::string& host, bool of_loopback = false,
            long seconds = 30 * 86400);

  // Writes NAME.key, of another type than those of Sign.
  void MakeRsaKey(const std::string& name);

 private:
  struct Deleter {
    void operator()(X509* certificate) const;
    void operator()(EVP_PKEY* key) const;
  };
  using Key = std::unique_ptr<EVP_PKEY, Deleter>;
  using Certificate = std::unique_ptr<X509, Deleter>;

  static Key MakeKey();
  Certificate Make(const std::string& common_name, EVP_PKEY* key, const std::string& names,
                   long seconds) const;
  void Write(const std::string& name, X509* certificate, EVP_PKEY* key) const;
  void WriteKey(const std::string& name, EVP_PKEY* key) const;

  std::string folder_;
  Key key_;
  Certificate root_;
};

}  // namespace psp::sp
