#!/usr/bin/env bash
# A real Alertmanager of Prometheus on loopback, for tests: the package of Debian, unpacked without
# being installed.
#
#   alertmanager.sh install   fetches the package
#   alertmanager.sh start     starts it
#   alertmanager.sh stop      ends it
#   alertmanager.sh kill      kills it without warning
#   alertmanager.sh wipe      ends it and deletes its data
#
# ALERTMANAGER_PORT (19093) is its port.
. "$(dirname "$0")/common.sh"

port=${ALERTMANAGER_PORT:-19093}
unpacked=$software/alertmanager
binary=$unpacked/usr/bin/prometheus-alertmanager

install() {
  [ ! -x "$binary" ] || return 0
  command -v apt-get >/dev/null || fail "apt-get is missing: put the program alertmanager at $binary"
  local part=$unpacked.part
  rm -rf "$part"; mkdir -p "$part"
  (cd "$part" && apt-get -qq download prometheus-alertmanager) 2>"$software/alertmanager-install.log" ||
    { tail -n 3 "$software/alertmanager-install.log" >&2; fail "the package cannot be fetched"; }
  dpkg -x "$part"/prometheus-alertmanager_*.deb "$part"
  # Debian's program reads its templates below /usr. A path of the same length makes it read those
  # that were unpacked, in the folder where it is started.
  LC_ALL=C sed -i 's#/usr/share/prometheus/alertmanager#usr/share//prometheus/alertmanager#g' \
    "$part/usr/bin/prometheus-alertmanager"
  mv "$part" "$unpacked"
}

start() {
  ! is_up server || return 0
  need_free "$port" ALERTMANAGER_PORT
  mkdir -p "$state/data"
  cat >"$state/alertmanager.yml" <<END
route: {receiver: none, group_wait: 0s}
receivers: [{name: none}]
END
  cd "$unpacked"
  launch server "$binary" --config.file="$state/alertmanager.yml" --storage.path="$state/data" \
    --web.listen-address="$host:$port" --cluster.listen-address=
  wait_until server 600 is_open "$port"
}

case ${1:-} in
  install) install ;;
  start) install; start ;;
  stop) end_all TERM ;;
  kill) end_all KILL ;;
  wipe) end_all KILL; rm -rf "$state" ;;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
