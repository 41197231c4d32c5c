// What IsValue says is what PostgreSQL says: no value that it sends is refused, nor one that it takes and leaves as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <pqxx/pqxx>
#include <random>
#include <string>
#include <vector>

#include "common/hex.h"
#include "writeset/values.h"

namespace psp::primary {
namespace {

struct Kind {
  const char* type;
  const char* values;    // a query of some
  bool is_known = true;  // what PostgreSQL refuses is refused
};

constexpr const char* kTexts =
    "SELECT substr(repeat(t, 70), 1, n % 6) FROM unnest('{a,ä,€,𝄞,ab c}'::text[]) t, generate_series(1, 6) n";
constexpr const char* kNumerics =
    "SELECT * FROM "
    "unnest('{0,0.00,1,-1,1.50,0.0001,10000,9999.9999,1e100,-1e-30,NaN,Infinity,-Infinity}'::numeric[]) "
    "UNION ALL "
    "SELECT round(((random() - 0.5) * 10 ^ (n % 9))::numeric, n % 13) FROM generate_series(1, 40) n";

const Kind kKinds[] = {
    {"boolean", "SELECT unnest('{t,f}'::bool[])"},
    {"\"char\"", "SELECT chr(n)::\"char\" FROM generate_series(1, 127, 9) n"},
    {"smallint", "SELECT n FROM generate_series(-32768, 32767, 5000) n"},
    {"integer", "SELECT n FROM generate_series(-32768, 32767, 5000) n"},
    {"bigint", "SELECT n FROM generate_series(-32768, 32767, 5000) n"},
    {"oid", "SELECT n::oid FROM generate_series(0, 32767, 5000) n"},
    {"real", "SELECT unnest('{0,-0,1.5,NaN,Infinity,-Infinity}'::real[])"},
    {"double precision", "SELECT unnest('{0,-0,1.5,NaN,Infinity,-Infinity}'::float8[])"},
    {"money", "SELECT n::money FROM generate_series(-10, 10) n"},
    {"numeric", kNumerics},
    {"numeric(5,2)",
     "SELECT (n / 7.0)::numeric(5,2) FROM generate_series(-6990, 6990, 331) n UNION ALL SELECT 'NaN'"},
    {"numeric(3,-2)", "SELECT n FROM generate_series(-99900, 99900, 7770) n"},
    {"numeric(3,5)", "SELECT n / 100000.0 FROM generate_series(-999, 999, 111) n"},
    {"text", kTexts},
    {"varchar(5)", kTexts},
    {"varchar", kTexts},
    {"char(5)", kTexts},
    {"bpchar", kTexts},
    {"name", "SELECT repeat('ä', n)::name FROM generate_series(0, 31) n"},
    {"bytea", "SELECT decode(md5(n::text), 'hex') FROM generate_series(1, 10) n"},
    {"uuid", "SELECT md5(n::text)::uuid FROM generate_series(1, 10) n"},
    {"date",
     "SELECT unnest('{4714-11-24 BC,5874897-12-31,2000-01-01,infinity,-infinity,2026-02-28}'::date[])"},
    {"time", "SELECT unnest('{00:00,24:00,12:34:56.789}'::time[])"},
    {"time(2)", "SELECT unnest('{00:00,24:00,12:34:56.789}'::time[])"},
    {"timetz", "SELECT unnest('{00:00+15:59:59,24:00-15:59:59,12:34:56.789Z}'::timetz[])"},
    {"timestamp",
     "SELECT unnest('{4714-11-24 BC,294276-12-31 23:59:59.999999,infinity,-infinity,2026-02-28 "
     "12:34:56.789}'::timestamp[])"},
    {"timestamp(3)",
     "SELECT unnest('{4714-11-24 BC,294276-12-31 23:59:59.999,infinity,-infinity,2026-02-28 "
     "12:34:56.789}'::timestamp[])"},
    {"timestamptz",
     "SELECT unnest('{4714-11-25 BC,294276-12-30 23:59:59.999999,infinity,-infinity,2026-02-28 "
     "12:34:56.789}'::timestamptz[])"},
    {"interval", "SELECT unnest('{0,1 month,-1 day,178000000 years,00:00:00.000001}'::interval[])"},
    {"interval(2)", "SELECT unnest('{0,1 month,-1 day,178000000 years,00:00:00.01}'::interval[])"},
    {"inet", "SELECT unnest('{127.0.0.1,10.1.2.3/8,::1,2001:db8::1/32,0.0.0.0/0}'::inet[])"},
    {"cidr", "SELECT unnest('{127.0.0.1,10.0.0.0/8,::1,2001:db8::/32,0.0.0.0/0,192.168.4.0/22}'::cidr[])"},
    {"macaddr", "SELECT unnest('{08:00:2b:01:02:03}'::macaddr[])"},
    {"macaddr8", "SELECT unnest('{08:00:2b:01:02:03:04:05}'::macaddr8[])"},
    {"bit(3)", "SELECT n::bit(3) FROM generate_series(0, 7) n"},
    {"bit(11)", "SELECT n::bit(11) FROM generate_series(0, 2047, 99) n"},
    {"varbit", "SELECT n::bit(11)::varbit FROM generate_series(0, 2047, 99) n UNION ALL SELECT ''"},
    {"varbit(11)", "SELECT n::bit(9)::varbit FROM generate_series(0, 511, 99) n UNION ALL SELECT ''"},
    {"point", "SELECT point(n, -n) FROM generate_series(1, 5) n"},
    {"lseg", "SELECT lseg(point(n, -n), point(2, n)) FROM generate_series(1, 5) n"},
    {"box", "SELECT box(point(n, -n), point(2, n)) FROM generate_series(1, 5) n"},
    {"pg_lsn", "SELECT '16/B374D848'::pg_lsn"},
    {"tid", "SELECT '(7,8)'::tid"},
    {"xid", "SELECT '7'::xid"},
    {"xid8", "SELECT '7'::xid8"},
    {"cid", "SELECT '7'::cid"},
    {"json", "SELECT to_json(t) FROM pg_type t LIMIT 3", false},
    {"jsonb", "SELECT to_jsonb(t) FROM pg_type t LIMIT 3", false},
    {"int4range", "SELECT int4range(n, n * n) FROM generate_series(0, 4) n", false},
    {"nummultirange", "SELECT nummultirange(numrange(n, n * n)) FROM generate_series(0, 4) n", false},
    {"int[]", "SELECT ARRAY[n, NULL] FROM generate_series(0, 4) n", false},
    {"tsvector", "SELECT 'a b:3'::tsvector", false},
};

class ValuesIntegrationTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    const char* dsn = std::getenv("PSP_TEST_DSN");
    if (dsn == nullptr) {
      std::cerr << "\n*** SKIPPED: PSP_TEST_DSN is not set; use tools/with_postgres.sh ***\n\n";
      GTEST_SKIP();
    }
    connection_.emplace(std::string(dsn) + " client_encoding=UTF8");
    pqxx::nontransaction tx(*connection_);
    tx.exec("SET client_min_messages = error");
    tx.exec("CREATE TEMP TABLE probe (v " + std::string(GetParam().type) + ")");
    const pqxx::row facts = tx.exec1(
        "SELECT a.atttypid, a.atttypmod, t.typsend FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " WHERE a.attrelid = 'probe'::regclass AND a.attnum = 1");
    form_ = {facts[0].as<std::uint32_t>(), facts[1].as<std::int32_t>(), false};
    send_ = facts[2].as<std::string>();
  }

