#!/bin/sh
# install.sh PREFIX BUILD: the daemons of BUILD, the psp command and systemd units, under PREFIX and independent of this
# tree; and the server modules, where that may be written, into the library folder of each PostgreSQL for which they were built
# (with DESTDIR before it). install.sh --remove PREFIX: takes away what it puts there. Configuration and databases are not touched.
set -eu

daemons="psp-primary psp-semi-primary psp-mrv psp-georelay"
units="psp-primary psp-semi-primary psp-mrv"
modules="psp_capture psp_certify"

# The library folder of each PostgreSQL here, after its major version.
library_folders() {
    for program in /usr/lib/postgresql/*/bin/pg_config; do
        [ -x "$program" ] || continue
        version=$(basename "$(dirname "$(dirname "$program")")")
        echo "$version ${DESTDIR:-}$("$program" --pkglibdir)"
    done
}

remove_modules() {
    library_folders | while read -r _ folder; do
        for module in $modules; do
            if [ -w "$folder" ]; then rm -f "$folder/$module.so"; fi
        done
    done
}

install_modules() {
    library_folders | while read -r version folder; do
        for module in $modules; do
            file=$build/lib/postgresql/$version/$module.so
            [ -f "$file" ] || continue
            if [ -n "${DESTDIR:-}" ]; then mkdir -p "$folder"; fi
            if [ -w "$folder" ]; then
                install -m 755 "$file" "$folder/$module.so"
                echo "Installed in $folder: $module"
            else
                echo "Not installed: $module, a server module. $folder needs root. psp works without it (docs/capture.md)."
            fi
        done
    done
}

remove() {
    rm -rf "$1/lib/psp"
    for name in $daemons psp; do rm -f "$1/bin/$name"; done
    for name in $units; do rm -f "$1/lib/systemd/system/$name.service"; done
}

if [ "$1" = --remove ]; then
    remove "$2"
    remove_modules
    exit 0
fi
tools/check_writable.sh "$1"
prefix=$(cd "$1" && pwd)
build=$2
lib=$prefix/lib/psp

remove "$prefix"
mkdir -p "$prefix/bin" "$prefix/lib/systemd/system" "$lib"
for name in $daemons; do install -s -m 755 "$build/bin/$name" "$prefix/bin/$name"; done
for name in $units; do
    sed "s|/usr/local/bin|$prefix/bin|" "deploy/systemd/$name.service" >"$prefix/lib/systemd/system/$name.service"
done

install -m 644 LICENSE "$lib/LICENSE"
install -m 644 debian/copyright "$lib/copyright"
for folder in prometheus grafana; do cp -R "deploy/$folder" "$lib/$folder"; done
cp -R sql "$lib/sql"
mkdir "$lib/python"
cp -R schema_tool/psp "$lib/python/psp"
find "$lib/python" -name __pycache__ -prune -exec rm -rf {} +
python3 -m venv "$lib/venv"
python3 tools/requirements.py >"$lib/requirements.txt"
"$lib/venv/bin/pip" install --quiet --disable-pip-version-check -r "$lib/requirements.txt"
echo "$lib/python" >"$("$lib/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/psp.pth"
"$lib/venv/bin/python" -m compileall -q "$lib/python"
cat >"$prefix/bin/psp" <<END
#!/bin/sh
exec "$lib/venv/bin/python" -m psp "\$@"
END
chmod 755 "$prefix/bin/psp"
echo "Installed under $prefix: psp, $(echo "$daemons" | sed 's/ /, /g')"
install_modules
