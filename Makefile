# What people type. `make help` lists it. Everything that is made stays in build*/ and .venv/.
BUILD   ?= build
VENV    ?= .venv
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
SECONDS ?= 60
RESULTS ?= results
MODE    ?= native
PREFIX  ?= /usr/local
PYTHON   = $(VENV)/bin/python
DAEMONS  = psp-primary psp-semi-primary psp-mrv psp-georelay

# The psp command finds the daemons, and the checks find their tools.
export PSP_BIN := $(abspath $(BUILD))/bin
export PATH := $(abspath $(VENV))/bin:$(PATH)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---- what everything else needs -------------------------------------------------------------------
deps:  ## install the system packages that are missing (Debian 12; root or sudo)
	@tools/install_deps.sh

venv: deps  ## the Python environment with the psp command
	@tools/check_writable.sh $(VENV)
	@tools/make_venv.sh $(VENV)

build: deps  ## the daemons and their tests, in build/bin
	@tools/build.sh $(BUILD) off $(JOBS)

daemons: deps  ## the daemons and the server modules, without their tests
	@tools/build.sh $(BUILD) off $(JOBS) $(DAEMONS) psp_server_modules

install: daemons  ## the daemons, psp and systemd units under PREFIX (/usr/local), independent of this tree
	@tools/install.sh $(PREFIX) $(BUILD)

deb: venv  ## Debian packages of the daemons, psp and the server modules, in build/deb
	@tools/install_deps.sh tools/deb-packages.txt
	@tools/make_deb.sh $(BUILD) $(abspath $(VENV))

uninstall:  ## remove what install put under PREFIX
	@tools/install.sh --remove $(PREFIX)

# ---- running it -----------------------------------------------------------------------------------
demo-plan:
	@tools/demo_plan.sh $(SECONDS) $(BUILD) $(VENV)

demo: demo-plan daemons venv  ## three zones against one far PostgreSQL (SECONDS=10: shorter; MODE=views, MODE=both)
	@tools/check_writable.sh $(RESULTS)
	@$(PYTHON) -m benchmarks.demo --mode $(MODE) --seconds $(SECONDS) --results $(RESULTS)

# bench-NAME is benchmarks/NAME, bench-mrv-tpcc is benchmarks/mrv/tpcc; no file is ever made by that name, so these
# always run.
bench-%: daemons venv  ## a benchmark, such as bench-overhead or bench-mrv-geo (benchmarks/README.md lists them)
	@$(PYTHON) -m benchmarks.$(subst -,.,$*) $(ARGS)

bench-primary: batches
batches: deps  # the program that bench-primary runs
	@tools/build.sh $(BUILD) off $(JOBS) psp-batches

bench-peers: peers-programs
peers-programs: deps  # what bench-peers runs beside the daemons; it needs root
	@benchmarks/peers/install.sh $(BUILD)/bin
	@tools/build.sh $(BUILD) off $(JOBS) psp-wan

# ---- proving it -----------------------------------------------------------------------------------
# Where PostgreSQL cannot be fetched, the tests that need it fail, and say so. ALSO="retrying poolers alerts": with those
# tests, each of which has a target of its own, too.
# What seldom fails by itself takes turns: the commit chooses a third of it, or TURN=0, 1 or 2.
test: build venv $(ALSO:%=for-%)  ## unit, SQL, cluster and benchmark tests; of what seldom fails a third (TURN=0)
	@-$(MAKE) --no-print-directory versions
	@$(PYTHON) tools/run_tests.py --build $(BUILD) --jobs $(JOBS) --turn $(TURN) $(if $(ALSO),--also $(ALSO))

test-all: build venv  ## the same and nothing left out
	@-$(MAKE) --no-print-directory versions
	@$(PYTHON) tools/run_tests.py --build $(BUILD) --jobs $(JOBS)

versions: build venv  ## PostgreSQL 16, 17 and 18 for tests (in build/postgres), and the server modules for them
	@$(PYTHON) tools/fetch_postgres.py $(BUILD)/postgres
	@tools/build.sh $(BUILD) off $(JOBS)

test-versions: versions  ## SQL and cluster tests on PostgreSQL 16, 17 and 18
	@$(PYTHON) tools/run_tests.py --build $(BUILD) --jobs $(JOBS) --versions

test-sql-capture: build venv  ## SQL, cluster and benchmark tests without the server modules: SQL captures and certifies
	@-$(MAKE) --no-print-directory versions
	@$(PYTHON) tools/run_tests.py --build $(BUILD) --jobs $(JOBS) --without-module

# Random statements; a case that fails prints its seed, which SEEDS=… runs again: SEEDS=7, SEEDS=1-100.
fuzz: daemons venv  ## random statements on two semi-primaries and a plain PostgreSQL (SECONDS=600; SEEDS=1-100)
	@$(PYTHON) -m tests.fuzz --seconds $(SECONDS) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

