#!/usr/bin/env python3
"""Reads topics of a real Kafka, kills the server twice in between, and counts the lines.

    LOGINSON_BIN=target/release/loginson scripts/test-kafka.py [--lines 100000]

A broker is started by scripts/servers/kafka.sh, and a producer of Python (kafka-python, installed once as the senders of
test-senders.py are) writes to three partitions. Every number of 0 … LINES-1 must be there once, although the server is
killed when a third and when two thirds of them are there. Then two servers read one topic as one group: each must have
some of the partitions, and together each record once.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

import senderlib
import ways

ROOT = pathlib.Path(__file__).resolve().parent.parent
until = senderlib.until

KAFKA_PYTHON = "2.2.15"

PRODUCER = """
import json, sys, time as clock
from kafka import KafkaProducer
broker, topic, lines, partitions, slow = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
producer = KafkaProducer(bootstrap_servers=broker, acks="all", linger_ms=20, compression_type="gzip")
for n in range(lines):
    value = json.dumps({"n": n, "way": topic, "level": "warn", "message": f"line {n} of {topic}"}).encode()
    producer.send(topic, value, key=str(n).encode(), partition=n % partitions)
    if n % 1000 == 999:
        # A deletion: it becomes no line.
        producer.send(topic, None, key=str(n).encode(), partition=n % partitions)
        clock.sleep(slow)
producer.flush()
producer.close()
"""


class Broker:
    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            # The controller is 100 above.
            self.port = min(free.getsockname()[1], 60_000)
        self.variables = {**os.environ, "KAFKA_PORT": str(self.port), "LOGINSON_SERVERS_DATA": folder}
        self.address = f"127.0.0.1:{self.port}"
        self.run("start")

    def run(self, *words):
        subprocess.run([ROOT / "scripts/servers/kafka.sh", *words], env=self.variables, check=True, stdout=subprocess.DEVNULL)

    def create(self, topic, partitions):
        self.run(
            "tool", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.address,
            "--create", "--topic", topic, "--partitions", str(partitions),
        )


class Server:
    def __init__(self, binary, folder, section):
        os.makedirs(folder)
        self.binary, self.folder = binary, folder
        with open(f"{folder}/config.toml", "w") as file:
            file.write(f"[[kafka]]\n{section}")
        self.start()

    def start(self):
        ready = f"{self.folder}/ready"
        if os.path.exists(ready):
            os.remove(ready)
        self.process = subprocess.Popen(
            [
                self.binary, "serve", "--http-listen", "127.0.0.1:0", "--syslog-udp-listen", "off", "--syslog-tcp-listen", "off",
                "--data-dir", f"{self.folder}/data", "--ready-file", ready, "--config", f"{self.folder}/config.toml",
            ],
            stderr=open(f"{self.folder}/log", "ab"),
        )
        until(lambda: os.path.exists(ready) or self.process.poll() is not None, "the server's start")
        if self.process.poll() is not None:
            sys.exit("test-kafka: the server ended:\n" + open(f"{self.folder}/log").read())
        self.http = json.load(open(ready))["http"]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.http}{path}") as answer:
            return answer.read().decode()

    def counts(self, topic):
        """Lines, and different numbers."""
        query = f'way:="{topic}" | stats count() lines, count_uniq(n) numbers'
        rows = self.get("/select/logsql/query?" + urllib.parse.urlencode({"query": query}))
        row = json.loads(rows.splitlines()[0]) if rows else {}
        return int(row.get("lines", 0)), int(row.get("numbers", 0))

    def group(self):
        return json.loads(self.get("/api/v1/status"))["kafka"][0]

    def told(self):
        return open(f"{self.folder}/log").read()[-5000:]


def produce(broker, topic, lines, partitions, slow):
    _, venv = senderlib.python("kafka-python", KAFKA_PYTHON)()
    process = subprocess.Popen(
        [f"{venv}/bin/python", "-", broker.address, topic, str(lines), str(partitions), str(slow)], stdin=subprocess.PIPE, text=True,
    )
    process.stdin.write(PRODUCER)
    process.stdin.close()
    return process


def check(right, what, *servers):
    print(f"{'ok  ' if right else 'FAIL'} {what}", flush=True)
    if not right:
        sys.exit("\n".join(server.told() for server in servers))


def killed_twice(binary, broker, folder, lines):
    broker.create("once", 3)
    section = f'brokers = ["{broker.address}"]\ntopics = ["onc*"]\nrecord_fields = ["topic", "partition"]\n'
    server = Server(binary, f"{folder}/once", section)
    producer = produce(broker, "once", lines, 3, 0.02)
    kills = []
    try:
        for share in (1, 2):
            until(lambda: server.counts("once")[0] >= lines * share // 3, f"{share} thirds of the lines")
            kills.append(server.counts("once")[0])
            server.kill()
            server.start()
        until(lambda: server.counts("once")[1] >= lines, "all lines")
        producer.wait()
        until(lambda: [topic["lag_records"] for topic in server.group()["topics"]] == [0], "the lag to be 0")
        there, numbers = server.counts("once")
        empty = server.group()["topics"][0]["empty"]
        metrics = server.get("/metrics")
    finally:
        producer.kill()
        server.stop()
    check(
        there == numbers == lines and producer.returncode == 0,
        f"killed at {kills}: {lines} sent, {numbers} there, {there - numbers} twice, {empty} deletions since the last kill", server,
    )
    ways.record("Kafka", "kafka-python, gzip, three partitions", KAFKA_PYTHON, lines, 2, numbers, there - numbers)
    check('loginson_kafka_lag_records{group="loginson",topic="once"} 0' in metrics, "the lag is a metric", server)


def shared(binary, broker, folder, lines):
    broker.create("pair", 6)
    section = f'brokers = ["{broker.address}"]\ntopics = ["pair"]\ngroup = "two"\n'
    servers = [Server(binary, f"{folder}/pair{n}", section) for n in range(2)]
    producer = produce(broker, "pair", lines, 6, 0.02)
    parts = lambda: [sum(topic["partitions"] for topic in server.group()["topics"]) for server in servers]
    try:
        until(lambda: sum(server.counts("pair")[1] for server in servers) >= lines, "all lines in two servers")
        producer.wait()
        of_each = [server.counts("pair") for server in servers]
        shares = parts()
        # One that stops hands its partitions over.
        servers[0].stop()
        until(lambda: sum(topic["partitions"] for topic in servers[1].group()["topics"]) == 6, "all partitions in one server")
    finally:
        producer.kill()
        for server in servers:
            server.stop()
    there, numbers = (sum(counts) for counts in zip(*of_each))
    check(there == numbers == lines, f"two servers: {of_each} of {lines}", *servers)
    check(min(shares) > 0 and sum(shares) == 6, f"partitions: {shares}", *servers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=100_000)
    options = parser.parse_args()
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("test-kafka: LOGINSON_BIN names no binary to test")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(f"{folder}/servers")
        try:
            killed_twice(binary, broker, folder, options.lines)
            shared(binary, broker, folder, options.lines)
        finally:
            broker.run("wipe")
    print("Each record is there once.")


if __name__ == "__main__":
    main()
