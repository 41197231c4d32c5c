// What an application reads when its transaction is lost for another reason than a conflict (conflict_error.h). Pure.
#pragma once

#include <string>

#include "common/ids.h"
#include "common/user_error.h"

namespace psp::sp {

// 08006: nothing was sent.
UserError NotConnectedError();
UserError LacksOwnError();
// 40001: `detail` is the primary's.
UserError OlderCatalogError(const std::string& detail);
UserError LostSchemaChangeError(const std::string& detail);
// 54000: `detail` is the primary's, of a limit of its PostgreSQL.
UserError TooLongKeyError(const std::string& detail);
// 08007: sent, and no answer.
UserError UnknownOutcomeError(const TxId& tx_id);

}  // namespace psp::sp
