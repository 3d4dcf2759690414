#!/usr/bin/env bash
# Measures storage: size beside zstd, gzip and a log compressor, speed of sealing, write amplification, start-up and
# memory with many segments. Prints Markdown; docs/benchmarks/storage.md holds one run. Nothing else should run meanwhile.
#
#   make bench-storage
#   CORPORA=DIR make bench-storage     the size of each file DIR/**/*.log, instead of the excerpts in testdata/corpora
#   BENCH_RAW_MB=1000                  size of the generated logs
#   BENCH_PARTS="size speed"           some of: size speed grouping amplification startup memory
#   BENCH_TIMES=3                      how often speeds are measured, in turn with their limit; the tables have medians
#   BENCH_SEGMENTS=10000 BENCH_SEGMENT_MB=1 BENCH_BIG_SEGMENTS=100 BENCH_BIG_MB=1000 BENCH_BIG_LINE_BYTES=1000 BENCH_IMPORT_LINES=5000000
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${LOGINSON_BIN:?run this by: make bench-storage}
bench=${LOGINSON_BENCH:?run this by: make bench-storage}
corpora=${CORPORA:-testdata/corpora}
raw_mb=${BENCH_RAW_MB:-1000}
dir=$(mktemp -d "${BENCH_DIR:-$HOME/.cache/loginson}/bench-storage.XXXXXX")
server=
trap 'kill $server 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

wants() { [[ " ${BENCH_PARTS:-size speed grouping amplification startup memory} " == *" $1 "* ]]; }
size() { stat -c %s "$1"; }
metric() { curl -s "http://$http/metrics" | awk -v m="$1" '$1==m {print $2}'; }
serve() { # serve DIR : with loginson.toml; sets server and http
  rm -f "$dir/ready.json"
  "$bin" serve --config "$dir/loginson.toml" --data-dir "$1" --http-listen 127.0.0.1:0 --syslog-tcp-listen off \
    --syslog-udp-listen off --ready-file "$dir/ready.json" >"$dir/server.log" 2>&1 &
  server=$!
  until [ -s "$dir/ready.json" ]; do kill -0 $server || { tail "$dir/server.log"; exit 1; }; sleep 0.05; done
  http=$(sed -E 's/.*"http": *"([^"]*)".*/\1/' "$dir/ready.json" | tail -1)
}
memory() { awk -v k="$1:" '$1==k {print int($2/1024)}' "/proc/$server/status"; }
replay() { # replay FORMAT FILES… : raw_mb of lines
  local format=$1; shift
  "$bin" generate --replay "$@" --format "$format" --rate 0 --lines $((raw_mb * 6000)) --seed 1 --to - 2>/dev/null |
    head -c $((raw_mb * 1000000)) | sed '$d'
}

echo "$(nproc) cores, $(free -g | awk '/Mem:/ {print $2}') GB, $(date -u +%F), $("$bin" --version); load before: $(cut -d' ' -f1 /proc/loadavg)"
echo
mapfile -t logs < <(find "$corpora" -name '*.log' | sort)
replay rfc3164 "${logs[@]}" >"$dir/syslog.log"
raw=$(size "$dir/syslog.log")
times=1; ! wants speed || times=${BENCH_TIMES:-3}
sealed() { "$bench" seal_speed --times "$times" "$@" | awk '!/^ / && $1 != "file" {print}'; }
sealed "$dir/syslog.log" >"$dir/fast"
head -c $((raw / 10)) "$dir/syslog.log" | sed '$d' >"$dir/tenth.log"
sealed --best "$dir/tenth.log" >"$dir/best"

if wants size; then
echo "## Size of syslog"
echo
echo "$((raw / 1000000)) MB: the files of the corpora replayed as syslog (RFC 3164) with changing values."
echo
echo "| what | bytes | raw / bytes | beside zstd -3 |"
echo "|---|---|---|---|"
zstd3=$(zstd -3 -q -c "$dir/syslog.log" | wc -c)
row() { awk -v n="$1" -v b="$2" -v raw="$raw" -v z="$zstd3" 'BEGIN {printf "| %s | %d | %.1f | %.2f |\n", n, b, raw/b, b/z}'; }
row "zstd -3, whole file" "$zstd3"
row "gzip -6" "$(gzip -6 -c "$dir/syslog.log" | wc -c)"
row "zstd -19, first tenth, ×10" "$(($(head -c $((raw / 10)) "$dir/syslog.log" | zstd -19 -q -c | wc -c) * 10))"
if [ -n "${CLP_PYTHON:-}" ]; then
  row "CLP (IR stream, zstd -3)" "$("$CLP_PYTHON" scripts/clp-size.py "$dir/syslog.log")"
