#include "semi_primary/hook_server/tls_certificate.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "common/secret_file.h"

namespace psp::sp {
namespace {

// libpq may wait for ever for bytes that OpenSSL has decrypted for it already: its asynchronous functions make room for
// 8 KiB before they read, and what is left of a larger record makes no socket ready. (libpq mended it in 2026.)
constexpr int kRecordBytesMax = 8192;
constexpr std::time_t kWarnBeforeEndS = 7 * 86400;

// What OpenSSL says of its last failure.
std::string Reason() {
  const unsigned long code = ERR_peek_error();
  const char* reason =
      ERR_SYSTEM_ERROR(code) ? std::strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
  std::string text = reason == nullptr ? "unknown error " + std::to_string(code) : reason;
  ERR_clear_error();
  return text;
}

// A daemon has no terminal to ask for a passphrase.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return 0; }

void Configure(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // No tickets: the backend takes a byte on an idle connection for its end.
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_send_fragment(context, kRecordBytesMax);
  SSL_CTX_set_default_passwd_cb(context, NoPassphrase);
}

std::string TimeText(const ASN1_TIME* time) {
  std::tm parts{};
  char text[32];
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown time";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

}  // namespace

void SslDeleter::operator()(SSL* session) const { SSL_free(session); }
void TlsCertificate::ContextDeleter::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

TlsCertificate::TlsCertificate(TlsFiles files)
    : files_(std::move(files)), stamp_(StampOf(files_)), context_(SSL_CTX_new(TLS_server_method())) {
  if (context_ == nullptr) throw std::bad_alloc();
  Configure(context_.get());
}

Result<TlsCertificate, TlsCertificate::Problem> TlsCertificate::Load(const TlsFiles& files) {
  if (::access(files.certificate.c_str(), R_OK) != 0)
    return Problem{false, "'" + files.certificate + "': " + std::strerror(errno)};
  TlsCertificate loaded(files);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(loaded.context_.get(), files.certificate.c_str()) != 1)
    return Problem{false, "'" + files.certificate + "' cannot be read as a PEM certificate: " + Reason()};
  if (std::string objection = ObjectionToSecretFile(files.key); !objection.empty())
    return Problem{true, std::move(objection)};
  // The first compares a key only with a certificate of the key's type (RSA, EC); the second sees that there is none.
  if (SSL_CTX_use_PrivateKey_file(loaded.context_.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(loaded.context_.get()) != 1)
    return Problem{true, "'" + files.key + "' is not the key of '" + files.certificate +
                             "', or cannot be read without a passphrase: " + Reason()};
  return loaded;
}

std::string TlsCertificate::Renew() {
  Stamp found = StampOf(files_);
  if (found == stamp_) return {};
  auto loaded = Load(files_);
  if (!loaded) {
    // Both files may be on their way, or the process be out of descriptors for a moment: they are read again.
    const bool is_known = objection_ == loaded.error().what;
    objection_ = loaded.error().what;
    return is_known ? "" : objection_;
  }
  stamp_ = std::move(found);
  context_ = std::move(loaded->context_);
  objection_.clear();
  return {};
}

TlsCertificate::Stamp TlsCertificate::StampOf(const TlsFiles& files) {
  Stamp stamp;
  for (const std::string& path : {files.certificate, files.key}) {
    struct stat file = {};
    if (stat(path.c_str(), &file) != 0) {
      stamp.push_back(-1);
    } else {
      // A change of the content, the owner, the rights or the name sets this time.
      stamp.insert(stamp.end(), {static_cast<std::int64_t>(file.st_ino), file.st_size, file.st_ctim.tv_sec,
                                 file.st_ctim.tv_nsec});
    }
  }
  return stamp;
}

SslPtr TlsCertificate::NewSession() const {
  SslPtr session(SSL_new(context_.get()));
  if (session == nullptr) throw std::bad_alloc();
  SSL_set_accept_state(session.get());
  return session;
}

std::vector<std::string> TlsCertificate::Warnings(const std::string& host, std::time_t now) const {
  X509* const certificate = SSL_CTX_get0_certificate(context_.get());
  std::vector<std::string> warnings;
  const std::string name = "the certificate in '" + files_.certificate + "' ";
  const ASN1_TIME* const end = X509_get0_notAfter(certificate);
  std::time_t soon = now + kWarnBeforeEndS;
  if (X509_cmp_time(end, &now) < 0) {
    warnings.push_back(name + "has expired at " + TimeText(end));
  } else if (X509_cmp_time(end, &soon) < 0) {
    warnings.push_back(name + "expires at " + TimeText(end));
  }
  if (const ASN1_TIME* begin = X509_get0_notBefore(certificate); X509_cmp_time(begin, &now) > 0)
    warnings.push_back(name + "is not valid before " + TimeText(begin));
  if (X509_check_host(certificate, host.data(), host.size(), 0, nullptr) != 1 &&
      X509_check_ip_asc(certificate, host.c_str(), 0) != 1)
    warnings.push_back(name + "does not name " + host + ", where the database's server looks for the daemon");
  ERR_clear_error();
  return warnings;
}

}  // namespace psp::sp
