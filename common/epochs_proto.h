// Epochs in messages.
#pragma once

#include "common/epochs.h"
#include "proto/psp.pb.h"

namespace psp {

using EpochMessages = google::protobuf::RepeatedPtrField<proto::EpochStart>;

inline void AddTo(EpochMessages* messages, const EpochStart& epoch) {
  proto::EpochStart* message = messages->Add();
  message->set_history(epoch.history);
  message->set_start_t(epoch.start_t);
}

inline EpochStarts FromMessages(const EpochMessages& messages) {
  EpochStarts epochs;
  for (const proto::EpochStart& one : messages) epochs.push_back({one.history(), one.start_t()});
  return epochs;
}

}  // namespace psp
