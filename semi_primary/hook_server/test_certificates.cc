#include "semi_primary/hook_server/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace psp::sp {
namespace {

void Require(bool done) {
  if (!done) throw std::runtime_error("OpenSSL makes no certificate for the test");
}

void AddExtension(X509* certificate, X509* issuer, int name, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, name, value.c_str()), &X509_EXTENSION_free);
  Require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

std::unique_ptr<std::FILE, decltype(&std::fclose)> Create(const std::string& path) {
  std::remove(path.c_str());
  std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  Require(file != nullptr && ::chmod(path.c_str(), 0600) == 0);
  return file;
}

}  // namespace

void TestAuthority::Deleter::operator()(X509* certificate) const { X509_free(certificate); }
void TestAuthority::Deleter::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

TestAuthority::TestAuthority(std::string folder) : folder_(std::move(folder)), key_(MakeKey()) {
  root_ = Make("root of " + folder_, key_.get(), "", 30 * 86400);
  Write("root", root_.get(), key_.get());
}

TestAuthority::Key TestAuthority::MakeKey() {
  Key key(EVP_EC_gen("P-256"));
  Require(key != nullptr);
  return key;
}

TestAuthority::Certificate TestAuthority::Make(const std::string& common_name, EVP_PKEY* key,
                                               const std::string& names, long seconds) const {
  Certificate made(X509_new());
  Require(made != nullptr);
  X509* const issuer = root_ ? root_.get() : made.get();
  std::uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), 7);
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), seconds < 0 ? 2 * seconds : 0);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), seconds);
  X509_set_pubkey(made.get(), key);
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8, text, -1, -1, 0);
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer));
  AddExtension(made.get(), issuer, NID_basic_constraints, root_ ? "CA:FALSE" : "critical,CA:TRUE");
  if (!names.empty()) AddExtension(made.get(), issuer, NID_subject_alt_name, names);
  Require(X509_sign(made.get(), key_.get(), EVP_sha256()) != 0);
  return made;
}

void TestAuthority::Sign(const std::string& name, const std::string& host, bool of_loopback, long seconds) {
  const Key key = MakeKey();
  const Certificate made =
      Make(host, key.get(), "DNS:" + host + (of_loopback ? ",IP:127.0.0.1" : ""), seconds);
  Write(name, made.get(), key.get());
}

void TestAuthority::Write(const std::string& name, X509* certificate, EVP_PKEY* key) const {
  Require(PEM_write_X509(Create(folder_ + "/" + name + ".crt").get(), certificate) == 1);
  WriteKey(name, key);
}

void TestAuthority::MakeRsaKey(const std::string& name) {
  const Key key(EVP_RSA_gen(2048));
  Require(key != nullptr);
  WriteKey(name, key.get());
}

void TestAuthority::WriteKey(const std::string& name, EVP_PKEY* key) const {
  Require(PEM_write_PrivateKey(Create(folder_ + "/" + name + ".key").get(), key, nullptr, nullptr, 0, nullptr,
                               nullptr) == 1);
}

}  // namespace psp::sp