fi
row "sealed" "$(awk '{print $3}' "$dir/fast")"
row "sealed and re-encoded, first tenth, ×10" "$(($(awk '{print $3}' "$dir/best") * 10))"

echo
echo "## Size of each corpus"
echo
echo "\`$(basename "$corpora")\`: each file as it is, beside zstd -3 in blocks of 2 MiB."
echo
echo "| file | raw | zstd -3 | sealed | re-encoded | zstd / sealed | zstd / re-encoded |"
echo "|---|---|---|---|---|---|---|"
for log in "${logs[@]}"; do
  rm -rf "$dir/parts"; mkdir "$dir/parts"
  split -b 2097152 "$log" "$dir/parts/"
  zstd=0; for part in "$dir"/parts/*; do zstd=$((zstd + $(zstd -3 -q -c "$part" | wc -c))); done
  echo "$(basename "$log") $(size "$log") $zstd $(sealed "$log" | awk '{print $3}') $(sealed --best "$log" | awk '{print $3}')"
done | awk '{f=$3/$4; b=$3/$5; lf+=log(f); lb+=log(b); n++;
             printf "| %s | %d | %d | %d | %d | %.2f | %.2f |\n", $1, $2, $3, $4, $5, f, b}
            END {printf "| geometric mean | | | | | %.2f | %.2f |\n", exp(lf/n), exp(lb/n)}'
fi

if wants speed; then
echo
echo "## Speed of sealing, one core"
echo
echo "Processor time of the thread, medians of $times. Seal: lines that are already parsed; each block is read back and compared as it is written."
echo "Both: parsing and sealing. Limit: the raw lines in blocks of 2 MiB, compressed with zstd -1, decompressed and compared, in turn with sealing."
echo
echo "| logs | raw MB | ratio | parse MB/s | seal MB/s | both MB/s | read back MB/s | limit MB/s | seal / limit |"
echo "|---|---|---|---|---|---|---|---|---|"
raw_mb=200 replay rfc5424 "${logs[@]}" >"$dir/rfc5424.log"
raw_mb=200 replay json "${logs[@]}" >"$dir/json.log"
"$bin" generate --format rfc5424 --rate 0 --lines 1000000 --seed 1 --to - >"$dir/shop.log" 2>/dev/null
access=$(find "$corpora" -name '*access*.log' | head -1)
while [ "$(size "$dir/access.log" 2>/dev/null || echo 0)" -lt 200000000 ]; do cat "$access" >>"$dir/access.log"; done
cat "$dir/fast" <(sealed "$dir/rfc5424.log" "$dir/shop.log" "$dir/json.log" "$dir/access.log") |
  awk '{printf "| %s | %d | %s | %s | %s | %s | %s | %s | %.2f |\n", $1, $2/1e6, $4, $6, $7, $8, $9, $10, $7/$10}'
echo
echo "Re-encoding, in idle time; the limit with zstd -9:"
echo
echo "| logs | raw MB | ratio | seal MB/s | read back MB/s | limit MB/s | seal / limit |"
echo "|---|---|---|---|---|---|---|"
awk '{printf "| %s | %d | %s | %s | %s | %s | %.2f |\n", $1, $2/1e6, $4, $7, $9, $10, $7/$10}' "$dir/best"
fi

if wants grouping; then
"$bin" generate --format rfc5424 --rate 0 --lines 1000000 --seed 1 --to - >"$dir/shop.log" 2>/dev/null
echo
echo "## Lines grouped within a segment"
echo
"$bin" generate --replay "${logs[@]}" --format rfc5424 --rate 100 --backfill 3h --lines 1000000 --seed 3 --to - >"$dir/mixed.log" 2>/dev/null
"$bench" clustering "$dir/mixed.log" "$dir/shop.log"
fi

if wants amplification; then
echo
echo "## Write amplification"
echo
printf '[store]\nsegment_bytes_max = "128MiB"\nreencode_age = "0s"\n' >"$dir/loginson.toml"
serve "$dir/data"
began=$(date +%s)
"$bin" import --server "http://$http" "$dir/syslog.log" >/dev/null 2>&1
imported=$(date +%s)
sleep 15
until [ "$(metric loginson_seal_lag_segments)" = 0 ] || [ $(($(date +%s) - began)) -gt 900 ]; do sleep 1; done
sealed_at=$(date +%s)
until [ "$(metric loginson_seal_reencoded_total)" -ge "$(metric loginson_store_segments_sealed)" ] || [ $(($(date +%s) - began)) -gt 1200 ]; do sleep 1; done
written=$(awk '/^write_bytes/ {print $2}' "/proc/$server/io")
resident=$(awk '/^VmHWM/ {print $2/1024}' "/proc/$server/status")
echo "| raw MB | import s | sealed after s | re-encoded after s | written MB | written / raw | on disk MB | most memory MiB |"
echo "|---|---|---|---|---|---|---|---|"
awk -v raw="$raw" -v i=$((imported - began)) -v s=$((sealed_at - began)) -v e=$(($(date +%s) - began)) -v w="$written" \
  -v d="$(du -sb "$dir/data" | cut -f1)" -v m="$resident" \
  'BEGIN {printf "| %d | %d | %d | %d | %d | %.2f | %d | %d |\n", raw/1e6, i, s, e, w/1e6, w/raw, d/1e6, m}'
kill $server; wait $server || true; server=
fi

if wants startup; then
echo
echo "## Start-up"
echo
echo "${BENCH_SEGMENTS:-10000} segments of ${BENCH_SEGMENT_MB:-1} MB:"
echo
"$bench" many_segments "$dir/many" "${BENCH_SEGMENTS:-10000}" "${BENCH_SEGMENT_MB:-1}"
rm -rf "$dir/many"
fi

# The disk must have room for a tenth of the raw lines.
if wants memory; then
echo
echo "## Memory"
echo
echo "${BENCH_BIG_SEGMENTS:-100} segments of ${BENCH_BIG_MB:-1000} MB, lines of ${BENCH_BIG_LINE_BYTES:-1000} bytes:"
echo
"$bench" many_segments "$dir/big" "${BENCH_BIG_SEGMENTS:-100}" "${BENCH_BIG_MB:-1000}" "${BENCH_BIG_LINE_BYTES:-1000}"
printf '[store]\nreencode = false\nsegment_bytes_max = "128MiB"\n' >"$dir/loginson.toml"
serve "$dir/big"
row() { echo "| $1 | $(memory VmRSS) | $(memory VmHWM) | $(($(metric loginson_store_cache_bytes) / 1048576)) |"; }
echo
echo "The server with these segments; up to 512 MiB of the resident memory are its cache:"
echo
echo "| after | resident MiB | peak MiB | cache MiB |"
echo "|---|---|---|---|"
row "start"
curl -s "http://$http/select/logsql/query" --data-urlencode 'query=request' -d limit=100 >/dev/null
curl -s "http://$http/select/logsql/query" --data-urlencode 'query=app_name:sshd took | stats count()' -d start=2025-06-20T00:00:00Z -d end=2025-06-20T12:00:00Z >/dev/null
row "the newest 100 lines of a word, and a count over half a day"
"$bin" generate --format rfc5424 --rate 0 --lines "${BENCH_IMPORT_LINES:-5000000}" --seed 1 --to - >"$dir/more.log" 2>/dev/null
"$bin" import --server "http://$http" "$dir/more.log" >/dev/null 2>&1
began=$(date +%s)
until [ "$(metric loginson_seal_lag_segments)" = 0 ] || [ $(($(date +%s) - began)) -gt 600 ]; do sleep 1; done
row "$(($(size "$dir/more.log") / 1000000)) MB more, kept and sealed"
kill $server; wait $server || true; server=
fi
