// The bytes of PostgreSQL's frontend/backend protocol 3.0, as far as the commit hook needs them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/user_error.h"

namespace psp::sp::wire {

inline constexpr std::uint32_t kProtocol3 = 3 << 16;
inline constexpr std::uint32_t kSslRequest = 80877103;
inline constexpr std::uint32_t kGssEncRequest = 80877104;
inline constexpr std::uint32_t kCancelRequest = 80877102;
inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kHeaderBytes = 1 + kLengthBytes;

// Big-endian; `bytes` must have four.
std::uint32_t LoadUint32(std::string_view bytes);

// Each appends one whole message to `out`.
void AppendAskPassword(std::string* out);
void AppendAuthenticationOk(std::string* out);
void AppendParameterStatus(std::string* out, std::string_view name, std::string_view value);
void AppendReadyForQuery(std::string* out);
void AppendCommandComplete(std::string* out, std::string_view tag);
void AppendEmptyQueryResponse(std::string* out);
// `severity` is ERROR (the connection goes on) or FATAL (it ends).
void AppendError(std::string* out, std::string_view severity, const UserError& error);
// A result of one row with one text column: RowDescription, DataRow, CommandComplete.
void AppendOneText(std::string* out, std::string_view column, std::string_view value);

}  // namespace psp::sp::wire
