// psp-wan: distance between network namespaces, packet by packet. See README.md.
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <asio.hpp>
#include <iostream>
#include <istream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "benchmarks/wan/carrier.h"
#include "benchmarks/wan/site.h"

namespace {

// A line does not wait for a processor, however busy the servers keep all of them.
void TakePrecedence() {
  const sched_param priority{.sched_priority = 10};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
    std::cerr << "psp-wan: no precedence over other processes, packets may be late\n";
  }
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds
}

// Commands from standard input, a line each, each answered by a line. When the input ends, the program ends: it does not
// outlive the program that has started it.
class Commands {
 public:
  Commands(asio::io_context& io, psp::wan::Carrier& carrier)
      : io_(io), carrier_(carrier), input_(io, dup(STDIN_FILENO)) {}

  void Read() {
    asio::async_read_until(input_, bytes_, '\n', [this](const std::error_code& error, size_t) {
      if (error) return io_.stop();
      std::istream stream(&bytes_);
      std::string line;
      std::getline(stream, line);
      std::cout << carrier_.OnCommand(line) << std::endl;
      Read();
    });
  }

 private:
  asio::io_context& io_;
  psp::wan::Carrier& carrier_;
  asio::posix::stream_descriptor input_;
  asio::streambuf bytes_;
};

void Run(const std::vector<std::string>& texts) {
  std::vector<psp::wan::Site> sites;
  for (const std::string& text : texts) {
    auto site = psp::wan::ParseSite(text);
    if (!site) throw std::invalid_argument("'" + text + "' is not NAME:NAMESPACE:ADDRESS:ROUND_TRIP_MS");
    sites.push_back(*site);
  }
  asio::io_context io(1);
  psp::wan::Carrier carrier(io, sites);
  Commands commands(io, carrier);
  TakePrecedence();
  std::cout << "ready" << std::endl;
  commands.Read();
  io.run();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Connects network namespaces over lines with the delays of a wide-area network. Needs root."};
  std::vector<std::string> sites;
  app.add_option("--site", sites,
                 "NAME:NAMESPACE:ADDRESS:ROUND_TRIP_MS, the last one to the hub (the hub's own: 0)")
      ->required()
      ->expected(2, 100);
  try {
    app.parse(argc, argv);
    Run(sites);
    return 0;
  } catch (const CLI::ParseError& error) {  // --help is one, too, which ends with 0
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "psp-wan: " << error.what() << '\n';
    return 2;
  }
}
