// What the hook's server proves itself with in TLS: a certificate and its private key, as PEM files.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"

namespace psp::sp {

struct TlsFiles {
  std::string certificate;  // the server's, then those of the authorities between it and the root
  std::string key;
};

struct SslDeleter {
  void operator()(SSL* session) const;
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;

// One owner. Sessions may outlive it.
class TlsCertificate {
 public:
  struct Problem {
    bool of_key = false;
    std::string what;
  };

  // Reads both files. The problem names the file.
  static Result<TlsCertificate, Problem> Load(const TlsFiles& files);

  // Reads the files again if they are other ones than those in use. Returns what is wrong with them, once; then the old
  // certificate stays.
  std::string Renew();

  // The server's end of a new connection, without a socket.
  SslPtr NewSession() const;

  // Why clients that look for `host` will not accept it now, or soon.
  std::vector<std::string> Warnings(const std::string& host, std::time_t now) const;

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const;
  };
  // A file's identity: its number, size, and the time it was changed.
  using Stamp = std::vector<std::int64_t>;

  explicit TlsCertificate(TlsFiles files);
  static Stamp StampOf(const TlsFiles& files);

  TlsFiles files_;
  Stamp stamp_;  // of what is in use
  std::string objection_;
  std::unique_ptr<SSL_CTX, ContextDeleter> context_;
};

}  // namespace psp::sp
