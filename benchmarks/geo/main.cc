// psp-georelay: makes loopback as slow as the distance between two places. See README.md.
#include <CLI/CLI.hpp>
#include <asio.hpp>
#include <csignal>
#include <iostream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "benchmarks/geo/relay.h"

namespace {

std::pair<std::string, std::string> HostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    throw std::invalid_argument("'" + text + "' is not HOST:PORT");
  }
  return {text.substr(0, colon), text.substr(colon + 1)};
}

int Run(const psp::geo::RelayOptions& options) {
  asio::io_context io(1);
  psp::geo::Relay relay(io, options);
  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&io](const std::error_code&, int) { io.stop(); });
  std::cout << "ready" << std::endl;
  io.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Relays TCP connections and delays each direction, as a wide-area link does."};
  std::string listen;
  std::string target;
  double one_way_ms = 0;
  double mbit = 0;
  app.add_option("--listen", listen, "HOST:PORT to accept connections on")->required();
  app.add_option("--target", target, "HOST:PORT to pass them on to; may be down or come later")->required();
  app.add_option("--one-way-ms", one_way_ms, "delay of each direction: half the round-trip time")
      ->required()
      ->check(CLI::Range(0.0, 60000.0));
  app.add_option("--mbit", mbit,
                 "bandwidth of each direction in Mbit/s, shared by all connections (0: no limit)")
      ->check(CLI::Range(0.0, 1e6));
  try {
    app.parse(argc, argv);
    psp::geo::RelayOptions options;
    std::tie(options.listen_host, options.listen_port) = HostAndPort(listen);
    std::tie(options.target_host, options.target_port) = HostAndPort(target);
    options.one_way = std::chrono::duration_cast<psp::geo::Clock::duration>(
        std::chrono::duration<double, std::milli>(one_way_ms));
    options.bytes_per_s = static_cast<int64_t>(mbit * 1e6 / 8);
    return Run(options);
  } catch (const CLI::ParseError& error) {  // --help is one, too, which ends with 0
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "psp-georelay: " << error.what() << '\n';
    return 2;
  }
}
