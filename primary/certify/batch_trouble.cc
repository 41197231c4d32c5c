#include "primary/certify/batch_trouble.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace psp::primary {
namespace {

bool IsOfClass(const PgError& error, std::span<const std::string_view> classes) {
  return std::ranges::any_of(classes,
                             [&](std::string_view start) { return error.sqlstate.starts_with(start); });
}

// An error of the transaction's content, which comes again with each attempt.
bool IsTheTransactionsOwn(const PgError& error) {
  static constexpr std::array<std::string_view, 3> kClasses = {"22", "23", "54"};
  return IsOfClass(error, kClasses);
}

// Of a role's rights, or of what is or is not in the database: all batches have it, and somebody must mend it. It must not decide "aborted".
bool IsOfTheDatabase(const PgError& error) {
  static constexpr std::array<std::string_view, 5> kClasses = {"25", "28", "3D", "3F", "42"};
  return error.sqlstate.empty() || IsOfClass(error, kClasses);
}

}  // namespace

BatchTrouble::Step BatchTrouble::Next(const PgError& error, CertifyBy by, const Batch& batch) {
  if (error.reaction != PgReaction::kAbort) return Step::kAgain;
  const bool may_be_refused = batch.items.size() > 1 || batch.items[0].global_t > 0;
  const Step alone = batch.items.size() > 1 ? Step::kInHalves : Step::kRefuse;
  if (IsTheTransactionsOwn(error) && may_be_refused) return alone;
  if (MayPass(error.sqlstate)) return Step::kWaitAndAgain;
  if (IsOfTheDatabase(error)) return by == CertifyBy::kModule ? Step::kBySql : Step::kWaitAndAgain;
  if (++tries_ < kTries) return Step::kWaitAndAgain;
  tries_ = 0;
  if (by == CertifyBy::kModule) return Step::kBySql;
  return may_be_refused ? alone : Step::kWaitAndAgain;
}

}  // namespace psp::primary
