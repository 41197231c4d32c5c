// From where on each SP needs the log: what it has on its disk, and since when it copies the table. All of it
// is recorded in psp.semi_primaries, so that a restart keeps the log for joining SPs, too. Pure; one thread.
#pragma once

#include <map>

#include "common/ids.h"

namespace psp::primary {

class Acknowledgements {
 public:
  struct News {
    std::map<SpId, GlobalT> joins;
    std::map<SpId, GlobalT> acks;
  };

  // As it was recorded before this daemon's start.
  void Restore(SpId sp_id, GlobalT snapshot_t) { joining_[sp_id] = snapshot_t; }

  // The SP begins to copy the table as of snapshot_t: the log above it must stay until the SP acknowledges
  // it. If the SP asks for several copies, it may complete the oldest one.
  void OnJoin(SpId sp_id, GlobalT snapshot_t);

  // Everything <= watermark is on the SP's disk. While it joins, a watermark below its snapshot means
  // nothing.
  void OnAck(SpId sp_id, GlobalT watermark);

  void OnReleased(SpId sp_id);

  // What must be recorded: the newest of each SP since the last call.
  News TakeNews();
  // They could not be recorded. The next Take has them again, unless there is something newer by then.
  void PutBack(const News& news);

 private:
  std::map<SpId, GlobalT> joining_;
  News news_;
};

}  // namespace psp::primary
