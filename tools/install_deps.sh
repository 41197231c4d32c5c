#!/bin/sh
# install_deps.sh [LIST]: installs the Debian packages of the list (tools/apt-packages.txt) that are missing. Silent and
# quick when none is.
# Runs apt as root, or through sudo; with everything installed neither is needed.
set -eu

list=${1:-"$(dirname "$0")/apt-packages.txt"}
wanted=$(sed 's/#.*//' "$list" | tr -s ' \t\n' ' ')
# shellcheck disable=SC2086  # one word for each package
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p')
missing=""
for package in $wanted; do
    printf '%s\n' "$installed" | grep -qxF "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "Installing:$missing"
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null; then
    as_root="sudo"
else
    echo "Needed: root or sudo. As root: apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

# Debian's postgresql-15 makes and starts a server of its own on port 5432 when it is installed for the first
# time. psp needs the programs only, so that is switched off for the time of this installation.
no_cluster=/etc/postgresql-common/createcluster.d/psp-install.conf
restore() { $as_root rm -f "$no_cluster"; }
trap restore EXIT
trap 'exit 130' INT TERM HUP  # otherwise sh ends without `restore`
$as_root mkdir -p "$(dirname "$no_cluster")"
echo "create_main_cluster = false" | $as_root tee "$no_cluster" >/dev/null

# A machine that has just been set up may be installing its updates: wait for that.
apt_get="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300"
# shellcheck disable=SC2086
install_missing() {
    $apt_get install -y --no-install-recommends $missing
}
# The lists may be absent (a container) or old (a package moved), or an installation was interrupted half-way: mend
# that, and only then fail.
if [ -z "$(ls /var/lib/apt/lists/*_Packages* 2>/dev/null)" ] || ! install_missing; then
    $as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a
    $apt_get update
    install_missing
fi
