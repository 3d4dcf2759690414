#!/usr/bin/env python3
"""Compares the rows of programs with a reference that is computed from the lines that were sent.

    LOGINSON_BIN=… scripts/test-programs.py                 10 minutes: 20 types, 20 programs, 1,000 hosts
    PROGRAMS_SECONDS=60 PROGRAMS_KILLS=3 … test-programs.py  shorter, with kill -9 in between

Lines come from several senders; some are late by up to two minutes, some have times in the future. Half of the programs are in
AWK, half in LogsQL. Every minute or so the server is killed with -9 and started again (PROGRAMS_KILLS times); senders repeat what was not
acknowledged, and count what was. At the end the rows of each program have to equal the reference: none is missing, none counts
twice. Standard library only.
"""

import calendar
import http.client
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
import urllib.parse

BIN = os.environ["LOGINSON_BIN"]
SECONDS = int(os.environ.get("PROGRAMS_SECONDS", "600"))
KILLS = int(os.environ.get("PROGRAMS_KILLS", "6"))
SEED = int(os.environ.get("PROGRAMS_SEED", str(int(time.time()))))
TYPES, HOSTS, SENDERS, BATCH = 20, 1000, 4, 500
LEVELS = ["info", "info", "info", "warning", "error"]
WIDTHS = [5, 10, 30, 60]

AWK = """# type: {type}
# bucket: {width}s
# fields: level size
NR == 1 {{ next }}
{{ n[$1]++; bytes[$1] += $2 }}
END {{ for (l in n) print "level=" l, "lines=" n[l], "bytes=" bytes[l] }}
"""
LOGSQL = """# type: {type}
# bucket: {width}s
* | stats by (level) count() lines, sum(size) bytes
"""


class Server:
    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.start()

    def start(self):
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [BIN, "serve", "--data-dir", self.folder / "data", "--http-listen", "127.0.0.1:0", "--syslog-udp-listen", "off",
             "--syslog-tcp-listen", "off", "--ready-file", ready],
            stdout=subprocess.DEVNULL, stderr=open(self.folder / "log", "a"))
        while not ready.exists() or not ready.read_text().strip():
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.05)
        self.port = int(json.loads(ready.read_text())["http"].rsplit(":", 1)[1])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def call(self, method, path, body=b"", timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, path):
        status, body = self.call("GET", path)
        assert status == 200, body
        return json.loads(body)


class Sender(threading.Thread):
    """Sends batches of one line type each; a batch counts once it is acknowledged, and again if an answer was lost: each line has
    a number, so that the store says how often it is there."""

    def __init__(self, server, number, until):
        super().__init__(daemon=True)
        self.server, self.random, self.until, self.number = server, random.Random(SEED + number), until, number
        self.unsure, self.lines = [], 0
        self.counts = {}

    def run(self):
        batch = 0
        while time.time() < self.until:
            batch += 1
            kind = self.random.randrange(TYPES)
            lines, counts = [], {}
            for _ in range(BATCH):
                late = self.random.choice([0, 0, 0, 0, 0, 0, 1, 5, 20, 120, -3])
                at = time.time() - late * self.random.random()
                level, size = self.random.choice(LEVELS), self.random.randrange(10_000)
                host = f"host{self.random.randrange(HOSTS)}"
                lines.append(json.dumps({"_time": f"{at:.6f}", "_msg": f"a line of {host}", "hostname": host, "level": level,
                                         "size": size, "batch": f"s{self.number}b{batch}"}))
                # As the server reads it.
                counts.setdefault((kind, int(float(f"{at:.6f}")), level), []).append(size)
            body = "\n".join(lines).encode()
            while True:
                try:
                    status, _ = self.server.call("POST", f"/insert/jsonline?_type=t{kind}", body, 20)
                except (OSError, http.client.HTTPException):
                    # It may be there, or a part of it, or not.
                    self.unsure.append((f"s{self.number}b{batch}", kind))
                    time.sleep(0.3)
                    break
                if status == 200:
                    self.add(counts)
                    break
                time.sleep(0.3)
            time.sleep(0.02)

    def add(self, counts):
        for key, sizes in counts.items():
            lines, size = self.counts.get(key, (0, 0))
            self.counts[key] = (lines + len(sizes), size + sum(sizes))
            self.lines += len(sizes)


