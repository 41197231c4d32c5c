#!/bin/sh
# install.sh FOLDER: what bench-peers needs beside psp, Debian's MariaDB and Galera. Starts no service; quick when all
# is there. The programs that bring a node up to date are in the package mariadb-server, which would start a service and
# replace perl. So only these two programs are taken out of it, into FOLDER.
set -eu
folder=$1
here=$(dirname "$0")

if [ "$(id -u)" != 0 ]; then
    echo "This benchmark needs root: it makes network namespaces and carries their packets. As root: make bench-peers" >&2
    exit 1
fi

"$here/../../tools/install_deps.sh" "$here/apt-packages.txt"
[ -x "$folder/wsrep_sst_rsync" ] && [ -x "$folder/wsrep_sst_common" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$work"
cd "$work"
apt-get -q -o APT::Sandbox::User=root download mariadb-server
dpkg-deb -x mariadb-server_*.deb unpacked
cd - >/dev/null
mkdir -p "$folder"
cp "$work/unpacked/usr/bin/wsrep_sst_rsync" "$work/unpacked/usr/bin/wsrep_sst_common" "$folder"
