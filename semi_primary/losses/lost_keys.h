// On which keys most transactions of this semi-primary were lost, in the last minute, hour and day. Pure; one thread; time
// (monotonic microseconds) is an argument. Nothing here runs for a transaction that does not lose.
//
// A window is kSlices equal parts of time and the one that runs. Each part counts kKeysMax keys by the Space-Saving algorithm
// (Metwally, Agrawal and El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005): a new key takes
// the place and the count of the one with the fewest losses. So a key that has more than 1/kKeysMax of a window's losses is
// counted, and its count is wrong by the largest count that a new key has taken over, 1/kKeysMax of the window's losses at most.
// As long as no key has taken the place of another, counts are exact. A key's other figures are of the losses since it took its place.
//
// Memory: 3 * (kSlices + 1) * kKeysMax + kUntoldMax keys of kKeyBytesMax at most. Nothing of it survives a restart of the daemon.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/conflict.h"
#include "common/ids.h"
#include "proto/psp.pb.h"
#include "semi_primary/front/local_commit.h"

namespace psp::sp {

struct Loss {
  RowKey key;  // empty key bytes: of the table as a whole
  proto::LossKind kind = proto::LOSS_ROW;
  SpId winner = 0;            // 0: not known
  std::int64_t spent_us = 0;  // since the transaction's COMMIT has begun
  std::string image{};        // the loser's new row, as record_send; empty: none, or too long
  TxId tx_id{};               // of the loser
};

// `conflict`: null if the transaction has lost to a schema change. `is_guard`: the key is a value of a unique index.
Loss LossOf(const proto::WriteSet& write_set, const Conflict* conflict, bool is_guard, std::int64_t spent_us);

struct LostKey {
  std::uint64_t losses = 0;
  std::int64_t spent_us = 0;
  std::map<SpId, std::uint64_t> winners;
  // The places of the columns in which rows of consecutive losers differed: those that the transactions write.
  std::set<std::size_t> changed;
  std::int64_t query_id = 0;  // of the statement with which one of the losers wrote it last; 0: not known
};

class LostKeys {
 public:
  static constexpr std::size_t kSlices = 12;
  static constexpr std::size_t kKeysMax = 100;
  static constexpr std::size_t kUntoldMax = 256;     // losers whose statements may still be told
  static constexpr std::size_t kKeyBytesMax = 1024;  // longer ones count for their table
  static constexpr std::size_t kImageBytesMax = 4096;
  static constexpr std::array<std::int64_t, 3> kWindowsUs = {60'000'000, 3'600'000'000, 86'400'000'000};

  using Id = std::pair<RowKey, proto::LossKind>;
  struct Ranked {
    Id id;
    LostKey lost;
  };
  struct Window {
    std::int64_t us = 0;
    std::uint64_t losses = 0;  // of all keys
    std::uint64_t losses_error =
        0;  // a key's losses are wrong by so many at most; one with no more of them may be missing
    std::vector<Ranked> ranked;  // the most losses first
  };

  void OnLost(Loss loss, std::int64_t now_us);
  // After OnLost. Nothing happens where the loser is not known any more.
  void OnStatements(const LosersStatements& losers);
  // Up to `keys_max` keys for each window.
  std::vector<Window> Rank(std::size_t keys_max, std::int64_t now_us) const;
  // Whether the ranking has changed since it last was true: five seconds later at the earliest, and a minute later if only the windows
  // have moved.
  bool TakeNews(std::int64_t now_us);

 private:
  struct Counter {
    LostKey lost;
    std::string image;  // of the last loser
  };
  struct Slice {
    std::int64_t number = -1;  // the time, in slices of the window
    std::uint64_t losses = 0;
    std::uint64_t taken_over = 0;  // the largest count that a new key has taken over from another one
    std::map<Id, Counter> counters;
  };
  using Slices = std::array<Slice, kSlices + 1>;

  static void Count(Slice* slice, const Id& id, const Loss& loss);

  std::array<Slices, kWindowsUs.size()> windows_;
  std::deque<std::pair<TxId, Id>> untold_;  // the newest losers, oldest first
  std::uint64_t news_ = 0;
  std::uint64_t told_news_ = 0;
  std::int64_t told_us_ = 0;
};

}  // namespace psp::sp
