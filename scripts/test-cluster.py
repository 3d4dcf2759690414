#!/usr/bin/env python3
"""A real cluster (scripts/demo-cluster.sh) under load, while its parts are killed in turn.

Senders insert numbered lines at the collectors over HTTP, batch by batch; a batch that was answered
with success is acknowledged, and is never sent again. A prober counts the lines all the time; another
one does with allow_partial_response=1. In turn a store, a query node, a collector, a broker of Kafka,
all brokers, the S3 server and PostgreSQL are killed without warning, and started again. Then one
object of the bucket is taken away, and brought back.

What has to hold:
- no answer has fewer lines than were acknowledged before its query began, or a line twice, unless it
  may be partial and names what is missing;
- whatever is away, the second prober gets answers;
- in the end every acknowledged line is there once, and every other one at most once.

For each kind of fault the longest time without an answer is reported, and what partial answers named.

  LOGINSON_BIN=... scripts/test-cluster.py [--seconds 120] [--rate 500] [--brokers 3] [--only KIND] [--keep]
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PORT = 19514
BATCH_LINES = 50
CALL_TIME_MAX_S = 60
# How long a part is away at least: until the second prober has an answer.
AWAY_S = 6
# When nothing is answered for this long, it hangs.
HANGS_S = 300


def call(url, data=None, timeout=CALL_TIME_MAX_S):
    with urllib.request.urlopen(url, data=data, timeout=timeout) as answer:
        return answer.read()


def count(port, query="* | stats count() lines, count_uniq(seq) seqs", timeout=CALL_TIME_MAX_S):
    form = urllib.parse.urlencode({"query": query}).encode()
    row = json.loads(call(f"http://127.0.0.1:{port}/select/logsql/query", form, timeout))
    return int(row["lines"]), int(row["seqs"])


def count_partial(port, query="* | stats count() lines, count_uniq(seq) seqs"):
    """Lines, different lines, and what the head of the answer names."""
    form = urllib.parse.urlencode({"query": query, "allow_partial_response": "1"}).encode()
    url = f"http://127.0.0.1:{port}/select/logsql/query"
    with urllib.request.urlopen(url, data=form, timeout=CALL_TIME_MAX_S) as answer:
        row, head = json.loads(answer.read()), answer.headers
    notices = json.loads(head.get("X-Loginson-Notices", "[]"))
    named = {notice["what"]: notice["text"] for notice in notices}
    return int(row["lines"]), int(row["seqs"]), head.get("X-Loginson-Missing-Stores", ""), named


class Cluster:
    """The processes of the cluster."""

    def __init__(self, brokers, directory):
        self.bin = os.environ["LOGINSON_BIN"]
        self.dir = directory
        self.started = []
        environment = dict(
            os.environ,
            DEMO_DATA=str(directory),
            DEMO_RATE="0",
            DEMO_PORT=str(PORT),
            DEMO_BROKERS=str(brokers),
            DEMO_SEGMENT_AGE="5s",
            KAFKA_PORT="19392",
            S3_PORT="19397",
            POSTGRESQL_PORT="19398",
        )
        self.environment = dict(environment, LOGINSON_SERVERS_DATA=str(directory / "engines"))
        self.log = open(directory / "demo.log", "wb")
        self.demo = subprocess.Popen(
            [ROOT / "scripts/demo-cluster.sh"],
            env=environment,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        for _ in range(1800):
            if (directory / "ready").exists():
                return
            if self.demo.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit((directory / "demo.log").read_text() + "the cluster did not start")

    def pid_file(self, node):
        return self.dir / f"nodes/{node}.pid"

    def kill_node(self, node):
        os.kill(int(self.pid_file(node).read_text()), signal.SIGKILL)

    def start_node(self, node):
        command = "collect" if node.startswith("collector") else "serve"
        log = open(self.dir / f"nodes/{node}.log", "ab")
        config = self.dir / f"nodes/{node}.toml"
        process = subprocess.Popen(
            [self.bin, command, "--config", config], stdout=log, stderr=log, start_new_session=True
        )
        self.pid_file(node).write_text(str(process.pid))
        self.started.append(process)

    def engine(self, name, *arguments):
        script = [str(ROOT / f"scripts/servers/{name}.sh"), *arguments]
        subprocess.run(script, env=self.environment, check=True)

    def stop(self):
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait()
        self.demo.send_signal(signal.SIGTERM)
        try:
            self.demo.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.demo.pid, signal.SIGKILL)
        for engine in ("kafka", "s3", "postgresql"):
            self.engine(engine, "wipe")


class Senders:
    """Numbered lines to both collectors, and what became of them."""

    def __init__(self, rate):
        self.lock = threading.Lock()
        self.next = 0
        self.acknowledged = set()
        self.unclear = set()
        self.over = threading.Event()
        self.rate = rate
        self.failures = 0
        self.threads = [threading.Thread(target=self.send, args=(n,)) for n in (1, 2)]
        for thread in self.threads:
            thread.start()

    def send(self, collector):
        url = f"http://127.0.0.1:{PORT + 20 + collector}/insert/jsonline"
        url += "?_msg_field=msg&_time_field=time&_stream_fields=host"
        while not self.over.is_set():
            begun = time.monotonic()
            with self.lock:
                first = self.next
                self.next += BATCH_LINES
            numbers = range(first, first + BATCH_LINES)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            lines = [
                json.dumps({"time": now, "host": f"h{n % 7}", "msg": f"line {n} is here", "seq": n})
                for n in numbers
            ]
            try:
                call(url, "\n".join(lines).encode())
                with self.lock:
                    self.acknowledged.update(numbers)
            except (OSError, urllib.error.URLError, ConnectionError):
                with self.lock:
                    self.unclear.update(numbers)
                    self.failures += 1
                time.sleep(0.2)
            pause = 2 * BATCH_LINES / self.rate - (time.monotonic() - begun)
            if pause > 0:
                self.over.wait(pause)

    def known(self):
        with self.lock:
            return len(self.acknowledged)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Prober:
    """Counts all lines again and again at both query nodes."""

    def __init__(self, senders):
        self.senders = senders
        self.over = threading.Event()
        self.faults = []
        self.answers = 0
        self.errors = {}
        self.gaps = {}
        self.phase = "at first"
        self.answered = time.monotonic()
        self.thread = threading.Thread(target=self.probe)
        self.thread.start()

    def probe(self):
        turn = 0
        while not self.over.is_set():
            turn += 1
            known = self.senders.known()
            try:
                lines, seqs = count(PORT + turn % 2)
            except (OSError, urllib.error.URLError, json.JSONDecodeError) as error:
                text = str(error)
                if isinstance(error, urllib.error.HTTPError):
                    text = error.read().decode(errors="replace")[:200]
                self.errors[text] = self.errors.get(text, 0) + 1
                self.over.wait(0.1)
                continue
            now = time.monotonic()
            gap = now - self.answered
            self.gaps[self.phase] = max(gap, self.gaps.get(self.phase, 0))
            self.answered = now
            self.answers += 1
            if lines < known:
                self.faults.append(f"{self.phase}: {lines} lines, {known} were acknowledged before")
            if lines != seqs:
                self.faults.append(f"{self.phase}: {lines} lines with {seqs} numbers")
            self.over.wait(0.1)

    def stop(self):
        self.over.set()
        self.thread.join()


class PartialProber:
    """Counts all lines again and again, and takes answers that are not whole."""

    def __init__(self, senders):
        self.senders = senders
        self.over = threading.Event()
        self.faults = []
        self.phase = "at first"
        self.answers = 0
        self.begun = 0.0
        self.gaps = {}
        self.named = {}
        self.errors = {}
        self.texts = {}
        self.thread = threading.Thread(target=self.probe)
        self.thread.start()

    def probe(self):
        turn = 0
        answered = time.monotonic()
        while not self.over.is_set():
            turn += 1
            known, begun, phase = self.senders.known(), time.monotonic(), self.phase
            try:
                lines, seqs, missing, named = count_partial(PORT + turn % 2)
            except (OSError, urllib.error.URLError, json.JSONDecodeError) as error:
                text = str(error)
                if isinstance(error, urllib.error.HTTPError):
                    text = error.read().decode(errors="replace")[:300]
                self.errors[text] = self.errors.get(text, 0) + 1
                self.over.wait(0.1)
                continue
            now = time.monotonic()
            self.gaps[phase] = max(now - answered, self.gaps.get(phase, 0))
            answered = now
            names = self.named.setdefault(phase, {})
            for what in named or ["nothing"]:
                names[what] = names.get(what, 0) + 1
            self.texts.update(named)
            if lines < known and not missing:
                self.faults.append(f"{phase}: {lines} lines, {known} were acknowledged, none named")
            if lines != seqs:
                self.faults.append(f"{phase}: {lines} lines with {seqs} numbers")
            self.answers, self.begun = self.answers + 1, begun
            self.over.wait(0.1)

    def wait_for_answer(self, since):
        """Waits for an answer to a query that began later. False if there is none."""
        until = time.monotonic() + HANGS_S
        while self.begun <= since and time.monotonic() < until:
            time.sleep(0.05)
        if self.begun <= since:
            self.faults.append(f"{self.phase}: nothing is answered")
        return self.begun > since

    def stop(self):
        self.over.set()
        self.thread.join()


def take_an_object_away(cluster, partial):
    """Takes an object out of the bucket, and waits until partial answers name its segment."""
    partial.phase = "object"
    objects = sorted((cluster.dir / "engines/s3/objects/loginson/segments").rglob("*"))
    objects = [path for path in objects if path.is_file() and path.stat().st_size > 0]
    if not objects:
        partial.faults.append("object: the bucket has no segment")
        return
    # What is cached is read all the same, so the caches go.
    for number in (1, 2):
        cluster.kill_node(f"query{number}")
        shutil.rmtree(cluster.dir / f"nodes/query{number}/objects", ignore_errors=True)
    taken, aside = objects[0], cluster.dir / "taken"
    shutil.move(taken, aside)
    for number in (1, 2):
        cluster.start_node(f"query{number}")
    until = time.monotonic() + HANGS_S
    while "objects" not in partial.named.get("object", {}) and time.monotonic() < until:
        time.sleep(0.1)
    shutil.move(aside, taken)
    if "objects" not in partial.named.get("object", {}):
        partial.faults.append("object: no answer names the segment whose object is missing")


KINDS = ["store", "query", "collector", "kafka", "kafka-all", "s3", "postgresql"]


def disturb(cluster, prober, partial, until, rng, kinds):
    """Kills parts in turn until the time is over; each at least once."""
    is_first = True
    while True:
        for kind in kinds:
            if time.monotonic() > until and not is_first:
                return
            prober.phase = partial.phase = kind
            killed = time.monotonic()

            def stay_away():
                time.sleep(AWAY_S)
                partial.wait_for_answer(killed)

            node = f"{kind}{rng.randint(1, 3 if kind == 'store' else 2)}"
            print(f"  {time.strftime('%H:%M:%S')} killing {kind}", flush=True)
            if kind in ("store", "query", "collector"):
                cluster.kill_node(node)
                stay_away()
                cluster.start_node(node)
            elif kind in ("kafka", "kafka-all"):
                brokers = int((cluster.dir / "engines/kafka/nodes").read_text())
                one = rng.randint(1, brokers)
                for broker in range(1, brokers + 1) if kind == "kafka-all" else [one]:
                    cluster.engine("kafka", "kill", str(broker))
                stay_away()
                cluster.engine("kafka", "start", str(brokers))
            else:
                cluster.engine(kind, "kill")
                stay_away()
                cluster.engine(kind, "start")
            # Whatever was killed is back, and has caught up, before the next one goes.
            time.sleep(AWAY_S * 2)
        is_first = False


def numbers_at_last():
    """All numbers that are there, with how often."""
    form = urllib.parse.urlencode({"query": "* | stats by (seq) count() lines", "limit": 0}).encode()
    rows = call(f"http://127.0.0.1:{PORT}/select/logsql/query", form).splitlines()
    found = (json.loads(row) for row in rows)
    return {int(row["seq"]): int(row["lines"]) for row in found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--rate", type=int, default=500, help="lines a second")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=KINDS + ["object"], help="kill these alone")
    parser.add_argument("--keep", action="store_true", help="keep the data and logs")
    options = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="loginson-cluster-"))
    directory.chmod(0o755)
    cluster = Cluster(options.brokers, directory)
    good = False
    try:
        senders = Senders(options.rate)
        time.sleep(2)
        prober, partial = Prober(senders), PartialProber(senders)
        wanted = options.only or KINDS + ["object"]
        until = time.monotonic() + options.seconds
        kinds = [kind for kind in KINDS if kind in wanted]
        if kinds:
            disturb(cluster, prober, partial, until, random.Random(options.seed), kinds)
        if "object" in wanted:
            prober.phase = "object"
            take_an_object_away(cluster, partial)
        prober.phase = partial.phase = "at last"
        senders.stop()
        time.sleep(AWAY_S)
        # What was away is there again, and nothing is named any more.
        until = time.monotonic() + HANGS_S
        while missing := count_partial(PORT)[2]:
            if time.monotonic() > until:
                partial.faults.append(f"at last: answers still name what is missing: {missing}")
                break
            time.sleep(0.5)
        prober.stop()
        partial.stop()
        prober.faults += partial.faults
        found = numbers_at_last()
        lost = senders.acknowledged - found.keys()
        twice = [number for number, lines in found.items() if lines > 1]
        foreign = found.keys() - senders.acknowledged - senders.unclear
        print(
            f"{len(senders.acknowledged)} lines acknowledged, {len(senders.unclear)} unclear in "
            f"{senders.failures} failed calls, {len(found)} found; {prober.answers} answers, "
            f"{sum(prober.errors.values())} refusals"
        )
        for phase, gap in prober.gaps.items():
            print(f"  longest time without an answer, {phase}: {gap:.1f} s")
        for phase, gap in partial.gaps.items():
            named = ", ".join(f"{what} {times}" for what, times in partial.named[phase].items())
            print(f"  longest time without a partial answer, {phase}: {gap:.1f} s; answers naming {named}")
        for what, text in partial.texts.items():
            print(f"  {what}: {text}")
        for text, times in sorted(partial.errors.items(), key=lambda item: -item[1])[:10]:
            print(f"  {times} x (partial) {text}")
        for text, times in sorted(prober.errors.items(), key=lambda item: -item[1])[:10]:
            print(f"  {times} x {text}")
        for fault in prober.faults[:20]:
            print(f"FAULT {fault}")
        for name, numbers in (("lost", lost), ("twice", twice), ("never sent", foreign)):
            if numbers:
                print(f"FAULT {len(numbers)} lines {name}, for example {sorted(numbers)[:5]}")
        good = not (lost or twice or foreign or prober.faults) and prober.answers > 0
    finally:
        try:
            cluster.stop()
        finally:
            if options.keep or not good:
                print(f"data and logs: {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
    print("good" if good else "faults were found")
    sys.exit(0 if good else 1)


main()
