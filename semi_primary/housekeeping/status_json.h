// The row of psp.daemon_status. Pure.
#pragma once

#include <string>

#include "semi_primary/housekeeping/daemon_status.h"

namespace psp::sp {

// `before`: the status that was written `seconds` ago, for the rates.
std::string StatusJson(const DaemonStatus& now, const DaemonStatus& before, double seconds,
                       const std::string& warnings);

}  // namespace psp::sp
