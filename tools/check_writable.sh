#!/bin/sh
# check_writable.sh DIR: makes DIR, or says what to do when somebody else made it.
set -eu
if ! mkdir -p "$1" 2>/dev/null || [ ! -w "$1" ]; then
    echo "$1 cannot be written by $(id -un). Remove it as $(stat -c %U "$1" 2>/dev/null || echo its owner)," \
        "make this tree your own, or choose other folders: make BUILD=/tmp/psp-build VENV=/tmp/psp-venv …" >&2
    exit 1
fi
