#!/bin/sh
# demo_plan.sh SECONDS BUILD VENV: what `make demo` does and how long each part takes (measured with two cores).
set -eu
seconds=$1 build=$2 venv=$3
number=0

part() {
    number=$((number + 1))
    printf '  %d. %-56s %s\n' "$number" "$1" "$2"
}

echo "make demo, on this machine only:"
part "installs Debian packages that are missing" "up to 2 minutes"
if [ -x "$build/bin/psp-semi-primary" ]; then
    part "builds what has changed since the last build" "seconds to minutes"
else
    part "builds psp" "4 minutes with two cores"
fi
[ -x "$venv/bin/psp" ] || part "makes a Python environment in $venv" "half a minute"
part "starts three zones, loads TPC-C, measures one PostgreSQL" "about $((seconds + 55)) s"
part "puts it under psp, two zones join, measures psp" "about $((seconds + 45)) s"
part "compares all rows, and removes what was started" "about 15 s"
echo
