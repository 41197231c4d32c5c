// Which of several addresses the primary is to be sought at: docs/decisions/66. Pure; one thread; times are monotonic microseconds.
//
// All addresses are asked who is there (Hello with `look`). A primary that would welcome this semi-primary answers with its epochs from the
// followed one on. With one address nobody is asked, and it is always chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/epochs.h"

namespace psp::sp {

class PrimaryChoice {
 public:
  // How long an address stays chosen without Welcome.
  PrimaryChoice(std::size_t addresses, std::int64_t patience_us)
      : addresses_(addresses), patience_us_(patience_us) {}

  std::size_t addresses() const { return addresses_; }
  // Where Hello, and everything else, is sent to.
  std::size_t current() const { return current_; }
  bool has_choice(std::int64_t now_us) const {
    return addresses_ == 1 || (chosen_us_ != 0 && now_us - chosen_us_ < patience_us_);
  }

  bool LookIsDue(bool is_connected, std::int64_t now_us) const;
  void OnLooked(std::int64_t now_us) { looked_us_ = now_us; }

  // Whether to go over to the primary that has answered: while connected, and while another one is chosen, only if it is
  // newer. `followed`: the epoch of the one to which this semi-primary is connected.
  bool Prefers(std::size_t address, const EpochStarts& epochs, std::string_view followed, bool is_connected,
               std::int64_t now_us) const;
  void GoTo(std::size_t address, const EpochStarts& epochs, std::int64_t now_us);

  // The chosen one has answered, and does not say Welcome yet.
  void OnAskedToWait(std::int64_t now_us) {
    if (chosen_us_ != 0) chosen_us_ = now_us;
  }

  // The connection is lost: the next answer is chosen, and all are asked at once.
  void OnLost();
  // After OnLost: until then they are asked more often, while none is chosen.
  void OnAway(std::int64_t until_us) { away_until_us_ = until_us; }

 private:
  const std::size_t addresses_;
  const std::int64_t patience_us_;
  std::size_t current_ = 0;
  std::int64_t chosen_us_ = 0;  // 0: it is not
  std::string chosen_;          // its epoch, by its history
  std::int64_t looked_us_ = 0;  // 0: not since the connection was lost
  std::int64_t away_until_us_ = 0;
};

}  // namespace psp::sp
