#include "semi_primary/submit/error_text.h"

namespace psp::sp {

// The hook passes on errors of class 08 as they are when their message begins with "psp: ".
UserError NotConnectedError() {
  return {"08006", "psp: the primary cannot be reached, the transaction is rolled back", "",
          "Nothing was sent, so the transaction can be retried safely."};
}

UserError LacksOwnError() {
  return {"40001", "psp: this semi-primary does not have all of its own commits back after a crash",
          "The transaction may not have seen what was committed here before.", "Retry the transaction."};
}

UserError OlderCatalogError(const std::string& detail) {
  return {"40001", "psp: a schema change was committed since the transaction began", detail,
          "Retry the transaction."};
}

UserError LostSchemaChangeError(const std::string& detail) {
  return {
      "40001",
      "psp: another schema change, or rows of a table that this one changes, were committed since it began",
      detail, "Retry the transaction."};
}

UserError TooLongKeyError(const std::string& detail) {
  return {
      "54000", "psp: a key of the transaction is too long for the primary", detail,
      "Shorten the value, or have the key and unique indexes on a hash of it: about 2,600 bytes always fit."};
}

UserError UnknownOutcomeError(const TxId& tx_id) {
  return {"08007", "psp: the primary has not answered, it is not known whether the transaction is committed",
          "Transaction " + tx_id.ToText() + " may have been committed or not.",
          "SELECT psp.outcome('" + tx_id.ToText() + "') tells which, as soon as the primary is back."};
}

}  // namespace psp::sp
