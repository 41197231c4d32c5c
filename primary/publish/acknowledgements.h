// What each SP has on its disk, and so from where on the log is needed. Pure; one thread.
#pragma once

#include <map>
#include <optional>

#include "common/ids.h"

namespace psp {

class Acknowledgements {
 public:
  // The SP begins to copy the table as of snapshot_t: the log above must stay until it acknowledges that.
  void OnJoin(SpId sp_id, GlobalT snapshot_t) { joining_[sp_id] = snapshot_t; }

  // Everything <= watermark is on its disk. While it joins, anything below its snapshot says nothing.
  void OnAck(SpId sp_id, GlobalT watermark);

  void OnReleased(SpId sp_id);

  // The highest acknowledgements since the last call.
  std::map<SpId, GlobalT> TakeNew();

  // Nothing above this may be removed from the log, besides what psp.semi_primaries says; nothing: no limit.
  std::optional<GlobalT> JoinersNeedLogAfter() const;

 private:
  std::map<SpId, GlobalT> joining_;
  std::map<SpId, GlobalT> new_;
};

}  // namespace psp
