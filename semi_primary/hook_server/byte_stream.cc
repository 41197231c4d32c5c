#include "semi_primary/hook_server/byte_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace psp::sp {
namespace {

// A memory BIO keeps as much memory as it ever needed. So it gets no more at once.
constexpr std::size_t kPieceBytes = 16384;

}  // namespace

void ByteStream::BeginTls(SslPtr session) {
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(session.get(), in, out);  // which owns them, both or one
  if (in == nullptr || out == nullptr) throw std::bad_alloc();
  tls_ = std::move(session);
}

std::string_view ByteStream::Receive(std::string_view bytes, std::string* room) {
  if (tls_ == nullptr) return bytes;
  room->clear();
  while (!bytes.empty() && !ended_) {
    const std::size_t piece = std::min(bytes.size(), kPieceBytes);
    if (BIO_write(SSL_get_rbio(tls_.get()), bytes.data(), static_cast<int>(piece)) != static_cast<int>(piece))
      throw std::bad_alloc();
    bytes.remove_prefix(piece);
    Decrypt(room);
  }
  TakeEncrypted();
  return *room;
}

void ByteStream::Decrypt(std::string* room) {
  ERR_clear_error();
  for (;;) {
    const std::size_t before = room->size();
    room->resize(before + kPieceBytes);
    const int bytes = SSL_read(tls_.get(), room->data() + before, static_cast<int>(kPieceBytes));
    room->resize(before + static_cast<std::size_t>(std::max(bytes, 0)));
    if (bytes <= 0) return OnFailure(bytes);
  }
}

void ByteStream::OnFailure(int result) {
  const int error = SSL_get_error(tls_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return;
  ended_ = true;
  if (error == SSL_ERROR_ZERO_RETURN) return;
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  problem_ = reason == nullptr ? "unknown error" : reason;
  ERR_clear_error();
}

void ByteStream::Write(std::string_view bytes) {
  if (tls_ == nullptr) {
    output_ += bytes;
    return;
  }
  if (ended_ || SSL_is_init_finished(tls_.get()) == 0) return;
  while (!bytes.empty()) {
    const std::size_t piece = std::min(bytes.size(), kPieceBytes);
    ERR_clear_error();
    const int written = SSL_write(tls_.get(), bytes.data(), static_cast<int>(piece));
    if (written <= 0) return OnFailure(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
    TakeEncrypted();
  }
}

void ByteStream::SayGoodbye() {
  if (tls_ == nullptr || !problem_.empty() || SSL_is_init_finished(tls_.get()) == 0) return;
  SSL_shutdown(tls_.get());
  ERR_clear_error();
  TakeEncrypted();
}

void ByteStream::TakeEncrypted() {
  BIO* const out = SSL_get_wbio(tls_.get());
  const std::size_t before = output_.size();
  const std::size_t bytes = BIO_ctrl_pending(out);
  if (bytes == 0) return;
  output_.resize(before + bytes);
  BIO_read(out, output_.data() + before, static_cast<int>(bytes));
}

std::string ByteStream::TakeOutput() { return std::exchange(output_, {}); }

}  // namespace psp::sp
