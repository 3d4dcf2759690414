#!/usr/bin/env bash
# Fetches syslog-ng for the tests and prints the directory it lies in. Debian's packages of syslog-ng and rsyslog
# exclude each other, so this one is not installed: the packages that are missing are downloaded and unpacked.
# It is run with LD_LIBRARY_PATH and --module-path, see crates/loginson/tests/all/senders/mod.rs.
set -euo pipefail

cache="${LOGINSON_SYSLOG_NG:-$HOME/.cache/loginson/syslog-ng}"
if [ -x "$cache/usr/sbin/syslog-ng" ]; then
  echo "$cache"
  exit
fi
command -v apt-get >/dev/null || {
  echo "The tests need syslog-ng as Debian packages it. Unpack syslog-ng-core and the libraries it needs" >&2
  echo "to $cache (so that $cache/usr/sbin/syslog-ng is there), or set LOGINSON_SYSLOG_NG to such a directory." >&2
  exit 1
}

# What apt would install: the program, and those of its libraries that are not there.
wanted() {
  apt-get install --simulate --no-install-recommends syslog-ng-core 2>/dev/null | awk '$1 == "Inst" { print $2 }'
}
packages=$(wanted || true)
if [ -z "$packages" ] && [ "$(id -u)" = 0 ]; then
  apt-get update -qq
  packages=$(wanted || true)
fi
[ -n "$packages" ] || {
  echo "apt knows no package syslog-ng-core; run: sudo apt-get update" >&2
  exit 1
}

# Unpacked beside and renamed at the end, so that a fetch that breaks off leaves nothing that looks whole.
mkdir -p "$(dirname "$cache")"
unpacked=$(mktemp -d --tmpdir="$(dirname "$cache")")
trap 'rm -rf "$unpacked"' EXIT
mkdir "$unpacked/packages"
# Unprivileged downloads of apt want a directory that every user can enter; being root it may go without.
# shellcheck disable=SC2086 # one word a package
(cd "$unpacked/packages" && apt-get -o APT::Sandbox::User="$(id -un)" download -qq $packages >&2)
for package in "$unpacked"/packages/*.deb; do
  dpkg -x "$package" "$unpacked"
done
rm -rf "$unpacked/packages" "$cache"
chmod 755 "$unpacked"
mv "$unpacked" "$cache"
trap - EXIT
echo "$cache"
