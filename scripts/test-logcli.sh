#!/usr/bin/env bash
# Asks a running Loginson through logcli, the command line of Grafana Loki, and checks what comes.
#
# logcli is built from the Go module proxy, once: `go install` refuses modules that replace others, so a module of its own
# requires Loki with the same replacements. LOGCLI names one that is there already.
set -euo pipefail

VERSION=v3.7.8
BIN=${LOGINSON_BIN:?the binary to test}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/loginson/logcli-$VERSION
export PATH=$PATH:/usr/local/go/bin

build() {
  command -v go >/dev/null || { echo "test-logcli: Go is needed to build logcli; install it, or name a logcli by LOGCLI=" >&2; exit 1; }
  mkdir -p "$CACHE"
  cd "$CACHE"
  printf 'module logcli\n\ngo 1.24\n' >go.mod
  local source
  source=$(go mod download -json "github.com/grafana/loki/v3@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  {
    echo 'module logcli'
    sed -n '/^go /p;/^toolchain /p' "$source/go.mod"
    echo "require github.com/grafana/loki/v3 $VERSION"
    # Its own packages are modules of the proxy too.
    sed -n '/^replace/,$p' "$source/go.mod" | grep -v '=> \./'
  } >go.mod
  cp "$source/go.sum" go.sum
  chmod u+w go.sum
  GOFLAGS=-mod=mod go build -o logcli.part github.com/grafana/loki/v3/cmd/logcli
  mv logcli.part logcli
  cd - >/dev/null
}

LOGCLI=${LOGCLI:-$CACHE/logcli}
[ -x "$LOGCLI" ] || (build)

dir=$(mktemp -d)
"$BIN" serve --http-listen 127.0.0.1:0 --syslog-udp-listen 127.0.0.1:0 --syslog-tcp-listen 127.0.0.1:0 \
  --data-dir "$dir/data" 2>"$dir/log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true; rm -rf "$dir"' EXIT
for _ in $(seq 200); do
  address=$(sed -n 's|.*page and API at http://\([0-9.:]*\).*|\1|p' "$dir/log")
  [ -n "$address" ] && curl -sf "http://$address/ready" >/dev/null && break
  sleep 0.1
done
export LOKI_ADDR=http://$address

for i in 0 1 2 3 4 5 6 7 8 9; do
  echo "<14>1 2026-01-31T12:00:0$i.5Z web1 proxy 7 - - GET /$i took=${i}ms"
done | curl -sf "$LOKI_ADDR/insert/lines" --data-binary @- >/dev/null

faults=0
check() {
  local what=$1 expected=$2 found
  shift 2
  if [ "$1" = bash ]; then found=$("$@" 2>"$dir/error") || true; else found=$("$LOGCLI" "$@" 2>"$dir/error") || true; fi
  if [ "$found" = "$expected" ]; then
    echo "ok: $what"
  else
    faults=$((faults + 1))
    printf 'FAILED: %s\n--- expected\n%s\n--- found\n%s\n%s\n' "$what" "$expected" "$found" "$(cat "$dir/error")"
  fi
}

range=(--from 2026-01-31T12:00:00Z --to 2026-01-31T12:01:00Z)
quiet=(--quiet)
check labels $'app_name\nhostname\nlevel\ntype' "${quiet[@]}" labels "${range[@]}"
check 'values of a label' proxy "${quiet[@]}" labels app_name "${range[@]}"
check 'lines, newest first' $'GET /9 took=9ms\nGET /8 took=8ms' \
  "${quiet[@]}" query -o raw --limit 2 "${range[@]}" '{app_name="proxy"}'
check 'lines, oldest first' $'GET /3 took=3ms\nGET /4 took=4ms' \
  "${quiet[@]}" query -o raw --forward --limit 2 "${range[@]}" '{app_name="proxy"} | logfmt | took > 2ms'
check 'more lines than a request gives' 10 \
  bash -c '"$0" --quiet query -o raw --limit 10 --batch 3 "$@" | wc -l' "$LOGCLI" "${range[@]}" '{app_name="proxy"}'
check 'series' '{app_name="proxy", hostname="web1", type="syslog"}' "${quiet[@]}" series "${range[@]}" '{app_name="proxy"}'
check 'a number' 10 bash -c '"$0" --quiet instant-query --now 2026-01-31T12:01:00Z "$1" | sed -n "s/.*\"\([0-9]*\)\"$/\1/p"' \
  "$LOGCLI" 'sum(count_over_time({app_name="proxy"}[1m]))'
check 'a wrong query' 'parse error at line 1, col 5' \
  bash -c '"$0" --quiet query "{app" 2>&1 | grep -o "parse error at line 1, col 5" | head -1' "$LOGCLI"

"$LOGCLI" --quiet query --tail -o raw '{app_name="proxy"} |= "live"' >"$dir/tail" 2>"$dir/error" &
tail=$!
for _ in $(seq 100); do
  curl -sf "$LOKI_ADDR/api/v1/queries" | grep -q '"kind":"tail"' && break
  sleep 0.1
done
echo '<14>1 - web1 proxy 7 - - GET /live' | curl -sf "$LOKI_ADDR/insert/lines" --data-binary @- >/dev/null
for _ in $(seq 100); do
  grep -q 'GET /live' "$dir/tail" && break
  sleep 0.1
done
kill $tail 2>/dev/null || true
check tail 'GET /live' bash -c 'cat "$1" >&2; cat "$0"' "$dir/tail" "$dir/error"

[ $faults = 0 ] || exit 1
echo "logcli and Loginson understand each other."
