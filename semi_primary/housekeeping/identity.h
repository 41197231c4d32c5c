// Which semi-primary a database is, and where it stood when the daemon started. Values.
#pragma once

#include <string>

#include "common/epochs.h"
#include "common/ids.h"

namespace psp::sp {

struct SavedEpochs {
  EpochStarts epochs;
  bool follows_any = false;  // psp schema accept-loss, until others are saved
};

struct Identity {
  std::string cluster_id;  // 16 bytes
  SpId sp_id = 0;
  std::string token;
  std::string database;  // psp.this_database()
  GlobalT watermark = 0;
  bool joining = false;
  bool may_lack_own = true;  // PostgreSQL may have crashed while no daemon looked
  bool may_set_deadlock_timeout = true;
  SavedEpochs saved{};
};

}  // namespace psp::sp
