#include "common/commit_choice.h"

namespace psp {

// By the end of the id, which is random in every version of uuid that is made by chance.
bool CommitChoice::Follows(const TxId& tx_id) const {
  if (one_in <= 1) return one_in == 1;
  std::uint64_t number = 0;
  for (const char byte : tx_id.View().substr(TxId::kSize - 6)) {
    number = number << 8U | static_cast<unsigned char>(byte);
  }
  return number % static_cast<std::uint64_t>(one_in) == 0;
}

}  // namespace psp
