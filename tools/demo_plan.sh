#!/bin/sh
# demo_plan.sh SECONDS BUILD VENV: what `make demo` does and how long each part takes (measured with two cores).
set -eu
seconds=$1 build=$2 venv=$3

part() { printf '  %-58s %s\n' "$1" "$2"; }

echo "make demo, on this machine only:"
part "1. installs Debian packages that are missing" "up to 2 minutes"
if [ -x "$build/bin/psp-semi-primary" ]; then
    part "2. builds what has changed since the last build" "seconds to minutes"
else
    part "2. builds psp" "4 minutes with two cores"
fi
[ -x "$venv/bin/psp" ] || part "3. makes a Python environment in $venv" "half a minute"
part "4. starts three zones, loads TPC-C, measures one PostgreSQL" "about $((seconds + 30)) s"
part "5. loads it again and measures psp" "about $((seconds + 60)) s"
part "6. compares all rows, and removes what was started" "seconds"
echo