def rows_of(server, name, since):
    answer = server.json(f"/api/v1/programs/{name}/rows?start={since - 7200}&end={time.time() + 7200}&limit=100000")
    assert not answer["is_cut"]
    found = {}
    for row in answer["rows"]:
        at = calendar.timegm(time.strptime(row["time"][:19], "%Y-%m-%dT%H:%M:%S"))
        fields = row["fields"]
        key = (at, fields["level"])
        assert key not in found, f"{name}: a row is there twice: {row}"
        found[key] = (fields["lines"], fields["bytes"])
    return found


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="loginson-programs-"))
    print(f"seed {SEED}, {SECONDS} s, {KILLS} kills, {folder}", flush=True)
    server = Server(folder)
    programs = {}
    for kind in range(TYPES):
        width = WIDTHS[kind % len(WIDTHS)]
        language, text = ("awk", AWK) if kind % 2 == 0 else ("logsql", LOGSQL)
        status, body = server.call("POST", f"/api/v1/programs/p{kind}?language={language}",
                                   text.format(type=f"t{kind}", width=width).encode())
        assert status == 200, body
        programs[f"p{kind}"] = (kind, width)
    begun = time.time()
    senders = [Sender(server, number, begun + SECONDS) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    for kill in range(KILLS):
        time.sleep(SECONDS / (KILLS + 1) * (0.5 + random.Random(SEED + kill).random()))
        server.kill()
        server.start()
    for sender in senders:
        sender.join()
    for sender in senders:
        for batch, kind in sender.unsure:
            query = f"batch:={batch} | fields _time, level, size"
            there = server.call("POST", "/select/logsql/query?query=" + urllib.parse.quote(query))[1]
            counts = {}
            for line in there.splitlines():
                row = json.loads(line)
                second = calendar.timegm(time.strptime(row["_time"][:19], "%Y-%m-%dT%H:%M:%S"))
                counts.setdefault((kind, second, row["level"]), []).append(int(row["size"]))
            assert sum(map(len, counts.values())) <= BATCH, f"batch {batch} is there twice"
            sender.add(counts)
    lines = sum(sender.lines for sender in senders)
    expected = {name: {} for name in programs}
    for name, (kind, width) in programs.items():
        for sender in senders:
            for (of, second, level), (count, size) in sender.counts.items():
                if of == kind:
                    key = (second // width * width, level)
                    before = expected[name].get(key, (0, 0))
                    expected[name][key] = (before[0] + count, before[1] + size)
    waited = time.time()
    wrong = set(programs)
    while wrong and time.time() - waited < 180:
        time.sleep(2)
        wrong = {name for name in wrong if rows_of(server, name, begun) != expected[name]}
    rows = sum(len(of) for of in expected.values())
    failures = sum(program["failures_total"] for program in server.json("/api/v1/programs")["programs"])
    if wrong:
        name = sorted(wrong)[0]
        found = rows_of(server, name, begun)
        differing = {key: (found.get(key), expected[name].get(key)) for key in found.keys() | expected[name].keys()
                     if found.get(key) != expected[name].get(key)}
        print(f"{len(wrong)} programs differ; {name}: {len(differing)} of {len(expected[name])} rows, found and expected: "
              f"{dict(list(differing.items())[:5])}")
        sys.exit(1)
    unsure = sum(len(sender.unsure) for sender in senders)
    print(f"{lines} lines, {len(programs)} programs, {rows} rows equal the reference {time.time() - waited:.0f} s after the last line; "
          f"{KILLS} kills, {unsure} batches whose answer was lost, {failures} failed attempts")
    server.process.terminate()
    assert server.process.wait() == 0
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
