// Looks for changes of the schema that no trigger can refuse, and reports them.
#pragma once

#include <string>

#include "common/pg_session.h"

namespace psp::sp {

// Uses the session of its owner, on its owner's thread.
class SchemaWatch {
 public:
  explicit SchemaWatch(PgSession* session);

  void LookForChanges();
  // What the last look has found; empty: nothing.
  const std::string& warnings() const { return warnings_; }

 private:
  PgSession& session_;
  std::string warnings_;
};

}  // namespace psp::sp
