#!/bin/sh
# make_deb.sh BUILD VENV: the Debian packages of this tree, in BUILD/deb. They are built in a copy of the tree, which stays there, so that the
# next time only what has changed is compiled.
set -eu

build=$1
python=$2/bin/python
tools/check_writable.sh "$build/deb/psp"
tar --create --exclude=./build* --exclude=./.venv --exclude=./.git . | tar --extract --directory="$build/deb/psp"
cd "$build/deb/psp"
# What psp imports, in the versions that its tests run with: Debian 12's are older than psp needs.
rm -rf build-python
"$python" tools/requirements.py >"build-requirements.txt"
"$python" -m pip install --quiet --disable-pip-version-check --no-compile --target build-python -r build-requirements.txt
rm -rf build-python/bin
dpkg-buildpackage --build=binary --no-sign --no-pre-clean >../build.log 2>&1 || { tail -n 20 ../build.log >&2; exit 1; }
cd ..
ls -1 "$PWD"/*.deb | grep -v -- -dbgsym_
