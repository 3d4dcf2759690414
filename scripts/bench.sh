#!/usr/bin/env bash
# Measures one machine: ingest over TCP beside a null sink, import, restart, and queries beside grep.
# Prints a Markdown table; docs/benchmarks/one-machine.md holds one. Nothing else should run meanwhile.
#
#   make bench            everything, 3 pairs
#   BENCH_PAIRS=5 make bench
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${LOGINSON_BIN:?run this by: make bench}
bench=${LOGINSON_BENCH:?run this by: make bench}
pairs=${BENCH_PAIRS:-3}
times=${BENCH_TIMES:-8}
dir=$(mktemp -d "${BENCH_DIR:-$HOME/.cache/loginson}/bench.XXXXXX")
server=
trap 'kill $server 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

median() { sort -g | awk '{v[NR]=$1} END {print (NR%2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.3f", b-a}'; }

start() { # start DATA_DIR; sets $http, $tcp, $ready_s
  rm -f "$dir/ready.json"
  local began; began=$(now)
  "$bin" serve --data-dir "$1" --http-listen 127.0.0.1:0 --syslog-tcp-listen 127.0.0.1:0 \
    --syslog-udp-listen off --ready-file "$dir/ready.json" >>"$dir/server.log" 2>&1 &
  server=$!
  until [ -s "$dir/ready.json" ]; do
    kill -0 $server || { tail "$dir/server.log"; exit 1; }
    sleep 0.002
  done
  ready_s=$(since "$began")
  http=$(sed -E 's/.*"http": *"([^"]*)".*/\1/' "$dir/ready.json" | tail -1)
  tcp=$(sed -E 's/.*"syslog_tcp": *"([^"]*)".*/\1/' "$dir/ready.json" | tail -1)
}
stop() { kill "${1:--TERM}" $server; wait $server 2>/dev/null || true; server=; }
metric() { curl -s "http://$http/metrics" | awk -v m="$1" '$1==m {print $2}'; }
wait_for() { # wait_for METRIC VALUE
  until [ "$(metric "$1")" = "$2" ]; do sleep 0.02; done
}

# One million lines: the excerpts in testdata, replayed as syslog.
lines=1000000
"$bin" generate --replay testdata/corpora/*.log --format rfc5424 --lines $lines --rate 0 --seed 1 --to - >"$dir/lines.log" 2>/dev/null
bytes=$(stat -c %s "$dir/lines.log")
total=$((lines * times))

echo "$(nproc) cores, $(free -g | awk '/Mem:/ {print $2}') GB, $(date -u +%F), version $("$bin" --version | cut -d' ' -f2); $lines lines of $((bytes / lines)) bytes"
echo
echo "| what | limit or peer | Loginson | ratio |"
echo "|---|---|---|---|"

# The peer: rsyslog from the distribution, the same lines over TCP into a file.
rsyslogd=$(PATH="$PATH:/usr/sbin" command -v rsyslogd || true)
cat >"$dir/rsyslog.conf" <<EOF
global(workDirectory="$dir" maxMessageSize="64k")
module(load="imtcp")
template(name="raw" type="string" string="%rawmsg%\n")
input(type="imtcp" address="127.0.0.1" port="26515")
action(type="omfile" file="$dir/rsyslog.out" template="raw")
EOF
peer() { # sets $peer_s and $peer_cpu
  rm -f "$dir/rsyslog.out"
  "$rsyslogd" -n -f "$dir/rsyslog.conf" -i "$dir/rsyslog.pid" >>"$dir/server.log" 2>&1 &
  local rsyslog=$! began
  until "$bench" tcp_limit send 127.0.0.1:26515 /dev/null >/dev/null 2>&1; do sleep 0.1; done
  began=$(now)
  "$bench" tcp_limit send 127.0.0.1:26515 "$dir/lines.log" "$times" >/dev/null &
  # rsyslog appends for a while after the last line was sent. It is done when its file has not grown for half a second.
  local size=-1 last; last=$(now)
  while true; do
    sleep 0.1
    if [ "$(stat -c %s "$dir/rsyslog.out" 2>/dev/null || echo 0)" != "$size" ]; then
      size=$(stat -c %s "$dir/rsyslog.out" 2>/dev/null || echo 0)
      last=$(now)
    elif [ "$size" -gt 0 ] && awk -v s="$(since "$last")" 'BEGIN {exit !(s > 0.5)}'; then
      break
    fi
  done
  peer_s=$(awk -v a="$began" -v b="$last" 'BEGIN {print b-a}')
  peer_cpu=$(awk -v t="$(getconf CLK_TCK)" -v b=$((bytes * times)) '{print ($14+$15)/t/(b/1e9)}' "/proc/$rsyslog/stat")
  kill "$rsyslog"; wait "$rsyslog" 2>/dev/null || true
  local kept; kept=$(wc -l <"$dir/rsyslog.out")
  [ "$kept" -ge "$total" ] || { echo "rsyslog kept $kept of $total lines" >&2; exit 1; }
  rm -f "$dir/rsyslog.out"
}

sink_rates=() store_rates=() parse_rates=() cpu=() peer_rates=() peer_cpus=()
for _ in $(seq "$pairs"); do
  "$bench" tcp_limit sink 127.0.0.1:26514 >"$dir/sink.txt" &
  sink=$!
  sleep 0.3
  "$bench" tcp_limit send 127.0.0.1:26514 "$dir/lines.log" "$times" >/dev/null
  wait $sink
  sink_rates+=("$(sed -nE 's/.*lines_per_s=([0-9]+).*/\1/p' "$dir/sink.txt")")

  rm -rf "$dir/data"
  start "$dir/data"
  began=$(now)
  "$bench" tcp_limit send "$tcp" "$dir/lines.log" "$times" >/dev/null &
  wait_for 'loginson_lines_kept_total{source="syslog_tcp"}' "$total"
  durable=$(since "$began")
  wait_for loginson_parse_lag_lines 0
  parsed=$(since "$began")
  cpu+=("$(awk -v t="$(getconf CLK_TCK)" -v b=$((bytes * times)) '{print ($14+$15)/t/(b/1e9)}' /proc/$server/stat)")
  store_rates+=("$(awk -v n=$total -v s="$durable" 'BEGIN {print n/s}')")
  parse_rates+=("$(awk -v n=$total -v s="$parsed" 'BEGIN {print n/s}')")
  stop
  if [ -n "$rsyslogd" ]; then
    peer
    peer_rates+=("$(awk -v n=$total -v s="$peer_s" 'BEGIN {print n/s}')")
    peer_cpus+=("$peer_cpu")
  fi
