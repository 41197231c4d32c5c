#include "primary/publish/encode.h"

#include <algorithm>
#include <utility>

namespace psp::primary {
namespace {

// Protocol Buffers: a field of bytes or of a message is (number << 3 | 2), the length, the content.
void AppendVarint(std::string* out, std::uint64_t value) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void AppendHeader(std::string* out, int field_number, std::size_t size_bytes) {
  AppendVarint(out, static_cast<std::uint64_t>(field_number) << 3 | 2);
  AppendVarint(out, size_bytes);
}

}  // namespace

PublishedPtr Encode(GlobalT global_t, const TxId& tx_id, SpId sp_id, std::uint64_t incarnation,
                    std::string_view write_set) {
  auto published = std::make_shared<Published>();
  published->global_t = global_t;
  published->sp_id = sp_id;
  published->incarnation = incarnation;

  proto::Transaction head;
  head.set_global_t(global_t);
  head.set_tx_id(tx_id.View().data(), TxId::kSize);
  head.set_sp_id(sp_id);
  const std::string marker = head.SerializeAsString();
  AppendHeader(&published->marker, proto::Replicate::kTransactionsFieldNumber, marker.size());
  published->marker += marker;

  std::string rows_header;
  AppendHeader(&rows_header, proto::Transaction::kWriteSetFieldNumber, write_set.size());
  published->full.reserve(marker.size() + write_set.size() + 24);
  AppendHeader(&published->full, proto::Replicate::kTransactionsFieldNumber,
               marker.size() + rows_header.size() + write_set.size());
  published->full += marker;
  published->full += rows_header;
  published->full += write_set;
  return published;
}

std::string EncodeReplicate(Epoch epoch, GlobalT from_t, GlobalT closed_t, std::string_view transactions) {
  proto::Replicate head;
  head.set_from_t(from_t);
  head.set_closed_t(closed_t);
  const std::string replicate = head.SerializeAsString();
  proto::ToSemiPrimary envelope;
  envelope.set_epoch(epoch);
  std::string message = envelope.SerializeAsString();
  message.reserve(message.size() + replicate.size() + transactions.size() + 16);
  AppendHeader(&message, proto::ToSemiPrimary::kReplicateFieldNumber, replicate.size() + transactions.size());
  message += replicate;
  message += transactions;
  return message;
}

EncodedCopyChunk EncodeCopyChunk(Epoch epoch, const ReadCopy& work, proto::CopyChunk rows,
                                 std::int64_t rows_total, GlobalT newest_t) {
  EncodedCopyChunk chunk{work.sp_id, work.stream_id, {}, work.after, work.rows_done + rows.rows_size(),
                         false};
  chunk.last = rows.rows().empty();
  if (!chunk.last) {
    const proto::Row& last = *rows.rows().rbegin();
    chunk.last_key = RowKey{last.table_id(), last.key()};
  }
  rows.set_snapshot_t(work.snapshot_t);
  rows.set_rows_done(chunk.rows_done);
  rows.set_rows_total(chunk.last ? chunk.rows_done : std::max(rows_total, chunk.rows_done));
  rows.set_last(chunk.last);
  if (chunk.last) rows.set_complete_t(newest_t);
  proto::ToSemiPrimary message;
  message.set_epoch(epoch);
  *message.mutable_copy_chunk() = std::move(rows);
  chunk.message = message.SerializeAsString();
  return chunk;
}

}  // namespace psp::primary
