#include "primary/publish/disk_space.h"

#include <sys/statvfs.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "embedded/publish_sql.h"

namespace psp::primary {
namespace {

// A port of this machine may lead to another one, or into a container: there the backend has another number.
bool IsHere(pqxx::connection_base& connection) {
  const char* host = connection.hostname();
  const std::string name = host == nullptr ? "" : host;
  if (!name.empty() && name[0] != '/' && name != "localhost" && name != "127.0.0.1" && name != "::1")
    return false;
  std::ifstream file("/proc/" + std::to_string(connection.backendpid()) + "/comm");
  std::string program;
  return std::getline(file, program) && program == "postgres";
}

}  // namespace

void WriteDiskSpace(pqxx::transaction_base& tx) {
  if (!IsHere(tx.conn())) return;
  const auto directory = tx.exec1("SELECT psp.data_directory()")[0];
  struct statvfs found {};
  if (directory.is_null() || ::statvfs(directory.c_str(), &found) != 0) return;
  const auto bytes = [&](fsblkcnt_t blocks) { return static_cast<std::int64_t>(blocks * found.f_frsize); };
  tx.exec_params(std::string(sql::kWriteDiskSpace), bytes(found.f_bavail), bytes(found.f_blocks));
}

}  // namespace psp::primary