done
sink=$(printf '%s\n' "${sink_rates[@]}" | median)
row() { awk -v w="$1" -v l="$2" -v v="$3" -v u="$4" 'BEGIN {printf "| %s | %.2f %s | %.2f %s | %.2f |\n", w, l/1e6, u, v/1e6, u, v/l}'; }
row "TCP, one connection, durable" "$sink" "$(printf '%s\n' "${store_rates[@]}" | median)" "M lines/s"
row "TCP, one connection, parsed and summarised" "$sink" "$(printf '%s\n' "${parse_rates[@]}" | median)" "M lines/s"
ours=$(printf '%s\n' "${cpu[@]}" | median)
if [ -n "$rsyslogd" ]; then
  row "TCP, beside rsyslog to a file" "$(printf '%s\n' "${peer_rates[@]}" | median)" "$(printf '%s\n' "${store_rates[@]}" | median)" "M lines/s"
  theirs=$(printf '%s\n' "${peer_cpus[@]}" | median)
  awk -v l="$theirs" -v v="$ours" 'BEGIN {printf "| CPU: receive, keep, parse, summarise (rsyslog: write a file) | %.2f s/GB | %.2f s/GB | %.2f |\n", l, v, v/l}'
else
  awk -v v="$ours" 'BEGIN {printf "| CPU: receive, keep, parse, summarise | | %.2f s/GB | |\n", v}'
fi

rm -rf "$dir/data"
start "$dir/data"
began=$(now)
"$bin" import --server "http://$http" "$dir/lines.log" >>"$dir/server.log" 2>&1
import=$(since "$began")
echo "| import of $lines lines, acknowledged durable | | $import s | |"
wait_for loginson_parse_lag_lines 0

query() { # query LABEL QUERY GREP_PATTERN
  local ours=() theirs=() count expected began
  for _ in $(seq 5); do
    began=$(now)
    count=$(curl -s --get "http://$http/select/logsql/stats_query" --data-urlencode "query=$2 | stats count() n" | sed -E 's/.*"value":\[[^,]*,"([0-9]+)".*/\1/')
    ours+=("$(since "$began")")
    began=$(now)
    expected=$(grep -a -c -E -- "$3" "$dir/lines.log" || true)
    theirs+=("$(since "$began")")
  done
  [ "$count" = "$expected" ] || { echo "$1: $count lines, grep says $expected" >&2; exit 1; }
  awk -v w="$1 ($count lines)" -v l="$(printf '%s\n' "${theirs[@]}" | median)" -v v="$(printf '%s\n' "${ours[@]}" | median)" \
    'BEGIN {printf "| %s | grep -c %.3f s | %.3f s | %.2f |\n", w, l, v, v/l}'
}
query "count of all lines" '*' ''
query "substring Failed password" '_line:~"Failed password"' 'Failed password'
query "regex with alternatives" '_line:~"(authentication|connection) (failure|refused)"' '(authentication|connection) (failure|refused)'

stop -TERM
start "$dir/data"
echo "| restart after a stop, until ready | | $ready_s s | |"
stop -KILL
start "$dir/data"
echo "| restart after kill -9, until ready | | $ready_s s | |"
[ "$(metric loginson_store_lines)" -ge $lines ] || { echo "lines were lost" >&2; exit 1; }