  std::vector<std::string> Sent() {
    pqxx::nontransaction tx(*connection_);
    tx.exec("SELECT setseed(0.5)");
    tx.exec("INSERT INTO probe " + std::string(GetParam().values));
    std::vector<std::string> values;
    for (const pqxx::row& row : tx.exec("SELECT encode(" + send_ + "(v), 'hex') FROM probe"))
      values.push_back(*DecodeHex(row[0].c_str()));
    return values;
  }

  // What it sends of the value that it has received; nothing: it has refused it.
  std::optional<std::string> Received(const std::string& value) {
    pqxx::nontransaction tx(*connection_);
    const pqxx::binarystring bytes(value);
    try {
      const pqxx::row row =
          tx.exec_params1("INSERT INTO probe VALUES ($1) RETURNING encode(" + send_ + "(v), 'hex')", bytes);
      return *DecodeHex(row[0].c_str());
    } catch (const pqxx::failure&) {
      return std::nullopt;
    }
  }

  std::string Spoiled(std::string value) {
    const auto random = [&](std::size_t end) {
      return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
    };
    for (std::size_t left = 1 + random(2); left > 0; --left) {
      const std::size_t at = random(value.size() + 1);
      switch (random(6)) {
        case 0:
          value.insert(at, 1, static_cast<char>(random(256)));
          break;
        case 1:
          value.erase(at, 1);
          break;
        case 2:
          value.resize(at);
          break;
        case 3:
          if (at < value.size()) value[at] = static_cast<char>(random(256));
          break;
        case 4:
          if (at < value.size()) value[at] = static_cast<char>(value[at] + (random(2) == 0 ? 1 : -1));
          break;
        default:
          if (at < value.size()) value[at] = static_cast<char>(value[at] ^ (1 << random(8)));
      }
    }
    return value;
  }

  std::optional<pqxx::connection> connection_;
  ColumnForm form_;
  std::string send_;
  std::mt19937 random_{7};
};

TEST_P(ValuesIntegrationTest, IsAsPostgresqlSays) {
  const std::vector<std::string> values = Sent();
  ASSERT_THAT(values, testing::Not(testing::IsEmpty()));
  for (const std::string& value : values) EXPECT_TRUE(IsValue(form_, value)) << EncodeHex(value);
  constexpr std::size_t kSpoiled = 600;
  for (std::size_t i = 0; i < kSpoiled; ++i) {
    const std::string value = Spoiled(values[i % values.size()]);
    const auto received = Received(value);
    if (received == value) {
      EXPECT_TRUE(IsValue(form_, value)) << EncodeHex(value);
    } else if (!received && GetParam().is_known) {
      EXPECT_FALSE(IsValue(form_, value)) << EncodeHex(value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ValuesIntegrationTest, testing::ValuesIn(kKinds),
                         [](const auto& param) { return "Type" + std::to_string(param.index); });

}  // namespace
}  // namespace psp::primary
