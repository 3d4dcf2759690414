#!/usr/bin/env python3
"""One server beside a server for several stores and a cluster, on this machine: lines/s, processor
time, and the times of queries, with the answers compared.

The same numbered lines are inserted over HTTP by several threads: at one server; at two stores in
turn that a third server answers for; at the collector of a cluster (one broker, two stores, one query
node; scripts/demo-cluster.sh). Processor time is taken until all lines are found, and until all are
sealed. Then the same queries run several times, cold ones first. In the end the stores of the cluster
are stopped, so that its collector and Kafka have the machine for themselves; beside it Kafka's own
producer benchmark appends as many bytes.

  LOGINSON_BIN=... scripts/bench-cluster.py [--lines 2000000] [--threads 4] [--runs 5]
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PORT = 20514
BATCH_LINES = 2_000
QUERIES = {
    "count": "* | stats count() n",
    "count by host": "* | stats by (host) count() n | sort by (host)",
    "word": "timeout | stats count() n",
    "needle": "seq:=1234567 | stats count() n",
    "quantile": "* | stats quantile(0.99, took) q",
    "newest 100": "* | sort by (_time desc) limit 100 | stats count() n",
}


def batch(first, rng):
    now = time.time_ns()
    texts = ("request done", "connection timeout", "user logged in", "cache miss for key")
    rows = (
        f'{{"_time":"{now + n}","host":"h{n % 20}","_msg":"{texts[rng.randrange(4)]} '
        f'{rng.getrandbits(32):08x}","seq":"{n}","took":{rng.randrange(1000)},"path":"/api/v1/item/{n % 997}"}}'
        for n in range(first, first + BATCH_LINES)
    )
    return "\n".join(rows).encode()


def post(port, body):
    url = f"http://127.0.0.1:{port}/insert/jsonline?_stream_fields=host"
    with urllib.request.urlopen(url, data=body, timeout=120) as answer:
        answer.read()


def query(port, text):
    form = urllib.parse.urlencode({"query": text}).encode()
    begun = time.monotonic()
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/select/logsql/query", data=form, timeout=600
    ) as answer:
        rows = answer.read()
    return (time.monotonic() - begun) * 1000, rows


def processor_s(pids):
    """Seconds of processor time of processes and their ended threads."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / ticks


def machine_s():
    """Seconds that the cores of this machine were busy since it started."""
    ticks = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, soft = map(int, pathlib.Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + soft) / ticks


def insert(ports, bodies, threads):
    """Seconds until all batches are acknowledged."""
    work = iter(list(enumerate(bodies)))
    lock = threading.Lock()

    def send():
        while True:
            with lock:
                one = next(work, None)
            if one is None:
                return
            post(ports[one[0] % len(ports)], one[1])

    begun = time.monotonic()
    senders = [threading.Thread(target=send) for _ in range(threads)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return time.monotonic() - begun


def seal(port, pids, quiet_s):
    """Has everything sealed, and waits until no process has worked for some seconds."""
    post_empty = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/seal", data=b"")
    with urllib.request.urlopen(post_empty, timeout=600) as answer:
        answer.read()
    quiet_since, last = time.monotonic(), processor_s(pids)
    while time.monotonic() - quiet_since < quiet_s:
        time.sleep(1)
        now = processor_s(pids)
        if now - last > 0.2:
            quiet_since = time.monotonic()
        last = now


def append_alone(port, stores, bodies, results):
    """MB/s that the collector of a cluster appends while its stores stand still, for several
    numbers of senders that each wait for their answers."""
    for pid in stores:
        os.kill(pid, signal.SIGSTOP)
    size = sum(map(len, bodies))
    results["append"] = []
    for threads in (1, 4, 16, 32):
        machine_before = machine_s()
        seconds = insert([port], bodies, threads)
        busy = (machine_s() - machine_before) / seconds
        results["append"].append((threads, size / seconds / 1e6, busy))
    for pid in stores:
        os.kill(pid, signal.SIGCONT)


def measure(name, to, ask, pids, bodies, options, results):
    lines = len(bodies) * BATCH_LINES
    size = sum(map(len, bodies))
    before, machine_before = processor_s(pids), machine_s()
    seconds = insert(to, bodies, options.threads)
    busy = (machine_s() - machine_before) / seconds
    found = 0
    while found < lines:
        found = int(json.loads(query(ask, "* | stats count() n")[1])["n"])
    row = {
        "lines_s": lines / seconds,
        "mb_s": size / seconds / 1e6,
        "busy": busy,
        "cpu_s_gb": (processor_s(pids) - before) / (size / 1e9),
    }
    seal(ask, pids, options.settle)
    row["cpu_s_gb_sealed"] = (processor_s(pids) - before) / (size / 1e9)
    answers = {}
    for text, what in QUERIES.items():
        times = []
        for _ in range(options.runs):
            took, rows = query(ask, what)
            times.append(took)
        row[text] = (times[0], statistics.median(times[1:]))
        answers[text] = sorted(rows.splitlines())
    results[name] = (row, answers)
    print(
        f"{name}: {row['lines_s']:,.0f} lines/s, {row['cpu_s_gb']:.0f} s/GB, {busy:.2f} cores busy",
        flush=True,
    )


def serve(bin, directory, name, port, extra=""):
    config = directory / f"{name}.toml"
    config.write_text(
        f'data_dir = "{directory}/{name}"\nhttp_listen = "127.0.0.1:{port}"\n'
        f'syslog_udp_listen = "off"\nsyslog_tcp_listen = "off"\n{extra}'
    )
    log = open(directory / f"{name}.log", "wb")
    process = subprocess.Popen([bin, "serve", "--config", config], stdout=log, stderr=log)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).read()
            return process
        except OSError:
            time.sleep(0.1)
    sys.exit((directory / f"{name}.log").read_text())


