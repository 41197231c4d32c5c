// What helps against losses on a key, as one sentence with the command to type. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/psp.pb.h"

namespace psp::sp {

// What is known of the losses on one key.
struct LossFacts {
  struct Column {
    std::string name;
    bool is_number = false;
    bool is_mrv = false;  // part of a Multi-Record Value already
  };
  proto::LossKind kind = proto::LOSS_ROW;
  std::string table;  // schema.table, quoted where PostgreSQL needs it; empty: not known
  // Those that the losers write; empty: not known.
  std::vector<Column> changed{};
  std::uint64_t losses = 0;
  std::string usual_winner{};  // the semi-primary that has won most; empty: not known
  std::uint64_t its_wins = 0;
};

std::string Remedy(const LossFacts& facts);

}  // namespace psp::sp
