// From a Certify message to a request that the scheduler can take: everything that comes from outside is
// checked here. Pure; one thread.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>

#include "primary/certify/types.h"

namespace psp {

class Intake {
 public:
  Intake(std::size_t write_set_bytes_max, std::unordered_set<std::uint32_t> table_ids)
      : write_set_bytes_max_(write_set_bytes_max), table_ids_(std::move(table_ids)) {}

  // False when the message has no valid tx id: then there is nobody to answer. What else is wrong becomes
  // `request->refusal`, so that it is recorded and answered like any decision.
  bool Parse(SpId sp_id, std::uint64_t incarnation, proto::Certify* message, CertifyRequest* request) const;

  // The first table or guard of the request that the catalog does not have; 0: it has all.
  std::uint32_t UnknownTable(const CertifyRequest& request) const;

  void SetTableIds(std::unordered_set<std::uint32_t> table_ids) { table_ids_ = std::move(table_ids); }

 private:
  const std::size_t write_set_bytes_max_;
  std::unordered_set<std::uint32_t> table_ids_;
};

}  // namespace psp
