// The free space of the disk with PostgreSQL's data, for psp primary status, psp top, psp console and psp doctor.
#pragma once

#include <pqxx/pqxx>

namespace psp::primary {

// Writes it into psp.disk_space, if the session's server is at this machine and says where its data are.
void WriteDiskSpace(pqxx::transaction_base& tx);

}  // namespace psp::primary
