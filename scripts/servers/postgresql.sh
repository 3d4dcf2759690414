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
# It does not run as root: then it runs as this user, which needs no name.
owner=65534
as_owner=()
[ "$(id -u)" != 0 ] || as_owner=(setpriv "--reuid=$owner" "--regid=$owner" --clear-groups)

start() {
  [ -x "$programs/postgres" ] || fail "PostgreSQL is missing: sudo apt-get install postgresql"
  ! is_up server || return 0
  need_free "$port" POSTGRESQL_PORT
  mkdir -p "$state/data"
  if [ "$(id -u)" = 0 ]; then chown "$owner:$owner" "$state" "$state/data"; fi
  if [ ! -s "$state/data/PG_VERSION" ]; then
    "${as_owner[@]}" "$programs/initdb" -D "$state/data" -U postgres -A trust -E UTF8 --no-locale \
      >"$state/initdb.log" 2>&1 || { tail -n 5 "$state/initdb.log" >&2; fail "initdb failed"; }
  fi
  # A killed server leaves its processes behind for a moment, and its lock file for good.
  launch server "${as_owner[@]}" "$programs/postgres" -D "$state/data" -h "$host" -p "$port" -k ""
  wait_until server 60 "$programs/pg_isready" -h "$host" -p "$port" -q
}

case ${1:-} in
  start) start ;;
  stop) end_all INT ;;
  kill) end_all KILL ;;
  wipe) end_all KILL; rm -rf "$state" ;;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
