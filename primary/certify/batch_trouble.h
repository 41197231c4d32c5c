// What to do with a batch whose statement fails, again and again perhaps: one transaction that PostgreSQL cannot write must not keep its keys,
// and those who wait for them, for ever. Pure; one for each batch.
#pragma once

#include "common/pg_errors.h"
#include "primary/certify/types.h"

namespace psp::primary {

enum class CertifyBy { kSql, kModule };

class BatchTrouble {
 public:
  enum class Step {
    kAgain,  // at once, or after the session has been connected again
    kWaitAndAgain,
    kBySql,     // from now on; the next batches by what the server has by now
    kInHalves,  // each by what this one was run by
    kRefuse,    // record it as aborted
  };
  static constexpr int kTries = 3;

  // `by`: how the batch was run that has failed so.
  Step Next(const PgError& error, CertifyBy by, const Batch& batch);

 private:
  int tries_ = 0;  // that have failed with an error that comes again, by the module or by SQL
};

}  // namespace psp::primary
