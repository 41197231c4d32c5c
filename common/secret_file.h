// Files that hold a secret of a daemon.
#pragma once

#include <string>

namespace psp {

// Why a secret must not be read from there: it is no file, or others than its owner can read it (PostgreSQL's rule
// for its own keys: a file of root's may be readable by its group, too). "": no objection.
std::string ObjectionToSecretFile(const std::string& path);

}  // namespace psp
