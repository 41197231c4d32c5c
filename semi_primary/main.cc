// psp-semi-primary: claims the database, and runs the server.
#include <iostream>
#include <memory>

#include "common/daemon.h"
#include "common/log.h"
#include "semi_primary/hook_server/listen_address.h"
#include "semi_primary/server.h"
#include "semi_primary/settings.h"

namespace {

// Where the database's sessions (native mode) or clients (views mode) find this daemon. Returns what is
// wrong, or "".
std::string FindPlace(const psp::sp::SemiPrimarySettings& settings, std::string* served_at) {
  *served_at = settings.client_endpoint;
  if (settings.views_mode) return "";
  const auto address = psp::sp::ParseListenAddress(settings.hook_listen);
  if (!address) return "hook_listen: " + address.error();
  *served_at = address->Conninfo();
  if (!address->tls) return "";
  const auto endpoint = psp::sp::ParseEndpoint(settings.hook_endpoint);
  if (!endpoint) return "hook_endpoint: " + endpoint.error();
  *served_at = psp::sp::TlsConninfo(*endpoint, settings.hook_root_certificate);
  if (settings.hook_root_certificate == psp::sp::kNoRoots)
    spdlog::warn(
        "hook_root_certificate is none: the database's server does not know the daemon, and who is between "
        "them can "
        "read every row");
  return "";
}

int Serve(const psp::sp::SemiPrimarySettings& settings, psp::StopSignals& stop) {
  std::string served_at;
  if (const std::string problem = FindPlace(settings, &served_at); !problem.empty())
    return psp::BadConfiguration(problem);
  psp::sp::Housekeeper housekeeper(settings.database, settings.views_mode,
                                   settings.request_retention_h * 3600);
  psp::StartAttempts attempts(stop);
  const auto identity = attempts.Run([&] { return housekeeper.Claim(settings.name, served_at); });
  if (!identity) return attempts.exit_code();
  std::unique_ptr<psp::sp::Server> server;
  try {
    server = std::make_unique<psp::sp::Server>(settings, *identity, &housekeeper);
  } catch (const zmq::error_t& problem) {
    return psp::BadConfiguration("primary: cannot connect to " + settings.primary + ": " + problem.what());
  }
  if (const auto served = server->ServeMetrics(); !served.ok())
    return psp::BadConfiguration("metrics_listen: " + served.error());
  const auto started = server->Start();
  if (!started)
    return psp::BadConfiguration((settings.views_mode ? "client_listen: " : "hook_listen: ") +
                                 started.error());
  return server->Run(stop, [] { std::cout << "ready" << std::endl; });
}

}  // namespace

int main(int argc, char** argv) {
  psp::sp::SemiPrimarySettings values;
  return psp::RunDaemon(psp::sp::DeclareSemiPrimarySettings(&values), argc, argv,
                        [&](psp::StopSignals& stop) { return Serve(values, stop); });
}
