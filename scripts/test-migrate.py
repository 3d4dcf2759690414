#!/usr/bin/env python3
"""Takes the lines of a real VictoriaLogs over by `loginson migrate`, which is killed again and again, and compares every line.

LOGINSON_BIN and VICTORIALOGS_BIN (scripts/build-victorialogs.sh) name the binaries. The protocols of Loki and Elasticsearch are
tested in Rust, over the server's own APIs; real servers of both are given by LOKI_URL and ELASTICSEARCH_URL, and are left out
without.
"""

import collections
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

LINES = 60_000
KILLS = 6
PATIENCE_S = 300
BEGIN_S = 1_769_860_800  # 2026-01-31T12:00:00Z


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(url, body=None, headers=None):
    with urllib.request.urlopen(urllib.request.Request(url, body, headers or {}), timeout=PATIENCE_S) as answer:
        return answer.read()


def until(what, holds):
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > PATIENCE_S:
            sys.exit(f"waited too long for {what}")
        time.sleep(0.05)


def answers(url):
    try:
        call(url)
        return True
    except OSError:
        return False


def made_up(number):
    seconds, ns = divmod(BEGIN_S * 10**9 + number * 37_000_001, 10**9)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ns:09}Z"
    message = f"order {number} of {number % 91}: ü \\ \" \t {'x' * (number % 200)}"
    return {"_time": at, "_msg": message, "app": f"shop{number % 5}", "took": str(number % 1000)}


def rows(base, query):
    form = urllib.parse.urlencode({"query": query, "limit": 0}).encode()
    for line in call(f"{base}/select/logsql/query", form).splitlines():
        yield json.loads(line)


def pile(base, query):
    found = collections.Counter()
    for row in rows(base, query):
        seconds, _, fraction = row["_time"].rstrip("Z").partition(".")
        found[(seconds, fraction.rstrip("0"), row["_msg"], row["app"], row["took"])] += 1
    return found


def migrate(binary, source, target, state, kills):
    """Migrates, and kills it up to so many times on the way; returns how many times it was killed."""
    command = [binary, "migrate", *source, "--from", "2026-01-01", "--to", "2026-03-01", "--server", target, "--state", str(state)]
    chance = random.Random(1)
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen([*command, "--rate", "5000"], stderr=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0.1, 4))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        # It may have ended by itself, also just before the kill.
        if process.returncode == -signal.SIGKILL:
            killed += 1
        elif process.returncode:
            sys.exit(f"a migration that was not killed failed: {process.returncode}")
    if not killed:
        sys.exit("no migration was killed: all ended before")
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stderr.strip())
    if done.returncode:
        sys.exit(f"the migration failed: {done.returncode}")
    return killed


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    loginson, victoria = os.environ["LOGINSON_BIN"], os.environ["VICTORIALOGS_BIN"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        ports = [free_port(), free_port()]
        source, target = (f"http://127.0.0.1:{port}" for port in ports)
        servers = [
            subprocess.Popen(
                [victoria, f"-storageDataPath={folder}/victoria", f"-httpListenAddr=127.0.0.1:{ports[0]}", "-retentionPeriod=10y"],
                stderr=subprocess.DEVNULL,
            ),
            subprocess.Popen(
                [loginson, "--data-dir", f"{folder}/loginson", "--http-listen", f"127.0.0.1:{ports[1]}"]
                + ["--syslog-tcp-listen", "off", "--syslog-udp-listen", "off"],
                stderr=subprocess.DEVNULL,
            ),
        ]
        try:
            until("VictoriaLogs", lambda: answers(f"{source}/health"))
            until("Loginson", lambda: answers(f"{target}/ready"))
            lines = [json.dumps(made_up(number)) for number in range(LINES)]
            for at in range(0, LINES, 10_000):
                body = "\n".join(lines[at : at + 10_000]).encode()
                call(f"{source}/insert/jsonline?_stream_fields=app", body, {"Content-Type": "application/stream+json"})
            counted = lambda: sum(int(row["n"]) for row in rows(source, "* | stats count() n"))
            until("all lines", lambda: counted() == LINES)
            killed = migrate(loginson, ["victorialogs", source], target, folder / "state", KILLS)
            expected, found = pile(source, "*"), pile(target, "_file:migration* -_type:summary")
            if expected != found:
                missing, more = list(expected - found), list(found - expected)
                sys.exit(f"{len(missing)} missing, {len(more)} too many: {missing[:2]} {more[:2]}")
            print(f"VictoriaLogs: {sum(found.values())} lines, each once, after {killed} kills")
            for name, variable in (("loki", "LOKI_URL"), ("elasticsearch", "ELASTICSEARCH_URL")):
                if url := os.environ.get(variable):
                    killed = migrate(loginson, [name, url], target, folder / name, KILLS)
                    print(f"{name}: migrated after {killed} kills")
                else:
                    print(f"left out: {name}, as {variable} names no server")
        finally:
            for server in servers:
                server.kill()
                server.wait()


main()
