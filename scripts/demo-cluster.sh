#!/usr/bin/env bash
# Starts a whole cluster on this machine: three brokers of Kafka, an S3 server, PostgreSQL, two
# collectors, three stores and two query nodes, with a demo generator. Everything listens on
# loopback. Ctrl-C ends all of it.
#
# DEMO_DATA (demo-cluster-data) holds everything; DEMO_RATE (200) is the lines a second of each
# generator; DEMO_BROKERS (3), DEMO_STORES (3), DEMO_QUERIES (2) are the numbers of nodes;
# DEMO_PORT (9514) is the port of the page, and further nodes have the next ones.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${LOGINSON_BIN:?run this by: make demo-cluster}
data=$(mkdir -p "${DEMO_DATA:-demo-cluster-data}" && cd "${DEMO_DATA:-demo-cluster-data}" && pwd)
rate=${DEMO_RATE:-200}
brokers=${DEMO_BROKERS:-3}
stores=${DEMO_STORES:-3}
queries=${DEMO_QUERIES:-2}
port=${DEMO_PORT:-9514}
export LOGINSON_SERVERS_DATA=$data/engines
export KAFKA_PORT=${KAFKA_PORT:-19092} S3_PORT=${S3_PORT:-19000} POSTGRESQL_PORT=${POSTGRESQL_PORT:-15432}

nodes=()
stop() {
  trap - EXIT INT TERM
  echo "ending the cluster"
  # Collectors first, so that what they have goes to Kafka.
  for node in "${nodes[@]}"; do kill "$node" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for engine in kafka s3 postgresql; do "scripts/servers/$engine.sh" stop || true; done
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

echo "starting Kafka, an S3 server and PostgreSQL (fetched the first time)"
scripts/servers/postgresql.sh start
scripts/servers/s3.sh start
scripts/servers/kafka.sh start "$brokers"

mkdir -p "$data/nodes"
printf '%s\n' "${S3_KEY:-loginson}" >"$data/nodes/access.key"
printf '%s\n' "${S3_SECRET:-loginson-secret}" >"$data/nodes/secret.key"
chmod 600 "$data"/nodes/*.key

addresses=$(for ((n = 0; n < brokers; n++)); do printf '"127.0.0.1:%d", ' $((KAFKA_PORT + n)); done)
copies=$((brokers < 3 ? brokers : 3))
kafka="[cluster.kafka]
brokers = [${addresses%, }]
partitions = 6
replicas = $copies
replicas_min = $((copies > 1 ? 2 : 1))"

# start NAME HTTP_PORT COMMAND...: a node whose settings are in standard input.
start() {
  local name=$1 http=$2; shift 2
  { echo "http_listen = \"127.0.0.1:$http\""; cat; } >"$data/nodes/$name.toml"
  "$bin" "$@" --config "$data/nodes/$name.toml" >>"$data/nodes/$name.log" 2>&1 &
  nodes+=($!)
  echo $! >"$data/nodes/$name.pid"
}

# answers HTTP_PORT NAME
answers() {
  for _ in $(seq 600); do
    curl -fs "http://127.0.0.1:$1/ready" >/dev/null 2>&1 && return 0
    kill -0 "$(cat "$data/nodes/$2.pid")" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 5 "$data/nodes/$2.log" >&2
  echo "$2 did not start" >&2
  exit 1
}

# node NAME HTTP_PORT ROLE: a store or a query node.
node() {
  start "$1" "$2" serve <<END
data_dir = "$data/nodes/$1"
syslog_udp_listen = "off"
syslog_tcp_listen = "off"
[cluster]
roles = ["$3"]
segment_bytes = "${DEMO_SEGMENT_BYTES:-64MiB}"
segment_age = "${DEMO_SEGMENT_AGE:-1m}"
$kafka
[cluster.objects]
endpoint = "http://127.0.0.1:$S3_PORT"
bucket = "${S3_BUCKET:-loginson}"
access_key_file = "$data/nodes/access.key"
secret_key_file = "$data/nodes/secret.key"
[cluster.postgresql]
connection = "host=127.0.0.1 port=$POSTGRESQL_PORT user=postgres dbname=postgres"
END
}

for ((n = 1; n <= stores; n++)); do node "store$n" $((port + 10 + n)) store; done
for ((n = 1; n <= queries; n++)); do node "query$n" $((port + n - 1)) query; done
for n in 1 2; do
  start "collector$n" $((port + 20 + n)) collect <<END
syslog_udp_listen = "off"
syslog_tcp_listen = "127.0.0.1:$((5513 + n))"
[collect]
spool_dir = "$data/nodes/collector$n"
$kafka
END
done
for ((n = 1; n <= queries; n++)); do answers $((port + n - 1)) "query$n"; done
for ((n = 1; n <= stores; n++)); do answers $((port + 10 + n)) "store$n"; done

if [ "$rate" != 0 ]; then
  "$bin" generate --to tcp://127.0.0.1:5514 --rate "$rate" --backfill 1h --incident demo --quiet &
  nodes=($! "${nodes[@]}")
  "$bin" generate --to tcp://127.0.0.1:5515 --rate "$rate" --seed 2 --quiet &
  nodes=($! "${nodes[@]}")
fi

cat <<EOF

  A cluster of Loginson is running.   Open   http://127.0.0.1:$port/

  Its nodes:   $bin cluster status --server http://127.0.0.1:$port
  Kill any of them: the process ids are in $data/nodes/*.pid, for example
               kill -9 \$(cat $data/nodes/store1.pid)
  Their logs are beside them. Ctrl-C ends everything; the data stay in $data.

EOF
touch "$data/ready"
wait
