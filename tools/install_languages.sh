#!/bin/sh
# Installs the languages in which tests/retrying has programs, where they are missing: Node.js, Go, Java with JDBC and Spring. As root, or through sudo.
set -eu

missing=""
command -v node >/dev/null && command -v npm >/dev/null || missing="$missing nodejs npm"
command -v go >/dev/null || missing="$missing golang-go"
command -v javac >/dev/null || missing="$missing default-jdk-headless"
[ -f /usr/share/java/postgresql.jar ] || missing="$missing libpostgresql-jdbc-java"
[ -f /usr/share/java/spring3-jdbc.jar ] || missing="$missing libspring-jdbc-java"
[ -n "$missing" ] || exit 0

echo "Installing:$missing"
if [ "$(id -u)" = 0 ]; then as_root=""; else as_root="sudo"; fi
# shellcheck disable=SC2086  # one word for each package
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    -o DPkg::Lock::Timeout=300 $missing >/dev/null
