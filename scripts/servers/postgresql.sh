#!/usr/bin/env bash
# A real PostgreSQL on loopback, for demos, tests and measurements: the packages of the system.
#
#   postgresql.sh start     starts it
#   postgresql.sh stop      ends it
#   postgresql.sh kill      kills it without warning
#   postgresql.sh wipe      ends it and deletes its data
#
# POSTGRESQL_PORT (15432) is its port. The user is postgres, without a password; its database too.
. "$(dirname "$0")/common.sh"

port=${POSTGRESQL_PORT:-15432}
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
data=$state/data
# It does not run as root: then it runs as this user, which needs no name and cannot enter the home of
# root, so that its data are elsewhere. Each state has data of its own: another one with the same port
# must not be given the database of an earlier one.
owner=65534
as_owner=()
if [ "$(id -u)" = 0 ]; then
  as_owner=(setpriv "--reuid=$owner" "--regid=$owner" --clear-groups)
  data=${TMPDIR:-/tmp}/loginson-postgresql-$(realpath -m "$state" | cksum | cut -d ' ' -f 1)
fi

start() {
  [ -x "$programs/postgres" ] || fail "PostgreSQL is missing: sudo apt-get install postgresql"
  ! is_up server || return 0
  need_free "$port" POSTGRESQL_PORT
  # Data that outlived their state belong to an engine that is gone.
  [ -e "$state/data-elsewhere" ] || [ "$data" = "$state/data" ] || rm -rf "$data"
  mkdir -p "$state" "$data"
  if [ "$(id -u)" = 0 ]; then chown "$owner:$owner" "$data"; : >"$state/data-elsewhere"; fi
  if [ ! -s "$data/PG_VERSION" ]; then
    "${as_owner[@]}" "$programs/initdb" -D "$data" -U postgres -A trust -E UTF8 --no-locale \
      >"$state/initdb.log" 2>&1 || { tail -n 5 "$state/initdb.log" >&2; fail "initdb failed"; }
  fi
  # A killed server leaves its processes behind for a moment, and its lock file for good.
  launch server "${as_owner[@]}" "$programs/postgres" -D "$data" -h "$host" -p "$port" -k ""
  wait_until server 600 "$programs/pg_isready" -h "$host" -p "$port" -q
}

case ${1:-} in
  start) start ;;
  stop) end_all INT ;;
  kill) end_all KILL ;;
  wipe) end_all KILL; rm -rf "$state" "$data" ;;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
