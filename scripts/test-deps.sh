#!/usr/bin/env bash
# The programs that the tests drive: real senders and a real browser. Installs what is missing where it may
# (root on a Debian-like system), otherwise names the command.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
need() { # need COMMAND PACKAGE
  PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null || packages+=("$2")
}
need logger bsdutils
need script bsdutils
need rsyslogd rsyslog
[ -n "$(ls /usr/lib/*/rsyslog/lmnsd_gtls.so 2>/dev/null)" ] || packages+=(rsyslog-gnutls)
[ -n "$(ls /usr/lib/*/rsyslog/lmnsd_ossl.so 2>/dev/null)" ] || packages+=(rsyslog-openssl)
[ -n "$(ls /usr/lib/*/rsyslog/omrelp.so 2>/dev/null)" ] || packages+=(rsyslog-relp)
need openssl openssl
need curl curl
need jq jq
need nginx nginx-light
need python3 python3
need logrotate logrotate
need journalctl systemd
[ -x /lib/systemd/systemd-journal-remote ] || packages+=(systemd-journal-remote)
need zstd zstd
need gzip gzip
need ip iproute2
need gawk gawk
need mawk mawk
need busybox busybox
need original-awk original-awk
need sqlite3 sqlite3
need setsid util-linux
need redis-server redis-server
need slapd slapd
need ldapmodify ldap-utils
[ -n "$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] || packages+=(postgresql)
need javac openjdk-17-jdk-headless
need mvn maven
if [ -z "${CHROMIUM:-}" ]; then need chromium chromium; fi
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then packages+=(python3-venv); fi
if ! python3 -c 'import pip' 2>/dev/null; then packages+=(python3-pip); fi

if [ ${#packages[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing for the tests: ${packages[*]}"
    # No server is started here: the tests start their own.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
      mkdir -p /etc/postgresql-common
      echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    if [ ! -e /usr/sbin/policy-rc.d ]; then
      trap 'rm -f /usr/sbin/policy-rc.d' EXIT
      printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
      chmod +x /usr/sbin/policy-rc.d
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  else
    echo "The tests need these packages; install them first:" >&2
    echo "  sudo apt-get install ${packages[*]}" >&2
    exit 1
  fi
fi

# Servers that tests start: Kafka, fetched by Maven, and one of S3, built by Go. Distributions have no Go that is new
# enough; without it, the tests that need this server are left out.
scripts/servers/kafka.sh install
scripts/servers/s3.sh install || echo "The tests on a server of S3 are left out."

# syslog-ng's packages exclude rsyslog's, so they are unpacked, not installed.
scripts/fetch-syslog-ng.sh >/dev/null

# Readers of Parquet, beside and not among the system's own Python packages.
venv=${LOGINSON_PARQUET_VENV:-$HOME/.cache/loginson/parquet-venv}
if ! "$venv/bin/python" -c 'import duckdb, pandas, pyarrow' 2>/dev/null; then
  echo "Installing for the tests: duckdb, pandas, pyarrow"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check duckdb pandas pyarrow
fi

# Clients of Elasticsearch, which differ from version to version in what they ask first.
for version in 7 8 9; do
  venv=${LOGINSON_ELASTIC_VENVS:-$HOME/.cache/loginson}/elasticsearch-$version-venv
  if ! "$venv/bin/python" -c 'import elasticsearch' 2>/dev/null; then
    echo "Installing for the tests: elasticsearch $version"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "elasticsearch==$version.*"
  fi
done