fuzz-changes: daemons venv  ## random schema changes by several roles at two semi-primaries (SECONDS, SEEDS as above)
	@$(PYTHON) -m tests.fuzz.changes --seconds $(SECONDS) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

fuzz-wire: daemons venv  ## a semi-primary that was taken over and sends what it should not (SECONDS, SEEDS as above)
	@$(PYTHON) -m tests.fuzz.wire --seconds $(SECONDS) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

fuzz-mutations: daemons venv  ## the defects of tests/fuzz/mutations.py put back one by one: the fuzzer finds each
	@$(PYTHON) -m tests.fuzz.mutations $(ARGS)

# SEEDS=7, SEEDS=1-3: the seed draws what is killed and when. Three minutes each.
test-migration: daemons venv  ## a migration under TPC-C at three distant SPs, with SIGKILL in the middle (SEEDS=1-3)
	@tools/check_writable.sh $(RESULTS)
	@SEEDS=$(or $(SEEDS),1) RESULTS=$(abspath $(RESULTS)) $(PYTHON) -m pytest -q -s -c schema_tool/pyproject.toml --rootdir . tests/migration/test_migration.py $(ARGS)

# SEEDS as above.
test-references: daemons venv  ## children and parents in a storm at three distant SPs, with SIGKILL: no orphan (SEEDS=1-3)
	@tools/check_writable.sh $(RESULTS)
	@SEEDS=$(or $(SEEDS),1) RESULTS=$(abspath $(RESULTS)) $(PYTHON) -m pytest -q -s -c schema_tool/pyproject.toml --rootdir . tests/references/test_references.py $(ARGS)

# SEEDS as above: the order of the faults and their moments. FAULTS=psp-primary: those only that have it in their names. Eight minutes or more each.
test-failover: daemons venv  ## Patroni and etcd beside the primary: leader, node, Patroni, psp-primary, etcd are killed (SEEDS=1-3)
	@tools/check_writable.sh $(RESULTS)
	@tools/fetch_patroni.sh $(BUILD)/failover $(VENV)
	@SEEDS=$(or $(SEEDS),1) FAULTS="$(FAULTS)" RESULTS=$(abspath $(RESULTS)) FAILOVER_PROGRAMS=$(abspath $(BUILD))/failover $(PYTHON) -m pytest -q -s -c schema_tool/pyproject.toml --rootdir . tests/failover/test_failover.py $(ARGS)

# Needs the network: PyPI, and Maven and Debian's ruby-activerecord and ruby-pg. APPS="shop conductor" runs these only.
test-histories: daemons venv  ## the migrations of real applications at one of three SPs, while the others write (APPS=…)
	@tools/check_writable.sh $(RESULTS)
	@APPS="$(APPS)" RESULTS=$(abspath $(RESULTS)) HISTORIES=$(abspath $(BUILD))/histories $(PYTHON) -m pytest -q -s -c schema_tool/pyproject.toml --rootdir . tests/histories/test_histories.py $(ARGS)

for-retrying: venv
	@tools/install_languages.sh

test-retrying: daemons venv for-retrying  ## the loops and packages of docs/retrying.md in Python, Node.js, Go and Java, which it installs
	@$(PYTHON) -m pytest -q -c schema_tool/pyproject.toml --rootdir . tests/retrying $(ARGS)

for-engines: venv for-retrying
	@tools/install_engines.sh $(BUILD)/engines $(PYTHON)

test-engines: daemons venv for-engines  ## workflows and job queues over two semi-primaries: DBOS, procrastinate, graphile-worker, pg-boss, River, which it installs
	@PSP_ENGINES=$(abspath $(BUILD))/engines $(PYTHON) -m pytest -q -c schema_tool/pyproject.toml --rootdir . tests/engines $(ARGS)

for-alerts: deps
	@tools/fetch_program.sh $(BUILD)/promtool usr/bin/promtool prometheus

test-alerts: daemons venv for-alerts  ## the alert rules with promtool, which it fetches
	@$(PYTHON) -m pytest -q -c schema_tool/pyproject.toml --rootdir . tests/alerts $(ARGS)

test-prometheus: daemons venv for-alerts  ## a real Prometheus, which it fetches, watches a cluster under TPC-C: alerts fire when they should
	@$(PYTHON) -m pytest -q -c schema_tool/pyproject.toml --rootdir . tests/prometheus $(ARGS)

test-console: venv  ## psp console's page in a headless Chromium, which it installs
	@tools/install_deps.sh tools/console-packages.txt
	@$(PYTHON) -m pytest -q -c schema_tool/pyproject.toml --rootdir . tests/console $(ARGS)

