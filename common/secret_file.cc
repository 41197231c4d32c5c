#include "common/secret_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace psp {

std::string ObjectionToSecretFile(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return "'" + path + "': " + std::strerror(errno);
  if (!S_ISREG(file.st_mode)) return "'" + path + "' is not a file";
  const mode_t forbidden = file.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  if ((file.st_mode & forbidden) == 0) return {};
  return "'" + path + "' can be read by others: chmod 600 (640 if it belongs to root)";
}

}  // namespace psp
