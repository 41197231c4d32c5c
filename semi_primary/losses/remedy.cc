#include "semi_primary/losses/remedy.h"

#include <algorithm>

namespace psp::sp {
namespace {

constexpr std::string_view kLoop =
    "run the whole transaction again after a random, growing pause (docs/retrying.md)";
// From this share of the losses on, one semi-primary is the place where the row is written.
constexpr std::uint64_t kUsualPercent = 90;

// An MRV adds differences. So its column must be a number, and no other column of the row may be written with it.
bool CanBeMrvs(const LossFacts& facts) {
  return !facts.table.empty() && !facts.changed.empty() &&
         std::all_of(facts.changed.begin(), facts.changed.end(),
                     [](const LossFacts::Column& one) { return one.is_number && !one.is_mrv; });
}

// As one word for a shell, for a name that is in double quotes for SQL.
std::string ShellWord(const std::string& name) {
  if (name.find('"') == std::string::npos) return name;
  std::string out = "'";
  for (const char c : name) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string MrvRemedy(const LossFacts& facts) {
  std::string commands;
  for (const LossFacts::Column& column : facts.changed) {
    commands += (commands.empty() ? "" : "; ") +
                ("psp mrv create " + ShellWord(facts.table + "." + column.name)) + " DSN";
  }
  return "if transactions only add to and subtract from it, split the number over several records: " +
         commands + " (docs/mrv.md)";
}

std::string RowRemedy(const LossFacts& facts) {
  if (CanBeMrvs(facts)) return MrvRemedy(facts);
  const bool one_wins = !facts.usual_winner.empty() && facts.its_wins * 100 >= facts.losses * kUsualPercent;
  if (one_wins) {
    return "let semi-primary \"" + facts.usual_winner +
           "\" do these writes, which it wins nearly always, or " + std::string(kLoop);
  }
  return "write the row in fewer transactions or spread the writes over several rows; until then " +
         std::string(kLoop);
}

}  // namespace

std::string Remedy(const LossFacts& facts) {
  switch (facts.kind) {
    case proto::LOSS_UNIQUE_VALUE:
      return "let the value come from a sequence or gen_random_uuid(), which never meet, or " +
             std::string(kLoop) + ": the next attempt sees the other row";
    case proto::LOSS_FOREIGN_KEY:
      return "mark the row that is referred to as closed in place of deleting it or changing its key, or " +
             std::string(kLoop);
    case proto::LOSS_READ:
      return "certify fewer rows (docs/isolation.md), begin the transaction later and end it sooner, or " +
             std::string(kLoop);
    case proto::LOSS_ADVISORY_LOCK:
      return "take a lock with a narrower meaning, or let one semi-primary do this work, or " +
             std::string(kLoop);
    case proto::LOSS_SCHEMA_CHANGE:
      return "a schema change came in between: run the transaction again; run schema changes from one "
             "semi-primary, one after the other";
    default:
      return RowRemedy(facts);
  }
}

}  // namespace psp::sp