for-poolers: deps
	@tools/fetch_program.sh $(BUILD)/pgbouncer usr/sbin/pgbouncer pgbouncer libc-ares2

test-poolers: daemons venv for-poolers  ## pgbouncer, which it fetches, between applications and semi-primaries
	@$(PYTHON) -m pytest -q -c schema_tool/pyproject.toml --rootdir . tests/poolers $(ARGS)

# Of the simulation a quarter of the seeds: sanitizers look for mistakes in memory and threads, not in the protocol.
SANITIZED_SEEDS = 250
sanitize: venv  ## unit tests under the address and undefined behaviour sanitizers
	@tools/build.sh $(BUILD)-asan address $(JOBS)
	@PSP_SIM_SEEDS=$(SANITIZED_SEEDS) LSAN_OPTIONS="suppressions=$(CURDIR)/tools/lsan.supp" ctest --test-dir $(BUILD)-asan --output-on-failure -j $(JOBS)

tsan: venv  ## unit tests under the thread sanitizer
	@tools/build.sh $(BUILD)-tsan thread $(JOBS)
	@PSP_SIM_SEEDS=$(SANITIZED_SEEDS) TSAN_OPTIONS="suppressions=$(CURDIR)/tools/tsan.supp halt_on_error=1" \
		ctest --test-dir $(BUILD)-tsan --output-on-failure -j $(JOBS)

# The server modules as they are, in a PostgreSQL with assertions and the address sanitizer, which is built for it (once: 7 minutes of
# processor time). Clients and daemons are ordinary ones. TESTS as below.
CHECKED = $(abspath $(BUILD))-asan
MODULE_TESTS = tests/sql/certify tests/sql/commit tests/sql/rights
MODULE_CLUSTER_TESTS = tests/fuzz tests/cluster/commit/test_capture_module.py tests/cluster/commit/test_capture_corners.py \
	tests/cluster/commit/test_cancelled.py tests/cluster/faults/test_decided.py
sanitize-module: daemons venv  ## the server modules in a PostgreSQL with assertions, under the address sanitizer
	@$(PYTHON) tools/build_postgres.py $(CHECKED)/postgres --jobs $(JOBS)
	@tools/build.sh $(CHECKED) address $(JOBS) psp_capture_15 psp_certify_15
	@set -e; export PSP_PG_BIN=$(CHECKED)/postgres/15/bin PSP_MODULE_DIR=$(CHECKED)/lib/postgresql-address/15; \
	$(if $(TESTS),,tools/sanitized_cluster.sh $(BUILD) $(VENV) $(MODULE_TESTS);) \
	tools/sanitized_cluster.sh $(BUILD) $(VENV) $(or $(TESTS),$(MODULE_CLUSTER_TESTS))

# The daemons as they are, on real servers; TESTS names other tests: make tsan-cluster TESTS="tests/cluster -k large".
asan-cluster: venv  ## cluster tests with daemons under the address and undefined behaviour sanitizers
	@tools/build.sh $(BUILD)-asan address $(JOBS) $(DAEMONS)
	@tools/sanitized_cluster.sh $(BUILD)-asan $(VENV) $(TESTS)

tsan-cluster: venv  ## cluster tests with daemons under the thread sanitizer
	@tools/build.sh $(BUILD)-tsan thread $(JOBS) $(DAEMONS)
	@tools/sanitized_cluster.sh $(BUILD)-tsan $(VENV) $(TESTS)

# ---- keeping it clean -----------------------------------------------------------------------------
lint: build venv  ## formats, includes, SQL in C++, ruff, mypy, documents, words
	@$(PYTHON) tools/lint.py --build $(BUILD) --jobs $(JOBS)

# A build of its own, in which each file is compiled by itself.
tidy: deps venv  ## clang-tidy on what has changed since it last passed (minutes the first time)
	@UNITY=OFF tools/build.sh $(BUILD)-each off $(JOBS)
	@$(PYTHON) tools/lint.py --build $(BUILD)-each --jobs $(JOBS) --only tidy

format: build venv  ## format C++ and Python, write the documents' tables again
	@$(PYTHON) tools/lint.py --build $(BUILD) --fix

clean:  ## remove what was made here (results stay)
	rm -rf $(BUILD) $(BUILD)-each $(BUILD)-asan $(BUILD)-tsan $(VENV)

.PHONY: help deps venv build daemons install deb uninstall demo-plan demo batches peers-programs test test-all for-retrying for-engines for-alerts for-poolers versions test-versions test-sql-capture fuzz fuzz-mutations test-migration test-references test-failover test-histories test-retrying test-engines test-console test-poolers test-alerts test-prometheus sanitize sanitize-module tsan asan-cluster tsan-cluster lint tidy format clean
