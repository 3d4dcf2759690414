#!/usr/bin/env python3
"""How a cluster grows: lines per second that 1, 2, 4 and 8 stores read from Kafka, parse, seal and
publish, each store limited to a quarter of a core by a control group.

The lines are in Kafka before the stores start. The rate is that of the middle eighty percent of the
messages, so neither the start of the stores nor the last small segments count. In the end a query
counts all lines. One run of all numbers of stores after another; medians of the runs are given.
Kafka, the object storage, PostgreSQL and the query node are not limited, and share the machine: on
two cores, eight stores may use all of it.

  LOGINSON_BIN=... scripts/bench-growth.py [--lines 4000000] [--runs 3] [--stores 1,2,4,8] [--write]

--write puts the table into docs/benchmarks/cluster.md, between its markers. Needs root, for control
groups.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/benchmarks/cluster.md"
BEGIN, END = "<!-- growth: begin -->", "<!-- growth: end -->"
PORT = 20714
PARTITIONS = 16
BATCH_LINES = 2_000
SHARE = 0.25
PERIOD_US = 100_000
# Without a new segment for so long, the stores have published what fills one.
QUIET_S = 5
# Longer than any honest run on a slow machine: beyond it, something hangs.
HANGS_S = 3_600
GROUPS = pathlib.Path("/sys/fs/cgroup")


class Group:
    """A control group whose processes share a quarter of a core."""

    def __init__(self, name):
        # Version 1 has the controller in a tree of its own; version 2 has one tree.
        self.is_old = (GROUPS / "cpu/cpu.cfs_quota_us").exists()
        self.path = (GROUPS / "cpu" if self.is_old else GROUPS) / f"loginson-growth-{name}"
        self.path.mkdir(exist_ok=True)
        quota = int(SHARE * PERIOD_US)
        if self.is_old:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        # It is empty once the kernel has buried the processes.
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return json.loads(answer.read())


def count(port):
    form = urllib.parse.urlencode({"query": "* | stats count() n"}).encode()
    url = f"http://127.0.0.1:{port}/select/logsql/query"
    with urllib.request.urlopen(url, data=form, timeout=600) as answer:
        return int(json.loads(answer.read())["n"])


def post(port, body):
    url = f"http://127.0.0.1:{port}/insert/jsonline?_stream_fields=host"
    with urllib.request.urlopen(url, data=body, timeout=120) as answer:
        answer.read()


def batch(first, rng):
    now = time.time_ns()
    texts = ("request done", "connection timeout", "user logged in", "cache miss for key")
    rows = (
        f'{{"_time":"{now + n}","host":"h{n % 20}","_msg":"{texts[rng.randrange(4)]} '
        f'{rng.getrandbits(32):08x}","seq":"{n}","took":{rng.randrange(1000)}}}'
        for n in range(first, first + BATCH_LINES)
    )
    return "\n".join(rows).encode()


def fill(port, lines):
    """Appends the lines to Kafka; returns their bytes."""
    rng = random.Random(1)
    work = iter(range(0, lines, BATCH_LINES))
    lock = threading.Lock()
    sizes = []

    def send():
        while True:
            with lock:
                first = next(work, None)
                if first is None:
                    return
                body = batch(first, rng)
            post(port, body)
            sizes.append(len(body) + 1)

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return sum(sizes)


class Engines:
    def __init__(self, data):
        self.data = data
        self.ports = {"KAFKA_PORT": "20792", "S3_PORT": "20797", "POSTGRESQL_PORT": "20798"}
        self.environment = dict(os.environ, LOGINSON_SERVERS_DATA=str(data), **self.ports)
        for engine in ("postgresql", "s3", "kafka"):
            self.run(engine, "wipe")
            self.run(engine, "start")
        for key in ("loginson", "loginson-secret"):
            (data / key).write_text(key)

    def run(self, engine, command):
        script = ROOT / f"scripts/servers/{engine}.sh"
        subprocess.run([script, command], env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def make(self, name):
        """An empty bucket and an empty database."""
        (self.data / "s3/objects" / name).mkdir(parents=True)
        psql = ["psql", "-h", "127.0.0.1", "-U", "postgres", "-p", self.ports["POSTGRESQL_PORT"]]
        subprocess.run([*psql, "-qc", f'CREATE DATABASE "{name}"'], check=True)

    def config(self, name, roles):
        return f"""
