#include "primary/intake.h"

#include <limits>

namespace psp {
namespace {

constexpr std::uint32_t kTableIdMax = std::numeric_limits<std::int32_t>::max();

// What is wrong with the parsed rows; empty: nothing.
std::string Malformed(const proto::WriteSet& rows) {
  for (const proto::Row& row : rows.rows()) {
    if (row.table_id() == 0 || row.table_id() > kTableIdMax)
      return "malformed write-set: impossible table_id";
    if (row.key().empty()) return "malformed write-set: a row without a key";
  }
  return {};
}

}  // namespace

bool Intake::Parse(SpId sp_id, std::uint64_t incarnation, proto::Certify* message,
                   CertifyRequest* request) const {
  const auto tx_id = TxId::FromBytes(message->tx_id());
  if (!tx_id) return false;
  request->tx_id = *tx_id;
  request->sp_id = sp_id;
  request->incarnation = incarnation;
  if (message->write_set().size() > write_set_bytes_max_) {
    request->refusal = "write-set of " + std::to_string(message->write_set().size()) +
                       " bytes is larger than write_set_bytes_max = " + std::to_string(write_set_bytes_max_);
    return true;
  }
  if (!request->rows.ParseFromString(message->write_set())) {
    request->refusal = "malformed write-set";
    return true;
  }
  request->refusal = Malformed(request->rows);
  request->watermark = message->snapshot().watermark();
  request->seen.assign(message->snapshot().seen().begin(), message->snapshot().seen().end());
  request->write_set = std::move(*message->mutable_write_set());
  return true;
}

std::uint32_t Intake::UnknownTable(const CertifyRequest& request) const {
  for (const proto::Row& row : request.rows.rows()) {
    if (!table_ids_.contains(row.table_id())) return row.table_id();
  }
  return 0;
}

}  // namespace psp
