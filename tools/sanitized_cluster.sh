#!/bin/sh
# sanitized_cluster.sh BUILD VENV [PYTEST ARGUMENT…]: tests with the daemons of BUILD, or with a PostgreSQL in PSP_PG_BIN, that
# were made with a sanitizer. Fails when a test fails, and when a process has reported anything, be it at its end.
# Without further arguments: the tests that stop, kill, cut off, block and join daemons under load.
set -eu
build=$1
python=$2/bin/python
shift 2
if [ $# = 0 ]; then
    for name in apply/test_blockers commit/test_conflicts join/test_join \
        faults/test_bad_input faults/test_daemon_faults faults/test_stopping; do
        set -- "$@" "tests/cluster/$name.py"
    done
fi

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
chmod 1777 "$reports"  # servers run as another user
# A process writes its report to a file of its own: the cluster's logs go when the cluster does. The report of a failed
# assertion of PostgreSQL names the function ExceptionalCondition, and who has called it.
common="log_path=$reports/report:print_suppressions=0"
export TSAN_OPTIONS="$common:suppressions=$PWD/tools/tsan.supp"
export ASAN_OPTIONS="$common"
export LSAN_OPTIONS="print_suppressions=0:suppressions=$PWD/tools/lsan.supp"
export UBSAN_OPTIONS="$common:print_stacktrace=1"

status=0
PSP_BIN=$(cd "$build/bin" && pwd) "$python" -m pytest -q -c schema_tool/pyproject.toml --rootdir . "$@" || status=$?
found=0
for report in "$reports"/*; do
    [ -s "$report" ] || continue
    found=$((found + 1))
    cat "$report" >&2
done
echo "sanitizer: $found processes reported something"
[ "$found" = 0 ] && [ "$status" = 0 ]
