#!/bin/sh
# build.sh DIR SANITIZER JOBS [TARGET…]: configures (quietly, unless it fails) and builds the targets (all) in DIR. UNITY=OFF: each file
# by itself.
set -eu
dir=$1 sanitizer=$2 jobs=$3
shift 3

tools/check_writable.sh "$dir"
if ! cmake -S . -B "$dir" -G Ninja -DPSP_SANITIZE="$sanitizer" ${UNITY:+-DCMAKE_UNITY_BUILD="$UNITY"} >"$dir/cmake.log" 2>&1; then
    cat "$dir/cmake.log" >&2
    exit 1
fi
exec python3 tools/build_bar.py ninja -C "$dir" -j "$jobs" "$@"
