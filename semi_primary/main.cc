// psp-semi-primary: claims the database, and runs the server.
#include <iostream>

#include "common/daemon.h"
#include "semi_primary/server.h"
#include "semi_primary/settings.h"

namespace {

int Serve(const psp::SemiPrimarySettings& settings, psp::StopSignals& stop) {
  const auto address = psp::ParseListenAddress(settings.hook_listen);
  if (!address) return psp::BadConfiguration("hook_listen: " + address.error());
  psp::StatusWriter status(settings.database);
  const auto identity = status.Open(settings.name, address->Conninfo());
  if (!identity) return psp::BadConfiguration("database: " + identity.error());
  psp::Server server(settings, *address, *identity, &status);
  const auto started = server.Start();
  if (!started) return psp::BadConfiguration("hook_listen: " + started.error());
  std::cout << "ready" << std::endl;
  return server.Run(stop);
}

}  // namespace

int main(int argc, char** argv) {
  psp::SemiPrimarySettings values;
  return psp::RunDaemon(psp::DeclareSemiPrimarySettings(&values), argc, argv,
                        [&](psp::StopSignals& stop) { return Serve(values, stop); });
}
