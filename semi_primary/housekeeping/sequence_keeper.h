// Keeps the sequences of the database in this semi-primary's class of numbers (docs/decisions/24).
#pragma once

#include "common/ids.h"
#include "common/pg_session.h"

namespace psp::sp {

// Uses the session of its owner, on its owner's thread.
class SequenceKeeper {
 public:
  explicit SequenceKeeper(PgSession* session);

  // PostgreSQL may have crashed: a number that was drawn before may be drawn again.
  void MakeDue() { is_due_ = true; }
  // Moves sequences past the numbers that the tables contain. It stays due while W is behind `closed_t`, or
  // while a transaction is open that has drawn from a sequence that must move.
  void AdvanceIfDue(GlobalT closed_t);
  // Moves sequences past the numbers that rows of others have brought: numbers of their own choice, as of a migration
  // that loads rows and calls setval, which other semi-primaries do not see. Columns without an index do not
  // count: nothing keeps their numbers from being there twice. Nothing is done while no rows have come. Rows that
  // are decided but not applied yet are seen by a later call.
  void Follow();
  // Sets sequences that setval has moved out of their class to the next number of the class. False after an
  // error.
  bool Align(bool thoroughly);

 private:
  PgSession& session_;
  bool is_due_ = true;
  GlobalT followed_t_ = 0;   // the rows up to here have been seen
  bool has_warned_ = false;  // that it has not succeeded yet
};

}  // namespace psp::sp
