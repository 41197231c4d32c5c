#!/bin/sh
# fetch_patroni.sh FOLDER VENV: etcd from Debian and Patroni from PyPI below FOLDER, for `make test-failover`. Nothing is installed, and nothing is
# fetched that is there.
set -eu

folder=$1 venv=$2
"$(dirname "$0")/fetch_program.sh" "$folder" usr/bin/etcd etcd-server
[ -d "$folder/patroni" ] && exit 0
new=$(mktemp -d "$folder/.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT TERM HUP
"$venv/bin/pip" install --quiet --disable-pip-version-check --target "$new/patroni" 'patroni[etcd3]>=4.1' 'psycopg[binary]>=3.2'
chmod -R a+rX "$new/patroni"
mv "$new/patroni" "$folder/patroni"
