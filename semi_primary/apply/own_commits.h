// Which of this semi-primary's own transactions are in its database already, when the stream reaches their
// markers. Asked before the batch takes its first row lock. Pure.
//
// Native mode: the backend that commits it writes the proof; until that backend has ended, it is waited for.
// Views mode: the local worker that applies it writes the proof; here the same function is called, which
// waits for the local worker, and does its work if it has not begun. What is still not in (the backend died,
// temporary rows were lost in a crash) is applied from its write-set.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/note.h"
#include "semi_primary/apply/requests.h"
#include "semi_primary/apply/types.h"

namespace psp::sp {

class OwnCommits {
 public:
  OwnCommits(std::vector<ApplyTransaction> transactions, bool views_mode);

  // Nothing: it is known what is in. The same request again until it is answered.
  std::optional<ApplyRequest> Next() const;

  void OnMissingProofs(const std::vector<GlobalT>& missing);
  void OnBackend(bool has_ended);
  // It was applied, or could not be: then its write-set is tried.
  void OnTemporaryRows() { ++next_; }

  const std::vector<GlobalT>& own() const { return own_; }
  // What is to be applied if all of them are in, as is mostly so.
  std::vector<ApplyTransaction> WithoutOwnRows() const;

  // Then only what is to be applied has a write-set: remote transactions, and own ones that are not in.
  std::vector<ApplyTransaction> TakeTransactions() { return std::move(transactions_); }
  // Rows are needed that are not known here: the stream, begun again, brings them.
  const std::string& lacks_rows() const { return lacks_rows_; }
  std::vector<Note> TakeNotes() { return std::exchange(notes_, {}); }

 private:
  enum class Stage { kFirstLook, kUnproven, kKnown };

  void Conclude(const std::vector<GlobalT>& missing);

  const bool views_mode_;
  std::vector<ApplyTransaction> transactions_;
  std::vector<GlobalT> own_;
  Stage stage_ = Stage::kFirstLook;
  std::vector<ApplyTransaction> unproven_;
  std::size_t next_ = 0;  // of unproven_
  std::string lacks_rows_;
  std::vector<Note> notes_;
};

}  // namespace psp::sp
