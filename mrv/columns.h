// The MRV columns of a database with their parameters, as psp_mrv.columns has them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mrv/adjust.h"
#include "mrv/balance.h"
#include "mrv/worker_session.h"

namespace psp::mrv {

struct Column {
  AdjustParameters adjust;
  std::string balance;  // the strategy's name
  bool is_bounded = false;
  bool is_shared = false;  // other servers change the same values
  std::optional<double> record_max{};
};

using Columns = std::map<std::int32_t, Column>;  // by column_id

// Declares the statements that the functions below use; before the session connects.
void PrepareColumns(WorkerSession* session);

// Read again in each round: users change parameters at any time. Nothing when there is no schema psp_mrv, or
// no connection.
std::optional<Columns> ReadColumns(WorkerSession* session);

// Nothing when the row is gone, or the column, or the key is none of its table's.
std::optional<Amounts> ReadAmounts(WorkerSession* session, std::int32_t column_id, const std::string& key);

}  // namespace psp::mrv
