#include "semi_primary/housekeeping/epoch_store.h"

#include <string>

#include "common/pg_binary.h"
#include "embedded/housekeeping_sql.h"

namespace psp::sp {

SavedEpochs ReadEpochs(pqxx::work& tx) {
  SavedEpochs saved;
  for (const pqxx::row& row : tx.exec(std::string(sql::kReadEpochs))) {
    saved.epochs.push_back({pqxx::binarystring(row["history"]).str(), row["start_t"].as<GlobalT>()});
    saved.follows_any = !row["binding"].as<bool>();
  }
  return saved;
}

PgResult<Done> SaveEpochs(PgSession& session, const EpochStarts& epochs) {
  ArrayWriter histories(kOidUuid);
  ArrayWriter starts(kOidInt8);
  for (const EpochStart& epoch : epochs) {
    histories.Add(std::string_view(epoch.history));
    starts.AddInt8(epoch.start_t);
  }
  return session.Transaction([&](pqxx::work& tx) {
    tx.exec0("SET LOCAL synchronous_commit = on");
    tx.exec0("DELETE FROM psp.epochs");
    tx.exec_params0(std::string(sql::kSaveEpochs), Binary(histories.Finish()), Binary(starts.Finish()));
  });
}

}  // namespace psp::sp
