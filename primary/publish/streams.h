// One ordered stream for each SP: what to send next, and from where to take it.
//
// A stream stands at `sent_t`: the SP was sent everything <= sent_t. The next message always begins there, so
// the chain from_t, closed_t of an SP's messages has no gap. What comes next is taken from the recent
// transactions in memory when they reach back that far, otherwise from the log, through the catch-up reader.
// A joining SP gets the table first. At most `outstanding_bytes_max` are under way to an SP that has not told
// that it applied them: a slow SP's stream then rests, and when it goes on it takes from the log what memory
// no longer has.
//
// An SP may have more than its stream: when it asks twice for the same place, it gets there by the first
// stream while the second begins. What it has told to have is skipped; the log may have lost it already.
//
// Pure; one thread. The caller carries out the Actions in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "primary/publish/types.h"

namespace psp::primary {

// Read up to `bytes_max` of transactions in (from_t, upto_t] from the log, at least one.
struct ReadLog {
  SpId sp_id = 0;
  std::uint64_t stream_id = 0;
  GlobalT from_t = 0;
  GlobalT upto_t = 0;
  std::size_t bytes_max = 0;
};

// Read the next rows of the table after `after`, those with global_t <= snapshot_t.
struct ReadCopy {
  SpId sp_id = 0;
  std::uint64_t stream_id = 0;
  GlobalT snapshot_t = 0;
  RowKey after;
  std::int64_t rows_done = 0;
  std::size_t bytes_max = 0;
};

// Their results.
struct LogChunk {
  SpId sp_id = 0;
  std::uint64_t stream_id = 0;
  bool truncated = false;  // the log no longer reaches back to from_t
  GlobalT read_t = 0;      // everything in (from_t, read_t] is here
  std::vector<PublishedPtr> transactions;
};

struct EncodedCopyChunk {
  SpId sp_id = 0;
  std::uint64_t stream_id = 0;
  std::string message;  // a serialised ToSemiPrimary{copy_chunk}
  RowKey last_key;
  std::int64_t rows_done = 0;
  bool last = false;
};

class Streams {
 public:
  struct Limits {
    std::size_t message_bytes_max = 4 << 20;
    std::size_t outstanding_bytes_max = 64 << 20;  // for each SP
    std::size_t recent_bytes_max = 64 << 20;       // for all
  };
  struct Send {
    SpId sp_id = 0;
    std::string message;
  };
  struct Actions {
    std::vector<Send> sends;
    std::vector<ReadLog> log_reads;
    std::vector<ReadCopy> copy_reads;
    std::vector<SpId> refused;  // the log no longer has what they need: they must join again
  };

  Streams(Limits limits, Epoch epoch, GlobalT closed_t)
      : limits_(limits), epoch_(epoch), closed_t_(closed_t), recent_from_t_(closed_t) {}

  GlobalT closed_t() const { return closed_t_; }

  // Begins the SP's stream again: everything > from_t, own rows included up to today's closed_t.
  // `from_t` must be <= closed_t().
  Actions StartFromLog(SpId sp_id, std::uint64_t incarnation, GlobalT from_t);
  // Begins with the table.
  Actions StartWithCopy(SpId sp_id, std::uint64_t incarnation);
  void Forget(SpId sp_id) { streams_.erase(sp_id); }

  std::size_t recent_bytes() const { return recent_bytes_; }
  // Sent to the SP, which has not told that it applied them.
  std::size_t OutstandingBytes(SpId sp_id) const {
    const auto stream = streams_.find(sp_id);
    return stream == streams_.end() ? 0 : stream->second.outstanding_bytes;
  }

  // In ascending order, all > closed_t().
  Actions Publish(const std::vector<PublishedPtr>& transactions);

  Actions OnLogChunk(const LogChunk& chunk);
  Actions OnCopyChunk(EncodedCopyChunk chunk);

  // The SP reports: applied up to W.
  Actions OnApplied(SpId sp_id, GlobalT applied_t);
  // While it joins: how many rows of the table it has stored. Nothing: it does not count them, and counts as
  // having stored all that it was sent.
  Actions OnCopied(SpId sp_id, std::optional<std::int64_t> copied_rows);

 private:
  struct Outstanding {
    std::int64_t upto = 0;  // closed_t, or rows_done of a part of the table
    std::size_t bytes = 0;
  };
  struct Stream {
    std::uint64_t stream_id = 0;
    std::uint64_t incarnation = 0;
    GlobalT sent_t = 0;
    GlobalT applied_t = 0;    // as the SP reported since the stream began; may be ahead of sent_t
    GlobalT full_upto_t = 0;  // own transactions up to here are sent with their rows
    bool reading = false;     // the catch-up reader works for it
    bool in_copy = false;     // the table is not sent completely
    RowKey copy_position;
    std::int64_t rows_done = 0;
    std::deque<Outstanding> outstanding;
    std::size_t outstanding_bytes = 0;
  };

  Stream* Begin(SpId sp_id, std::uint64_t incarnation, GlobalT from_t);
  // The stream a result belongs to; nothing when the stream has begun again or gone.
  Stream* Waiting(SpId sp_id, std::uint64_t stream_id);
  void Arrived(Stream* stream, std::int64_t upto);
  void SkipApplied(Stream* stream);
  void Pump(SpId sp_id, Stream* stream, Actions* actions);
  void SendRecent(SpId sp_id, Stream* stream, Actions* actions);
  void SendTransactions(SpId sp_id, Stream* stream, const std::vector<PublishedPtr>& all, GlobalT upto_t,
                        Actions* actions);
  void SendOne(SpId sp_id, Stream* stream, std::string message, std::int64_t upto, Actions* actions);
  const std::string& EncodedFor(SpId sp_id, const Stream& stream, const Published& transaction) const;
  void Remember(const PublishedPtr& transaction);

  const Limits limits_;
  const Epoch epoch_;
  GlobalT closed_t_;
  // Everything in (recent_from_t_, closed_t_] is in recent_.
  GlobalT recent_from_t_;
  std::deque<PublishedPtr> recent_;
  std::size_t recent_bytes_ = 0;
  std::uint64_t last_stream_id_ = 0;
  std::map<SpId, Stream> streams_;
};

}  // namespace psp::primary
