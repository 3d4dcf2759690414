#!/usr/bin/env bash
# Starts Loginson with a demo generator: an hour of history with an incident in it, then live lines.
# Data in ./demo-data (DEMO_DATA moves it); Ctrl-C ends both.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${LOGINSON_BIN:?run this by: make demo}
data=${DEMO_DATA:-demo-data}
http=${LOGINSON_HTTP_LISTEN:-127.0.0.1:9514}
tcp=${LOGINSON_SYSLOG_TCP_LISTEN:-127.0.0.1:5514}
udp=${LOGINSON_SYSLOG_UDP_LISTEN:-127.0.0.1:5514}
rate=${DEMO_RATE:-200}

"$bin" serve --data-dir "$data" --http-listen "$http" --syslog-tcp-listen "$tcp" --syslog-udp-listen "$udp" &
server=$!
generator=
trap 'kill $generator $server 2>/dev/null; wait' EXIT
trap 'exit 0' TERM
# A terminal sends Ctrl-C to both as well; a second signal would make the server end without its last steps.
trap 'trap - EXIT; wait; exit 0' INT

for _ in $(seq 300); do
  curl -fs "http://$http/ready" >/dev/null 2>&1 && break
  kill -0 $server 2>/dev/null || { wait $server; exit 1; }
  sleep 0.1
done

"$bin" generate --to "tcp://$tcp" --rate "$rate" --backfill 1h --incident demo --quiet &
generator=$!

cat <<EOF

  Loginson is running.   Open   http://$http/

  An hour of made-up logs of a small shop is there, and new lines arrive. In that hour something went wrong:
  open "Summary", find the burst of status 500 in the type "access", and click on it.
  Ctrl-C ends the demo. Its data stays in $data (make clean-demo removes it).

EOF
wait $server
