// Messages put together from parts that are serialised already. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/ids.h"
#include "primary/publish/streams.h"
#include "proto/psp.pb.h"

namespace psp::primary {

// A serialised ToSemiPrimary{epoch, replicate}. `transactions`: concatenated Published::full and ::marker.
std::string EncodeReplicate(Epoch epoch, GlobalT from_t, GlobalT closed_t, std::string_view transactions);

// The result of `work`: `rows` are what it read, none at the end of the table. `rows_total` is an estimate;
// `newest_t` is the newest that was committed, looked up after `rows`.
EncodedCopyChunk EncodeCopyChunk(Epoch epoch, const ReadCopy& work, proto::CopyChunk rows,
                                 std::int64_t rows_total, GlobalT newest_t);

}  // namespace psp::primary
