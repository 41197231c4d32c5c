#!/bin/sh
# make_venv.sh DIR: a virtual environment in DIR with the `psp` command and what tests and lint need.
# Does nothing when DIR is up to date: same place, same Python, same schema_tool/pyproject.toml, same script.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
dir=$1
stamp="$dir/psp-installed"

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}
python=""
for candidate in /usr/bin/python3 python3 python3.11 python3.12 python3.13; do
    if usable "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "No Python >= 3.11 with the venv module; on Debian 12: apt-get install python3 python3-venv" >&2
    exit 1
fi

wanted=$(cat "$root/schema_tool/pyproject.toml" "$0" | cksum)
state="$root $dir $("$python" -c 'import sys; print(sys.version)') $wanted"
if [ -x "$dir/bin/psp" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$state" ]; then
    exit 0
fi
echo "Python environment: $dir"
rm -rf "$dir"
"$python" -m venv "$dir"
"$dir/bin/python" "$root/tools/requirements.py" dev >"$dir/requirements.txt"
"$dir/bin/pip" install --quiet --disable-pip-version-check -r "$dir/requirements.txt"
# The command itself stays where it is: an editable installation would write into this tree, which may be another's.
printf '%s\n' "$root/schema_tool" "$root/client_libs/python" \
    >"$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/psp.pth"
cat >"$dir/bin/psp" <<'END'
#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -m psp "$@"
END
chmod +x "$dir/bin/psp"
printf '%s' "$state" >"$stamp"
