// Before its first decision a primary hears what each semi-primary has: docs/decisions/71-a-primary-hears-before-it-decides.md. Pure; one
// thread; times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/epochs.h"
#include "common/note.h"
#include "primary/connections/connections.h"
#include "primary/core/standstill.h"

namespace psp::primary {

class Hearing {
 public:
  struct Options {
    std::int64_t hear_us = 0;  // how long those that are away are waited for; 0: nobody is heard
    // A Hello. Less than the time after which a semi-primary with several addresses leaves one that does not answer.
    std::int64_t valid_us = 2'000'000;
  };
  // Of the database that this start has found.
  struct Past {
    EpochStarts epochs;
    std::vector<GlobalT> newest_ts;  // of each epoch: the newest number when it began
    Commits kept;
    GlobalT truncated_t = 0;
    GlobalT closed_t = 0;
  };
  using Registry = std::map<SpId, RegisteredSp>;

  Hearing(const Options& options, Past past);

  // Each of these may end it; the first registry does if nobody is in it.
  void OnRegistry(const Registry& registry, std::int64_t now_us);
  // Also those with `look`: they tell who is ahead, and count for nobody as heard. Of this cluster, in this protocol.
  void OnHello(std::string_view route, const proto::Hello& hello, std::int64_t now_us);
  // To be called several times a second, when all that has arrived was given to OnHello. Only such time counts.
  void OnAllRead(std::int64_t now_us);

  // The primary may decide. It stays so.
  bool is_over() const { return is_over_; }
  // Somebody is ahead.
  bool is_blocked() const { return !ahead_.empty(); }
  // Why the primary does not decide yet, for people there; nothing: it may.
  std::optional<Standstill::Reason> reason() const;
  // The same for a semi-primary: without numbers, so that it is the same text as long as nothing has changed.
  std::string Told() const;
  // Over which routes the others were heard lately, once it is over.
  std::vector<std::string> TakeRoutes(std::int64_t now_us);
  std::vector<Note> TakeNotes() { return std::exchange(notes_, {}); }
  // Who was not heard when the time was over.
  const std::vector<std::string>& unheard() const { return unheard_; }
  std::vector<std::string> ahead() const;

 private:
  using Name = std::pair<std::string, SpId>;  // a number may have been given again
  struct Heard {
    std::string route;
    std::int64_t at_us = 0;
  };

  std::string Surplus(const proto::Hello& hello) const;
  bool IsRemoved(const Name& name) const;
  std::vector<std::string> Missing() const;
  void AddNote(Note::Level level, std::string_view event, std::string text);
  void Judge();
  void SetTime(std::int64_t now_us);

  const Options options_;
  const Past past_;
  Registry registry_;
  std::map<Name, Heard> heard_;
  std::map<Name, std::string> ahead_;  // what each has, and the primary lacks
  bool is_over_ = false;
  std::vector<std::string> unheard_;
  std::int64_t since_us_ = 0;   // the first time that was told
  std::int64_t now_us_ = 0;     // the last one
  std::int64_t read_us_ = 0;    // of OnAllRead
  std::int64_t waited_us_ = 0;  // while nobody was ahead
  std::vector<Note> notes_;
};

}  // namespace psp::primary
