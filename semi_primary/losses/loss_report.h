// What psp.conflicts and `psp top` show of the keys on which transactions were lost: names, values and remedies as text. Pure.
#pragma once

#include <functional>
#include <string>

#include "proto/psp.pb.h"
#include "semi_primary/losses/lost_keys.h"
#include "writeset/catalog.h"
#include "writeset/describe_key.h"

namespace psp::sp {

// Keys for each window.
inline constexpr std::size_t kReportedKeysMax = 20;

// `catalog`: of today; null: nothing is known of tables. `sp_name`: for people.
proto::LossReport ReportLosses(const LostKeys& lost_keys, const TableCatalog* catalog,
                               const std::function<KeyNames(std::uint32_t table_id)>& names,
                               const std::function<std::string(SpId)>& sp_name, std::int64_t now_us);

}  // namespace psp::sp