[cluster]
roles = [{roles}]
lease = "10s"
segment_bytes = "1MiB"
segment_age = "10m"
[cluster.kafka]
brokers = ["127.0.0.1:{self.ports['KAFKA_PORT']}"]
topic = "{name}"
partitions = {PARTITIONS}
replicas = 1
replicas_min = 1
[cluster.objects]
endpoint = "http://127.0.0.1:{self.ports['S3_PORT']}"
bucket = "{name}"
access_key_file = "{self.data}/loginson"
secret_key_file = "{self.data}/loginson-secret"
[cluster.postgresql]
connection = "host=127.0.0.1 port={self.ports['POSTGRESQL_PORT']} user=postgres dbname={name}"
"""

    def wipe(self):
        for engine in ("kafka", "s3", "postgresql"):
            self.run(engine, "wipe")


def serve(bin, directory, name, port, extra, group=None):
    config = directory / f"{name}.toml"
    config.write_text(
        f'data_dir = "{directory}/{name}"\nhttp_listen = "127.0.0.1:{port}"\n'
        f'syslog_udp_listen = "off"\nsyslog_tcp_listen = "off"\n{extra}'
    )
    log = open(directory / f"{name}.log", "wb")
    enter = group.enter if group else None
    return subprocess.Popen([bin, "serve", "--config", config], stdout=log, stderr=log, preexec_fn=enter)


def wait_for(what, process, directory, look):
    begun = time.monotonic()
    while time.monotonic() - begun < HANGS_S:
        if process.poll() is not None:
            sys.exit(f"{what}: a node ended; see {directory}")
        try:
            if look():
                return
        except (OSError, KeyError, ValueError):
            pass
        time.sleep(0.2)
    sys.exit(f"{what} does not happen; see {directory}")


def end(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def drain(bin, engines, directory, name, stores, lines):
    """Lines per second, megabytes per second, and seconds of processor time of the stores."""
    engines.make(name)
    directory = directory / name
    directory.mkdir()
    reader = serve(bin, directory, "reader", PORT, engines.config(name, "'collector', 'query'"))
    nodes, groups = [reader], []
    try:
        wait_for("the reader", reader, directory, lambda: post(PORT, b"") is None)
        size = fill(PORT, lines)

        def state():
            partitions = get(PORT, "/api/v1/cluster")["partitions"]
            ends = sum(one["end"] or 0 for one in partitions)
            return ends, sum(one["published"] or 0 for one in partitions)

        wait_for("the lines in Kafka", reader, directory, lambda: state()[0] > 0)
        total, last = state()[0], None
        # What collectors hold back for some milliseconds comes behind the acknowledgements of none.
        while total != last:
            last = total
            time.sleep(1)
            total = state()[0]
        for number in range(stores):
            group = Group(f"{os.getpid()}-{number}")
            groups.append(group)
            port = PORT + 1 + number
            node = serve(bin, directory, f"store{number}", port, engines.config(name, "'store'"), group)
            nodes.append(node)
        reached = {}
        begun, moved, before = time.monotonic(), time.monotonic(), 0
        while 1.0 not in reached:
            if any(node.poll() is not None for node in nodes) or time.monotonic() - begun > HANGS_S:
                sys.exit(f"{stores} stores do not drain the topic; see {directory}")
            published = state()[1]
            if published >= total:
                reached.setdefault(1.0, (time.monotonic(), published))
            for part in (0.1, 0.9):
                if published >= part * total:
                    reached.setdefault(part, (time.monotonic(), published))
            if published > before:
                moved, before = time.monotonic(), published
            # What is left is below the size at which it is published by itself.
            if published and time.monotonic() - moved > QUIET_S and 1.0 not in reached:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api/v1/seal", data=b"", timeout=60).read()
            time.sleep(0.1)
        (from_s, first), (until_s, second) = reached[0.1], reached[0.9]
        part = (second - first) / total
        seconds = until_s - from_s
        found = count(PORT)
        if found != lines:
            sys.exit(f"{stores} stores: {found} lines are found of {lines}; see {directory}")
        return lines * part / seconds, size * part / seconds / 1e6
    finally:
        end(nodes)
        for group in groups:
            group.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lines", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stores", default="1,2,4,8")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks/cluster.md")
    options = parser.parse_args()
    options.lines -= options.lines % BATCH_LINES
    numbers = [int(number) for number in options.stores.split(",")]
    if os.geteuid() != 0:
        sys.exit("control groups need root: run it with sudo")
    bin = os.environ["LOGINSON_BIN"]
    directory = pathlib.Path(tempfile.mkdtemp(prefix="loginson-bench-growth-"))
    directory.chmod(0o755)
    data = directory / "engines"
    data.mkdir(mode=0o755)
    engines = Engines(data)
    rates = {number: [] for number in numbers}
    try:
        for run in range(options.runs):
            for number in numbers:
                rate = drain(bin, engines, directory, f"growth{run}x{number}", number, options.lines)
                rates[number].append(rate)
                print(f"run {run + 1}, {number} stores: {rate[0]:,.0f} lines/s, {rate[1]:.1f} MB/s", flush=True)
    finally:
        engines.wipe()
    shutil.rmtree(directory, ignore_errors=True)

    middle = {
        number: [statistics.median(rate[index] for rate in rates[number]) for index in (0, 1)]
        for number in numbers
    }
    base = middle[numbers[0]][0] / numbers[0]
    version = subprocess.run([bin, "--version"], capture_output=True, text=True).stdout.split()[-1]
    cores = os.cpu_count()
    text = [
        BEGIN,
        f"Machine: {cores} cores; version {version}; {datetime.date.today().isoformat()}; "
        f"{options.lines:,} JSON lines, medians of runs: {options.runs}; each store {SHARE} of a core.",
        "",
        "| stores | lines/s | MB/s | beside one store | of what the first suggests |",
        "|---|---|---|---|---|",
    ]
    for number in numbers:
        lines_s, mb_s = middle[number]
        text.append(
            f"| {number} | {lines_s:,.0f} | {mb_s:.1f} | {lines_s / middle[numbers[0]][0]:.2f} | "
            f"{lines_s / (base * number):.0%} |"
        )
    text.append(END)
    table = "\n".join(text)
    print(table)
    if options.write:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN, 1)
        PAGE.write_text(before + table + rest.split(END, 1)[1])


main()
