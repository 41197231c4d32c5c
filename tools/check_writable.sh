#!/bin/sh
# check_writable.sh DIR: makes DIR, or says what to do when somebody else made it or owns the tree.
set -eu
if mkdir -p "$1" 2>/dev/null && [ -w "$1" ]; then
    exit 0
fi
if [ -e "$1" ]; then what="Remove it as $(stat -c %U "$1")"; else what="Make this tree your own"; fi
echo "$1 cannot be written by $(id -un). $what, or choose other folders:" \
    "make BUILD=/tmp/psp-build VENV=/tmp/psp-venv RESULTS=/tmp/psp-results …" >&2
exit 1
