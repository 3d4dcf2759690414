#!/usr/bin/env bash
# A real Keycloak on loopback, for tests: a provider of OpenID Connect, fetched by Maven.
#
#   keycloak.sh install   fetches Keycloak
#   keycloak.sh start     starts it, in the mode for development; the first start takes a minute or more
#   keycloak.sh stop      ends it
#   keycloak.sh kill      kills it without warning
#   keycloak.sh wipe      ends it and deletes its data
#
# KEYCLOAK_PORT (18080) is its port, KEYCLOAK_HEAP (400m) its heap. The administrator is `admin`, with
# the password `admin`. It needs a JDK 17 or later, and Maven.
. "$(dirname "$0")/common.sh"

version=26.0.7
port=${KEYCLOAK_PORT:-18080}
unpacked=$software/keycloak-$version
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

install() {
  [ ! -d "$unpacked" ] || return 0
  command -v mvn >/dev/null || fail "the command mvn is missing: sudo apt-get install maven"
  local part=$unpacked.part
  rm -rf "$part"; mkdir -p "$part"
  # Without the target directory of a project, Maven writes nothing beside it.
  (cd "$part" && mvn -q -B "$plugin:copy" "-Dartifact=org.keycloak:keycloak-quarkus-dist:$version:zip" \
    "-DoutputDirectory=$part") >"$software/keycloak-install.log" 2>&1 ||
    { grep -m 3 ERROR "$software/keycloak-install.log" >&2; fail "Maven failed"; }
  python3 -m zipfile -e "$part/keycloak-quarkus-dist-$version.zip" "$part"
  chmod +x "$part/keycloak-$version/bin/kc.sh"
  rm -rf "$unpacked"
  mv "$part/keycloak-$version" "$unpacked"
  rm -rf "$part"
}

start() {
  ! is_up server || return 0
  need_free "$port" KEYCLOAK_PORT
  mkdir -p "$state"
  # Its data are below its own folder.
  [ -d "$state/keycloak" ] || cp -a "$unpacked" "$state/keycloak"
  export KC_BOOTSTRAP_ADMIN_USERNAME=admin KC_BOOTSTRAP_ADMIN_PASSWORD=admin
  export JAVA_OPTS_APPEND="-Xmx${KEYCLOAK_HEAP:-400m}"
  launch server "$state/keycloak/bin/kc.sh" start-dev "--http-host=$host" "--http-port=$port" --cache=local
  wait_until server 900 curl -sf -o /dev/null "http://$host:$port/realms/master"
}

case ${1:-} in
  install) install ;;
  start) install; start ;;
  stop) end_all TERM ;;
  kill) end_all KILL ;;
  wipe) end_all KILL; rm -rf "$state" ;;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
