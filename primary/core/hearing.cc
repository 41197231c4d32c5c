#include "primary/core/hearing.h"

#include <algorithm>

namespace psp::primary {
namespace {

constexpr std::size_t kPeersMax = 1000;
constexpr std::int64_t kStepUs =
    500'000;  // what one turn counts at most: a process that was stopped has heard nobody meanwhile

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> Lineage(const proto::Hello& hello) {
  std::vector<std::string> all(hello.followed_before().begin(), hello.followed_before().end());
  all.push_back(hello.followed());
  return all;
}

}  // namespace

Hearing::Hearing(const Options& options, Past past)
    : options_(options), past_(std::move(past)), is_over_(options.hear_us == 0) {}

// What the semi-primary has and this database lacks, for people; empty: nothing, or it is given up.
std::string Hearing::Surplus(const proto::Hello& hello) const {
  if (hello.followed().empty())
    return {};  // it has followed nobody, or psp schema accept-loss was said there
  if (hello.watermark() < past_.truncated_t)
    return {};  // older than all that can be compared: it must join again
  const auto registered = registry_.find(hello.sp_id());
  const bool may_be_joining = registered == registry_.end() || registered->second.acked_t < 0;
  if (may_be_joining && hello.newest_t() <= 0 && hello.own_commits().empty()) return {};
  std::string surplus;
  GlobalT newest_t = hello.newest_t();
  bool lacks = !HistoryObjection(past_.epochs, newest_t, hello.history()).empty();
  for (const proto::OwnCommit& own : hello.own_commits()) {
    const TxId tx_id = TxId::FromBytes(own.tx_id()).value_or(TxId());
    if (OwnCommitObjection(past_.epochs, past_.kept, own.global_t(), tx_id, own.history()).empty()) continue;
    newest_t = own.global_t();
    lacks = true;
  }
  if (lacks) {
    surplus = "transactions up to number " + std::to_string(newest_t) +
              ", and this database, which ends at " + std::to_string(past_.closed_t) + ", does not have them";
  } else if (!FollowedObjection(past_.epochs, hello.followed()).empty()) {
    surplus = "followed a start of psp-primary that this database lacks";
  }
  if (surplus.empty() || IsGivenUp(past_.epochs, past_.newest_ts, Lineage(hello))) return {};
  return surplus;
}

bool Hearing::IsRemoved(const Name& name) const {
  const auto found = registry_.find(name.second);
  return found != registry_.end() && found->second.released && found->second.name == name.first;
}

void Hearing::OnRegistry(const Registry& registry, std::int64_t now_us) {
  if (is_over_) return;
  SetTime(now_us);
  registry_ = registry;
  std::erase_if(ahead_, [this](const auto& one) { return IsRemoved(one.first); });
  Judge();
}

void Hearing::OnHello(std::string_view route, const proto::Hello& hello, std::int64_t now_us) {
  if (is_over_) return;
  SetTime(now_us);
  const Name name{hello.name(), hello.sp_id()};
  const std::string surplus = IsRemoved(name) ? "" : Surplus(hello);
  if (surplus.empty()) {
    if (ahead_.erase(name) > 0) {
      AddNote(Note::Level::kInfo, "sp_not_ahead",
              "what only " + hello.name() + " had is given up, or here now");
    }
  } else if (ahead_.size() < kPeersMax && ahead_.insert_or_assign(name, surplus).second) {
    AddNote(Note::Level::kError, "sp_ahead",
            "nothing is decided here: semi-primary " + hello.name() + " has " + surplus +
                ". Was another server to be promoted? To go on without: psp schema accept-loss at " +
                hello.name() + ", or psp primary remove");
  }
  if (!hello.look() && (heard_.contains(name) || heard_.size() < kPeersMax)) {
    heard_[name] = {std::string(route), now_us};
  }
  Judge();
}

void Hearing::OnAllRead(std::int64_t now_us) {
  if (is_over_) return;
  SetTime(now_us);
  if (read_us_ != 0) waited_us_ += std::min(now_us - read_us_, kStepUs);
  read_us_ = now_us;
  if (is_blocked()) waited_us_ = 0;
  Judge();
  if (is_over_ || waited_us_ < options_.hear_us || is_blocked()) return;
  is_over_ = true;
  unheard_ = Missing();
  AddNote(Note::Level::kWarning, "sp_not_heard",
          "begins without having heard " + Join(unheard_) +
              " (hear_ms): what these semi-primaries have and this database lacks is lost");
}

void Hearing::Judge() {
  if (!is_over_ && !is_blocked() && Missing().empty()) is_over_ = true;
}

void Hearing::SetTime(std::int64_t now_us) {
  if (since_us_ == 0) since_us_ = now_us;
  now_us_ = now_us;
}

// Who was not heard lately; also who has not joined as far as this database knows, since it may lack that.
std::vector<std::string> Hearing::Missing() const {
  std::vector<std::string> missing;
  for (const auto& [sp_id, sp] : registry_) {
    if (sp.released) continue;
    const auto heard = heard_.find({sp.name, sp_id});
    if (heard == heard_.end() || now_us_ - heard->second.at_us > options_.valid_us)
      missing.push_back(sp.name);
  }
  std::ranges::sort(missing);
  return missing;
}

std::vector<std::string> Hearing::ahead() const {
  std::vector<std::string> names;
  for (const auto& [name, surplus] : ahead_) names.push_back(name.first);
  return names;
}

std::optional<Standstill::Reason> Hearing::reason() const {
  using Cause = Standstill::Cause;
  if (is_over_) return std::nullopt;
  if (!is_blocked()) return Standstill::Reason{Cause::kHearing, Told(), since_us_, Join(Missing())};
  std::string text;
  for (const auto& [name, surplus] : ahead_)
    text += (text.empty() ? "" : "; ") + name.first + " has " + surplus;
  return Standstill::Reason{Cause::kAhead, text, since_us_, Join(ahead())};
}

std::string Hearing::Told() const {
  if (is_blocked()) {
    return "this primary's database lacks what semi-primary " + Join(ahead()) +
           " has: it was promoted or restored without that, and decides nothing before psp schema "
           "accept-loss is said there, or a server that has it takes its place";
  }
  return "the primary has started and hears first what each semi-primary has: it waits for " +
         Join(Missing());
}

std::vector<std::string> Hearing::TakeRoutes(std::int64_t now_us) {
  std::vector<std::string> routes;
  for (const auto& [name, heard] : heard_) {
    if (now_us - heard.at_us <= options_.valid_us) routes.push_back(heard.route);
  }
  heard_.clear();
  return routes;
}

void Hearing::AddNote(Note::Level level, std::string_view event, std::string text) {
  notes_.push_back({.level = level, .text = std::move(text), .event = event});
}

}  // namespace psp::primary
