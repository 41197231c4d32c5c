#include "primary/publish/streams.h"

#include <algorithm>
#include <cassert>

#include "primary/publish/encode.h"

namespace psp::primary {

Streams::Stream* Streams::Begin(SpId sp_id, std::uint64_t incarnation, GlobalT from_t) {
  Stream stream;
  stream.stream_id = ++last_stream_id_;
  stream.incarnation = incarnation;
  stream.sent_t = from_t;
  stream.full_upto_t = closed_t_;
  return &(streams_[sp_id] = std::move(stream));
}

Streams::Actions Streams::StartFromLog(SpId sp_id, std::uint64_t incarnation, GlobalT from_t) {
  assert(from_t <= closed_t_);
  Stream* stream = Begin(sp_id, incarnation, from_t);
  Actions actions;
  if (from_t == closed_t_) {
    // Nothing to send, but the SP must learn that its stream goes on from where it stands.
    SendOne(sp_id, stream, EncodeReplicate(epoch_, from_t, from_t, ""), from_t, &actions);
  }
  Pump(sp_id, stream, &actions);
  return actions;
}

Streams::Actions Streams::StartWithCopy(SpId sp_id, std::uint64_t incarnation) {
  // Everything <= closed_t is durable by now, so every later read of the table has it (or something newer).
  Stream* stream = Begin(sp_id, incarnation, closed_t_);
  stream->in_copy = true;
  Actions actions;
  Pump(sp_id, stream, &actions);
  return actions;
}

Streams::Stream* Streams::Waiting(SpId sp_id, std::uint64_t stream_id) {
  const auto found = streams_.find(sp_id);
  if (found == streams_.end() || found->second.stream_id != stream_id) return nullptr;
  found->second.reading = false;
  return &found->second;
}

void Streams::Pump(SpId sp_id, Stream* stream, Actions* actions) {
  if (stream->reading) return;
  SkipApplied(stream);
  if (stream->outstanding_bytes >= limits_.outstanding_bytes_max) return;
  if (stream->in_copy) {
    stream->reading = true;
    actions->copy_reads.push_back({sp_id, stream->stream_id, stream->sent_t, stream->copy_position,
                                   stream->rows_done, limits_.message_bytes_max});
  } else if (stream->sent_t < closed_t_ && stream->sent_t < recent_from_t_) {
    stream->reading = true;
    actions->log_reads.push_back(
        {sp_id, stream->stream_id, stream->sent_t, closed_t_, limits_.message_bytes_max});
  } else if (stream->sent_t < closed_t_) {
    SendRecent(sp_id, stream, actions);
  }
}

void Streams::SendRecent(SpId sp_id, Stream* stream, Actions* actions) {
  auto next = std::upper_bound(recent_.begin(), recent_.end(), stream->sent_t,
                               [](GlobalT t, const PublishedPtr& one) { return t < one->global_t; });
  while (next != recent_.end() && stream->outstanding_bytes < limits_.outstanding_bytes_max) {
    std::vector<PublishedPtr> some;
    std::size_t bytes = 0;
    while (next != recent_.end()) {
      const std::size_t size_bytes = EncodedFor(sp_id, *stream, **next).size();
      if (!some.empty() && bytes + size_bytes > limits_.message_bytes_max) break;
      bytes += size_bytes;
      some.push_back(*next++);
    }
    SendTransactions(sp_id, stream, some, some.back()->global_t, actions);
  }
}

const std::string& Streams::EncodedFor(SpId sp_id, const Stream& stream, const Published& transaction) const {
  // The daemon that sent it still has the rows, unless it is another incarnation or they are
  // at or below the closed_t at its StreamRequest.
  const bool has_rows = transaction.sp_id == sp_id && transaction.incarnation == stream.incarnation &&
                        transaction.global_t > stream.full_upto_t;
  return has_rows ? transaction.marker : transaction.full;
}

void Streams::SendTransactions(SpId sp_id, Stream* stream, const std::vector<PublishedPtr>& all,
                               GlobalT upto_t, Actions* actions) {
  std::string bytes;
  for (const PublishedPtr& transaction : all) bytes += EncodedFor(sp_id, *stream, *transaction);
  SendOne(sp_id, stream, EncodeReplicate(epoch_, stream->sent_t, upto_t, bytes), upto_t, actions);
  stream->sent_t = upto_t;
}

void Streams::SendOne(SpId sp_id, Stream* stream, std::string message, std::int64_t upto, Actions* actions) {
  stream->outstanding.push_back({upto, message.size()});
  stream->outstanding_bytes += message.size();
  actions->sends.push_back({sp_id, std::move(message)});
}

void Streams::Remember(const PublishedPtr& transaction) {
  recent_.push_back(transaction);
  recent_bytes_ += transaction->full.size();
  while (recent_bytes_ > limits_.recent_bytes_max) {
    recent_from_t_ = recent_.front()->global_t;
    recent_bytes_ -= recent_.front()->full.size();
    recent_.pop_front();
  }
}

Streams::Actions Streams::Publish(const std::vector<PublishedPtr>& transactions) {
  for (const PublishedPtr& transaction : transactions) {
    assert(transaction->global_t > closed_t_);
    closed_t_ = transaction->global_t;
    Remember(transaction);
  }
  Actions actions;
  for (auto& [sp_id, stream] : streams_) Pump(sp_id, &stream, &actions);
  return actions;
}

Streams::Actions Streams::OnLogChunk(const LogChunk& chunk) {
  Actions actions;
  Stream* stream = Waiting(chunk.sp_id, chunk.stream_id);
  if (stream == nullptr) return actions;
  if (chunk.truncated && stream->applied_t > stream->sent_t) {
    Pump(chunk.sp_id, stream, &actions);  // the SP has that already: the stream continues after it
    return actions;
  }
  if (chunk.truncated) {
    streams_.erase(chunk.sp_id);
    actions.refused.push_back(chunk.sp_id);
    return actions;
  }
  assert(chunk.read_t > stream->sent_t && chunk.read_t <= closed_t_);
  SendTransactions(chunk.sp_id, stream, chunk.transactions, chunk.read_t, &actions);
  Pump(chunk.sp_id, stream, &actions);
  return actions;
}

Streams::Actions Streams::OnCopyChunk(EncodedCopyChunk chunk) {
  Actions actions;
  Stream* stream = Waiting(chunk.sp_id, chunk.stream_id);
  if (stream == nullptr) return actions;
  stream->copy_position = std::move(chunk.last_key);
  stream->rows_done = chunk.rows_done;
  SendOne(chunk.sp_id, stream, std::move(chunk.message), chunk.rows_done, &actions);
  if (chunk.last) {
    stream->in_copy = false;
    // From now on the position is a global_t, no longer a number of rows.
    stream->outstanding.clear();
    stream->outstanding_bytes = 0;
  }
  Pump(chunk.sp_id, stream, &actions);
  return actions;
}

void Streams::Arrived(Stream* stream, std::int64_t upto) {
  while (!stream->outstanding.empty() && stream->outstanding.front().upto <= upto) {
    stream->outstanding_bytes -= stream->outstanding.front().bytes;
    stream->outstanding.pop_front();
  }
}

void Streams::SkipApplied(Stream* stream) {
  if (!stream->in_copy) stream->sent_t = std::max(stream->sent_t, stream->applied_t);
}

Streams::Actions Streams::OnApplied(SpId sp_id, GlobalT applied_t) {
  Actions actions;
  const auto found = streams_.find(sp_id);
  if (found == streams_.end() || found->second.in_copy) return actions;
  found->second.applied_t = std::max(found->second.applied_t, std::min(applied_t, closed_t_));
  Arrived(&found->second, applied_t);
  Pump(sp_id, &found->second, &actions);
  return actions;
}

Streams::Actions Streams::OnCopied(SpId sp_id, std::optional<std::int64_t> copied_rows) {
  Actions actions;
  const auto found = streams_.find(sp_id);
  if (found == streams_.end() || !found->second.in_copy) return actions;
  Arrived(&found->second, copied_rows.value_or(found->second.rows_done));
  Pump(sp_id, &found->second, &actions);
  return actions;
}

}  // namespace psp::primary
