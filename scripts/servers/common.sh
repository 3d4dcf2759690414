# shellcheck shell=bash
# What the scripts beside this file share: where software and data are, and processes with pid files.
#
# Software is kept in LOGINSON_SERVERS (~/.cache/loginson/servers), data, logs and pid files in
# LOGINSON_SERVERS_DATA ("data" in there). Servers listen on loopback alone and need no root.
set -euo pipefail

name=$(basename "$0" .sh)
software=${LOGINSON_SERVERS:-$HOME/.cache/loginson/servers}
state=${LOGINSON_SERVERS_DATA:-$software/data}/$name
host=127.0.0.1

fail() { echo "$name.sh: $*" >&2; exit 1; }

# When a process began, in ticks since the start of the machine. With it, a pid that the kernel gave
# to another process is not taken for ours.
began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# is_up NODE
is_up() {
  local pid start
  [ -s "$state/$1.pid" ] || return 1
  read -r pid start <"$state/$1.pid"
  [ -n "$start" ] && [ "$(began "$pid")" = "$start" ]
}

# launch NODE COMMAND...: in a session of its own, with its output in NODE.log.
launch() {
  local node=$1; shift
  setsid "$@" >>"$state/$node.log" 2>&1 </dev/null &
  echo "$! $(began $!)" >"$state/$node.pid"
}

# end SIGNAL NODE...: sends the signal to all, then waits for them; after 15 s they are killed. The
# last members of a cluster would wait longer than that for others that have ended.
end() {
  local signal=$1 node pid tries=0; shift
  for node in "$@"; do
    ! is_up "$node" || { read -r pid _ <"$state/$node.pid"; kill -s "$signal" "$pid" 2>/dev/null || true; }
  done
  for node in "$@"; do
    while is_up "$node"; do
      sleep 0.1
      tries=$((tries + 1))
      [ $tries -lt 150 ] || { read -r pid _ <"$state/$node.pid"; kill -s KILL "$pid" 2>/dev/null || true; }
    done
    rm -f "$state/$node.pid"
  done
}

# end_all SIGNAL: all servers that have a pid file.
end_all() {
  local file nodes=()
  for file in "$state"/*.pid; do [ ! -e "$file" ] || nodes+=("$(basename "$file" .pid)"); done
  [ ${#nodes[@]} = 0 ] || end "$1" "${nodes[@]}"
}

is_open() { (exec 3<>"/dev/tcp/$host/$1") 2>/dev/null; }

# Fails if another process listens on a port.
need_free() { ! is_open "$1" || fail "port $1 is taken; end that server, or choose another port with $2"; }

# wait_until NODE SECONDS COMMAND...: fails at once when the server has ended. A server that runs has
# minutes, because a machine may be slow.
wait_until() {
  local node=$1 left=$(($2 * 5)); shift 2
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    is_up "$node" && [ $left -gt 0 ] || { tail -n 20 "$state/$node.log" >&2; fail "$node did not start"; }
    sleep 0.2
  done
}
