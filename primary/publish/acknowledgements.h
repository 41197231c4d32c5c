// What each SP has on its disk, and since when it copies the table: from where on the log is needed. All of
// it is written down in psp.semi_primaries, so that the log is kept for joining SPs over a restart too. Pure;
// one thread.
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

  // As it was written down before this daemon's start.
  void Restore(SpId sp_id, GlobalT snapshot_t) { joining_[sp_id] = snapshot_t; }

  // The SP begins to copy the table as of snapshot_t: the log above must stay until it acknowledges that. Of
  // several copies that were asked for one after the other the oldest may be the one that it completes.
  void OnJoin(SpId sp_id, GlobalT snapshot_t);

  // Everything <= watermark is on its disk. While it joins, anything below its snapshot says nothing.
  void OnAck(SpId sp_id, GlobalT watermark);

  void OnReleased(SpId sp_id);

  // What is to be written down: the newest of each SP since the last call.
  News TakeNews();
  // It could not be written down: it comes with the next ones, unless there is something newer by now.
  void PutBack(const News& news);

 private:
  std::map<SpId, GlobalT> joining_;
  News news_;
};

}  // namespace psp::primary
