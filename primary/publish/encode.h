// Messages put together from parts that are serialised already. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/ids.h"

namespace psp {

// A serialised ToSemiPrimary{epoch, replicate}: `transactions` is a concatenation of Published::full and
// ::marker.
std::string EncodeReplicate(Epoch epoch, GlobalT from_t, GlobalT closed_t, std::string_view transactions);

}  // namespace psp
