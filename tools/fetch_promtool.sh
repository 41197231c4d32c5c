#!/bin/sh
# fetch_promtool.sh FOLDER: Debian's promtool as FOLDER/usr/bin/promtool, for tests. Its package, prometheus, is not installed, since it would start a
# service. Nothing is fetched that is there.
set -eu

folder=$1
[ -x "$folder/usr/bin/promtool" ] && exit 0
mkdir -p "$folder"
new=$(mktemp -d "$folder/.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT TERM HUP
cd "$new"
# Of root's downloads apt says that another account may not write here.
apt-get download -q prometheus 2>&1 | grep -v 'unsandboxed' || true
for package in *.deb; do
    dpkg -x "$package" .
done
chmod -R a+rX .
for part in etc lib usr; do
    [ ! -e "$part" ] || { rm -rf "../$part" && mv "$part" ..; }
done
chmod a+rx ..
