#!/usr/bin/env bash
# A real Apache Kafka on loopback, for tests and measurements: KRaft, without ZooKeeper. Every node is
# broker and controller.
#
#   kafka.sh install          fetches Kafka by Maven
#   kafka.sh start [N]        starts N brokers (1), or those of them that do not run
#   kafka.sh stop             ends all brokers
#   kafka.sh kill NODE        kills a broker, numbered from 1, without warning
#   kafka.sh tool CLASS ...   runs a tool of Kafka, for example org.apache.kafka.tools.TopicCommand
#   kafka.sh wipe             ends all brokers and deletes their data
#
# KAFKA_PORT (19092) is the port of the first broker; broker N has the Nth from there, and a
# controller 100 above. KAFKA_HEAP (512m) is the heap of each. KAFKA_SETTINGS names a file with more
# settings of brokers, in which @NODE@ stands for the number of the broker.
. "$(dirname "$0")/common.sh"

version=3.9.0
port=${KAFKA_PORT:-19092}
heap=${KAFKA_HEAP:-512m}
jars=$software/kafka-$version
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

install() {
  [ ! -d "$jars" ] || return 0
  command -v mvn >/dev/null || fail "the command mvn is missing: sudo apt-get install maven"
  local part=$jars.part artifact
  rm -rf "$part"; mkdir -p "$part"
  {
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
    echo '<artifactId>software</artifactId><version>1</version><dependencies>'
    for artifact in kafka_2.13 kafka-tools; do
      echo "<dependency><groupId>org.apache.kafka</groupId><artifactId>$artifact</artifactId>"
      echo "<version>$version</version></dependency>"
    done
    echo '</dependencies></project>'
  } >"$part/pom.xml"
  mvn -q -B -f "$part/pom.xml" "$plugin:copy-dependencies" -DincludeScope=runtime -DoutputDirectory="$part" \
    >"$software/kafka-install.log" 2>&1 || { grep -m 3 ERROR "$software/kafka-install.log" >&2; fail "Maven failed"; }
  mv "$part" "$jars"
}

# Tools write warnings to standard error, brokers to their logs.
write_log_settings() {
  cat >"$state/log4j.properties" <<END
log4j.rootLogger=WARN, E
log4j.appender.E=org.apache.log4j.ConsoleAppender
log4j.appender.E.Target=System.err
log4j.appender.E.layout=org.apache.log4j.PatternLayout
log4j.appender.E.layout.ConversionPattern=%d %p %c: %m%n
END
}

tool() { java -Xmx512m "-Dlog4j.configuration=file:$state/log4j.properties" -cp "$jars/*" "$@"; }

# write_settings NODE NODES
write_settings() {
  local node=$1 nodes=$2 n voters='' copies=$(($2 < 3 ? $2 : 3))
  for ((n = 1; n <= nodes; n++)); do voters+=${voters:+,}$n@$host:$((port + 99 + n)); done
  cat >"$state/broker$node.properties" <<END
process.roles=broker,controller
node.id=$node
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://$host:$((port + node - 1)),CONTROLLER://$host:$((port + 99 + node))
advertised.listeners=PLAINTEXT://$host:$((port + node - 1))
inter.broker.listener.name=PLAINTEXT
log.dirs=$state/broker$node
default.replication.factor=$copies
min.insync.replicas=$((copies > 1 ? 2 : 1))
offsets.topic.replication.factor=$copies
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=$copies
transaction.state.log.num.partitions=4
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
END
  [ -z "${KAFKA_SETTINGS:-}" ] || sed "s/@NODE@/$node/g" "$KAFKA_SETTINGS" >>"$state/broker$node.properties"
}

start() {
  local nodes=$1 node
  command -v java >/dev/null || fail "the command java is missing: sudo apt-get install openjdk-17-jre-headless"
  mkdir -p "$state"
  [ -e "$state/nodes" ] || echo "$nodes" >"$state/nodes"
  [ "$(cat "$state/nodes")" = "$nodes" ] || fail "the data are of $(cat "$state/nodes") brokers; wipe them first"
  write_log_settings
  for ((node = 1; node <= nodes; node++)); do
    ! is_up "broker$node" || continue
    need_free $((port + node - 1)) KAFKA_PORT
    need_free $((port + 99 + node)) KAFKA_PORT
    write_settings "$node" "$nodes"
    # All brokers of a cluster have the same id, 16 bytes in base64.
    [ -e "$state/broker$node/meta.properties" ] ||
      tool kafka.tools.StorageTool format -t bG9naW5zb24tdGVzdHMtMQ -c "$state/broker$node.properties" \
        >"$state/format.log" 2>&1 || { tail -n 5 "$state/format.log" >&2; fail "the directory of broker $node cannot be made"; }
    launch "broker$node" java "-Xms$heap" "-Xmx$heap" -XX:+UseG1GC -XX:+ExitOnOutOfMemoryError \
      "-Dlog4j.configuration=file:$state/log4j.properties" -cp "$jars/*" kafka.Kafka "$state/broker$node.properties"
  done
  for ((node = 1; node <= nodes; node++)); do wait_until "broker$node" 600 is_open $((port + node - 1)); done
}

case ${1:-} in
  install) install ;;
  start) install; start "${2:-1}" ;;
  stop) end_all TERM ;;
  kill) end KILL "broker${2:?which broker, from 1}" ;;
  tool) install; mkdir -p "$state"; write_log_settings; shift; tool "$@" ;;
  wipe) end_all KILL; rm -rf "$state" ;;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
