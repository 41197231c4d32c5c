#include "semi_primary/settings.h"

#include "common/declare_commit_choice.h"
#include "common/metrics/http_responder.h"
#include "common/sockets.h"
#include "embedded/constants.h"
#include "semi_primary/hook_server/listen_address.h"
#include "semi_primary/hook_server/tls_certificate.h"
#include "semi_primary/primary_sockets.h"

namespace psp::sp {
namespace {

std::string CheckListen(std::string_view value) {
  const auto address = ParseListenAddress(value);
  return address ? "" : address.error();
}

// A ZeroMQ address that others can connect to as it stands.
bool IsConnectable(std::string_view endpoint) {
  return endpoint.find('*') == std::string_view::npos && !endpoint.starts_with("tcp://0.0.0.0:") &&
         !endpoint.starts_with("tcp://[::]:") && !endpoint.ends_with(":0");
}

std::string CheckEndpointText(std::string_view value) {
  const auto endpoint = value.empty() ? Endpoint{} : ParseEndpoint(value);
  return endpoint ? "" : endpoint.error();
}

// A file on another host: only its form can be checked.
std::string CheckRoots(std::string_view value) {
  if (value.empty() || value.starts_with('/') || value == kSystemRoots || value == kNoRoots) return "";
  return "must be a whole path (of a file on the database's server), or " + std::string(kSystemRoots) +
         ", or " + std::string(kNoRoots);
}

// The problem that TlsCertificate has with this one of the two files.
std::string CertificateProblem(const SemiPrimarySettings& settings, bool of_key) {
  const auto loaded = TlsCertificate::Load({settings.hook_certificate_file, settings.hook_key_file});
  return loaded.ok() || loaded.error().of_key != of_key ? "" : loaded.error().what;
}

// What hook_listen with TLS requires, and what has no meaning without.
void DeclareTlsRules(Settings& declared, SemiPrimarySettings* settings) {
  const auto rule = [settings](const std::string* value, auto check) {
    return [=](bool given) -> std::string {
      const bool tls = settings->hook_listen.starts_with(kTlsPrefix);
      if (!tls) return given ? "has a meaning only with hook_listen: tls://ADDRESS:PORT" : "";
      return value->empty() ? "is required with hook_listen: tls://ADDRESS:PORT" : check();
    };
  };
  declared.Together("hook_certificate_file", rule(&settings->hook_certificate_file, [settings] {
                      return CertificateProblem(*settings, false);
                    }));
  declared.Together("hook_key_file", rule(&settings->hook_key_file,
                                          [settings] { return CertificateProblem(*settings, true); }));
  declared.Together("hook_root_certificate",
                    rule(&settings->hook_root_certificate, [] { return std::string(); }));
  const auto check_endpoint =
      rule(&settings->hook_endpoint, [settings] { return CheckEndpointText(settings->hook_endpoint); });
  declared.Together("hook_endpoint", [settings, check_endpoint](bool given) {
    if (settings->hook_endpoint.empty() && settings->hook_listen.starts_with(kTlsPrefix))
      settings->hook_endpoint = settings->hook_listen.substr(kTlsPrefix.size());
    return check_endpoint(given);
  });
}

// Settings that the mode requires, and settings without a meaning in it.
void DeclareRules(Settings& declared, SemiPrimarySettings* settings) {
  const auto only_in_views = [settings](bool given) {
    return given && !settings->views_mode ? "has a meaning only in mode views" : "";
  };
  declared.Together("mode", [settings](bool) {
    settings->views_mode = settings->mode == "views";
    return "";
  });
  declared.Together("hook_listen", [settings](bool given) {
    if (given && settings->views_mode) return "has a meaning only in mode native";
    return given || settings->views_mode ? "" : "is required in mode native";
  });
  declared.Together("client_listen", [settings](bool given) {
    if (given && !settings->views_mode) return "has a meaning only in mode views";
    return given || !settings->views_mode ? "" : "is required in mode views";
  });
  declared.Together("client_endpoint", [settings](bool given) {
    if (given && !settings->views_mode) return "has a meaning only in mode views";
    if (!settings->views_mode) return "";
    if (!given) settings->client_endpoint = settings->client_listen;
    return IsConnectable(settings->client_endpoint) ? "" : "must be an address that clients can connect to";
  });
  declared.Together("key_file",
                    [settings](bool) { return LoadClusterKey(settings->key_file, &settings->key); });
  for (const char* name : {"local_certification", "wait_for_apply", "lworkers", "gc_interval_ms",
                           "running_timeout_ms", "forget_after_ms"}) {
    declared.Together(name, only_in_views);
  }
}

void DeclareTlsTexts(Settings& declared, SemiPrimarySettings* settings) {
  declared.Text(
      {.name = "hook_certificate_file",
       .description = "with tls://: the daemon's certificate, and those between it and its root (PEM); read "
                      "again when it changes"},
      &settings->hook_certificate_file);
  declared.Text(
      {.name = "hook_key_file", .description = "with tls://: the private key of hook_certificate_file"},
      &settings->hook_key_file);
  declared.Text(
      {.name = "hook_endpoint",
       .description = "with tls://: HOST:PORT at which the database's server reaches hook_listen, if it is "
                      "another one; the certificate must name HOST",
       .check = CheckEndpointText},
      &settings->hook_endpoint);
  declared.Text(
      {.name = "hook_root_certificate",
       .description = "with tls://: by which the database's server knows the daemon: the path of a root "
                      "certificate there, system (the roots that it trusts anyway, PostgreSQL 16), or none "
                      "(it does not know, see docs/security.md)",
       .check = CheckRoots},
      &settings->hook_root_certificate);
}

void DeclareTexts(Settings& declared, SemiPrimarySettings* settings) {
  declared.Text({.name = "name",
                 .description = "this semi-primary's name, as it was registered",
                 .required = true,
                 .example = "sp1"},
                &settings->name);
  declared.Text({.name = "database",
                 .description = "the local PostgreSQL database, a libpq connection string",
                 .required = true,
                 .example = "host=/var/run/postgresql dbname=app user=psp_semi_primary"},
                &settings->database);
  declared.Text({.name = "primary",
                 .description = "where the primary listens: tcp://HOST:PORT; several with commas where one "
                                "of several psp-primary serves",
                 .required = true,
                 .check = CheckEndpoints,
                 .example = "tcp://127.0.0.1:5610"},
                &settings->primary);
  declared.Text({.name = "key_file",
                 .description = "the cluster's key, a copy of the primary's file; empty where it has none"},
                &settings->key_file);
  declared.Text(
      {.name = "metrics_listen",
       .description = "where GET /metrics (Prometheus) and GET /health are answered: ADDRESS:PORT, such as "
                      "127.0.0.1:9611; empty: nowhere. Everybody who reaches it can read them",
       .check = CheckHttpAddress},
      &settings->metrics_listen);
  declared.Text({.name = "mode",
                 .description = "how the database is under psp: adopted (native) or converted (views)",
                 .default_value = "native",
                 .allowed = {"native", "views"}},
                &settings->mode);
  declared.Text({.name = "hook_listen",
                 .description = "where the commit hook's server listens: unix:/directory/.s.PGSQL.PORT or "
                                "127.0.0.1:PORT; tls://ADDRESS:PORT if the database is on another host "
                                "(required in mode native)",
                 .check = CheckListen,
                 .example = "127.0.0.1:5640",
                 .in_sample = true},
                &settings->hook_listen);
  DeclareTlsTexts(declared, settings);
  declared.Text(
      {.name = "client_listen",
       .description = "where clients' commit requests arrive, tcp://ADDRESS:PORT (required in mode views)",
       .check = CheckEndpoint},
      &settings->client_listen);
  declared.Text(
      {.name = "client_endpoint",
       .description = "the address at which clients reach client_listen, if it is another one (mode views)",
       .check = CheckEndpoint},
      &settings->client_endpoint);
}

void DeclareIntegers(Settings& declared, SemiPrimarySettings* settings) {
  declared.Integer("conflict_grace_ms",
                   "how long a local transaction may block remote ones before it is ended", 1000, 0, 3600000,
                   &settings->conflict_grace_ms);
  declared.Integer("trigger_timeout_ms",
                   "how long rows of a batch of other servers, and ENABLE ALWAYS or REPLICA triggers of "
                   "their tables, may take before "
                   "they are ended, and code that does not end is set aside (mode native)",
                   60000, 100, 86400000, &settings->trigger_timeout_ms);
  declared.Integer(
      "commit_timeout_ms",
      "how long a COMMIT waits for the primary's decision, plus 1 s for each MB of its write-set", 10000, 100,
      3600000, &settings->commit_timeout_ms);
  declared.Integer("disconnected_grace_ms", "how long a new COMMIT waits for a lost primary to come back",
                   1000, 0, 3600000, &settings->disconnected_grace_ms);
  declared.Integer("apply_batch_transactions_max", "most transactions that are applied together", 256, 1,
                   100000, &settings->apply_batch_transactions_max);
  declared.Integer("apply_batch_bytes_max", "most bytes that are applied together", 16 << 20, 1, 1 << 30,
                   &settings->apply_batch_bytes_max);
  declared.Integer(
      "apply_pace_ms",
      "least time between two batches of remote transactions, while no local one loses for the lack of "
      "them; longer costs less (mode native)",
      20, 0, 1000, &settings->apply_pace_ms);
  declared.Integer("ack_interval_ms", "time between the apply worker's commits that wait for the disk", 1000,
                   1, 3600000, &settings->ack_interval_ms);
  declared.Integer(
      "standby_lag_ms",
      "how far an asynchronous standby of this PostgreSQL may lag and need no new join when it is "
      "promoted: for so much longer the primary keeps its log",
      0, 0, 86400000, &settings->standby_lag_ms);
  declared.Integer("write_set_bytes_max", "largest write-set of one transaction; a larger one is refused",
                   268435456, 1024, kWriteSetBytesLimit, &settings->write_set_bytes_max);
  declared.Integer("waiting_bytes_max",
                   "most bytes of write-sets that wait for the primary; beyond it transactions are refused",
                   1 << 30, 1024, std::int64_t{1} << 40, &settings->waiting_bytes_max);
  declared.Integer("hook_connections_max", "most backends connected to the commit hook's server", 1000, 1,
                   100000, &settings->hook_connections_max);
  declared.Integer("request_retention_h",
                   "hours for which the answers of requests are known at least (psp.request; mode native)",
                   168, 24, 87600, &settings->request_retention_h);
  declared.Integer(
      "lworkers",
      "local workers: sessions that take commit requests and apply local transactions (mode views)", 4, 1, 64,
      &settings->lworkers);
  declared.Integer("gc_interval_ms", "time between two rounds of the garbage collector (mode views)", 2000,
                   10, 86400000, &settings->gc_interval_ms);
  declared.Integer(
      "running_timeout_ms",
      "how long after its begin a transaction may request its commit; after that it is aborted (mode views)",
      3600000, 1, 86400000, &settings->running_timeout_ms);
  declared.Integer(
      "forget_after_ms",
      "how long finished transactions are remembered here; after that the primary is asked (mode views)",
      86400000, 0, std::int64_t{1} << 40, &settings->forget_after_ms);
  declared.Integer("heartbeat_timeout_ms", "silence after which the primary counts as lost", 3000, 100,
                   3600000, &settings->heartbeat_timeout_ms);
  declared.Boolean(
      {.name = "local_certification",
       .description =
           "whether the semi-primary itself looks for conflicts with what has arrived (mode views)",
       .default_value = true},
      &settings->local_certification);
  declared.Boolean({.name = "wait_for_apply",
                    .description = "true: a commit is answered when it can be read here; false: as soon as "
                                   "it is decided (mode views)",
                    .default_value = true},
                   &settings->wait_for_apply);
}

}  // namespace

Settings DeclareSemiPrimarySettings(SemiPrimarySettings* into) {
  Settings declared("psp-semi-primary",
                    "Executes near its clients; certifies at the primary; applies what others commit.");
  DeclareTexts(declared, into);
  DeclareIntegers(declared, into);
  DeclareCommitChoice(declared, &into->logged);
  DeclareRules(declared, into);
  DeclareTlsRules(declared, into);
  return declared;
}

}  // namespace psp::sp