def kafka_alone(environment, size, results):
    """Kafka's own producer benchmark, with as many bytes in messages of 1 MB."""
    script = str(ROOT / "scripts/servers/kafka.sh")
    address = f"127.0.0.1:{environment['KAFKA_PORT']}"
    count = max(50, size // (1 << 20))
    run = [script, "tool", "org.apache.kafka.tools.ProducerPerformance", "--topic", "perf"]
    run += ["--num-records", str(count), "--record-size", str((1 << 20) - 200), "--throughput", "-1"]
    run += ["--producer-props", f"bootstrap.servers={address}", "acks=all", "max.request.size=2097152"]
    run += ["batch.size=1048576", "buffer.memory=67108864"]
    subprocess.run(
        [script, "tool", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address]
        + ["--create", "--topic", "perf", "--partitions", "6", "--config", "max.message.bytes=4194304"],
        env=environment,
        capture_output=True,
    )
    printed = subprocess.run(run, env=environment, capture_output=True, text=True).stdout
    last = printed.strip().splitlines()[-1] if printed.strip() else "nothing"
    print(f"kafka-producer-perf-test: {last}")
    results["perf"] = last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--settle", type=float, default=5, help="seconds without work before the queries")
    options = parser.parse_args()
    bin = os.environ["LOGINSON_BIN"]
    directory = pathlib.Path(tempfile.mkdtemp(prefix="loginson-bench-cluster-"))
    directory.chmod(0o755)
    rng = random.Random(1)
    bodies = [batch(first, rng) for first in range(0, options.lines, BATCH_LINES)]
    results = {}
    try:
        one = serve(bin, directory, "one", PORT)
        measure("one server", [PORT], PORT, [one.pid], bodies, options, results)
        one.terminate()
        one.wait()
        ports = [PORT + 1, PORT + 2]
        nodes = [serve(bin, directory, f"store{port}", port) for port in ports]
        stores = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        nodes.append(serve(bin, directory, "controller", PORT + 3, f"[stores]\naddresses = [{stores}]\n"))
        pids = [node.pid for node in nodes]
        measure("two stores and a controller", ports, PORT + 3, pids, bodies, options, results)
        for node in nodes:
            node.terminate()
            node.wait()
        data = directory / "cluster"
        data.mkdir(mode=0o755)
        environment = dict(os.environ, DEMO_DATA=str(data), DEMO_RATE="0", DEMO_PORT=str(PORT))
        environment |= {"DEMO_BROKERS": "1", "DEMO_STORES": "2", "DEMO_QUERIES": "1"}
        environment |= {"KAFKA_PORT": "20392", "S3_PORT": "20397", "POSTGRESQL_PORT": "20398"}
        environment["LOGINSON_SERVERS_DATA"] = str(data / "engines")
        log = open(directory / "demo.log", "wb")
        demo = subprocess.Popen(
            [ROOT / "scripts/demo-cluster.sh"], env=environment, stdout=log, stderr=log
        )
        while not (data / "ready").exists():
            if demo.poll() is not None:
                sys.exit((directory / "demo.log").read_text())
            time.sleep(0.2)
        pids = [int(file.read_text()) for file in (data / "nodes").glob("*.pid")]
        measure("cluster", [PORT + 21], PORT, pids, bodies, options, results)
        stores = [int(file.read_text()) for file in (data / "nodes").glob("store*.pid")]
        append_alone(PORT + 21, stores, bodies, results)
        kafka_alone(environment, sum(map(len, bodies)), results)
        demo.send_signal(signal.SIGTERM)
        demo.wait()
        for engine in ("kafka", "s3", "postgresql"):
            subprocess.run([ROOT / f"scripts/servers/{engine}.sh", "wipe"], env=environment, check=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)

    names = [name for name in results if name not in ("perf", "append")]
    print(f"\n| | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    rows = {name: results[name][0] for name in names}
    print(f"| lines/s | {' | '.join(format(rows[n]['lines_s'], ',.0f') for n in names)} |")
    print(f"| MB/s | {' | '.join(format(rows[n]['mb_s'], '.0f') for n in names)} |")
    cells = [f"{rows[n]['busy']:.2f} of {os.cpu_count()}" for n in names]
    print(f"| cores that were busy meanwhile, senders and engines with them | {' | '.join(cells)} |")
    for text, key in (("found", "cpu_s_gb"), ("sealed", "cpu_s_gb_sealed")):
        cells = [format(rows[n][key], ".0f") for n in names]
        print(f"| processor until {text}, s/GB | {' | '.join(cells)} |")
    for text in QUERIES:
        cells = [f"{rows[n][text][0]:.0f} / {rows[n][text][1]:.0f}" for n in names]
        print(f"| {text}, ms: first / median of the others | {' | '.join(cells)} |")
    print("\n| senders of a collector, stores standing still | MB/s | cores busy |\n|---|---|---|")
    for threads, mb_s, busy in results["append"]:
        print(f"| {threads} | {mb_s:.0f} | {busy:.2f} of {os.cpu_count()} |")
    differs = [
        (name, text)
        for name in names
        for text in QUERIES
        if results[name][1][text] != results[names[0]][1][text] and text != "quantile"
    ]
    print(f"answers that differ: {differs or 'none'}")
    sys.exit(1 if differs else 0)


main()
