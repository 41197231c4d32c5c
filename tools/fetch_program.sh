#!/bin/sh
# fetch_program.sh FOLDER PROGRAM PACKAGE…: Debian's packages, unpacked below FOLDER, for tests that run FOLDER/PROGRAM. They are not installed, since such a
# package would start a service. Nothing is fetched that is there.
set -eu

folder=$1 program=$2
shift 2
[ -x "$folder/$program" ] && exit 0
mkdir -p "$folder"
new=$(mktemp -d "$folder/.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT TERM HUP
cd "$new"
# Of root's downloads apt says that another account may not write here.
apt-get download -q "$@" 2>&1 | grep -v 'unsandboxed' || true
for package in *.deb; do
    dpkg -x "$package" .
done
chmod -R a+rX .
for part in etc lib usr; do
    [ ! -e "$part" ] || { rm -rf "../$part" && mv "$part" ..; }
done
chmod a+rx ..
