#!/usr/bin/env python3
"""Watches the memory of a server that takes lines while an operator asks about them: an hour at 2,000 lines a second, compressed.

    make bench-memory                                   7.2 million lines in ten minutes
    MEMORY_MINUTES=60 MEMORY_LINES=7200000 make bench-memory   an hour as it is

Lines come from `loginson generate` by TCP. Every PAUSE_S the next of QUERIES is asked, in turn, over the newest quarter of the time so
far, as an operator asks about 15 minutes of an hour. Each step prints what the process holds: pages of its own (anonymous), those of
mapped files, the cache of the store, and the budget that queries use; then, for each query, the median of its time. After the last line
the server is watched until MEMORY_REST_S later, with nothing asked. Standard library only.
"""

import collections
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BIN, Client, Server, note, table

MINUTES = float(os.environ.get("MEMORY_MINUTES", "10"))
LINES = int(os.environ.get("MEMORY_LINES", "7200000"))
REST_S = float(os.environ.get("MEMORY_REST_S", "60"))
PAUSE_S = 1.0
STEPS = 10
# Of an hour, an operator looks at 15 minutes.
SHARE = 0.25
QUERIES = {
    "count of errors": "error | stats count() n",
    "newest 100 of a host": 'hostname:="web1" | sort by (_time desc) | limit 100',
    "errors by application": "error | stats by (app_name) count() n",
    "facets": "* | facets",
    "distinct messages": "* | stats count_uniq(_msg) n",
    "patterns": "* | patterns 20",
    "top hosts": "* | top 10 by (hostname)",
    "by minute": "* | stats by (_time:1m) count() n",
}


def memory_mb(pid):
    """Resident memory in MB: anonymous, of files, the most so far."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return [int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1]) * 1024 / 1e6 for name in ("RssAnon", "RssFile", "VmHWM")]


def row(server, what, seconds):
    metrics = server.metrics()
    held = sum(value for name, value in metrics.items() if name.startswith("loginson_memory_bytes{"))
    mine = [metrics["loginson_store_cache_bytes"], held, metrics["loginson_seal_lag_bytes"]]
    shown = [*memory_mb(server.process.pid), *(value / 1e6 for value in mine)]
    note(f"{what}: " + ", ".join(f"{value:.0f}" for value in shown))
    return [what, f"{seconds:.0f}", f"{metrics['loginson_store_lines']:.0f}", *(f"{value:.0f}" for value in shown)]


def ask(server, began, times, name):
    """Asks a query about the newest SHARE of the time so far."""
    now = time.monotonic()
    server.query("/select/logsql/query", query=f"_time:{max(1, int((now - began) * SHARE))}s {QUERIES[name]}")
    times[name].append(time.monotonic() - now)


def main():
    base = pathlib.Path(os.environ.get("BENCH_DIR", pathlib.Path.home() / ".cache/loginson"))
    base.mkdir(parents=True, exist_ok=True)
    rows, times = [], collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="memory.", dir=base) as directory, Server(directory) as server:
        rate = max(1, int(LINES / (MINUTES * 60)))
        command = [BIN, "generate", "--to", f"tcp://{server.address['syslog_tcp']}", "--rate", str(rate), "--lines", str(LINES)]
        rows.append(row(server, "start", 0))
        sender = subprocess.Popen([*command, "--seed", "1", "--quiet"])
        began, number = time.monotonic(), 0
        step_s = MINUTES * 60 / STEPS
        while sender.poll() is None:
            ask(server, began, times, list(QUERIES)[number % len(QUERIES)])
            number += 1
            if time.monotonic() - began > step_s * len(rows):
                rows.append(row(server, f"{len(rows)} of {STEPS}", time.monotonic() - began))
            time.sleep(PAUSE_S)
        if sender.returncode:
            sys.exit(f"the generator failed: {' '.join(command)}")
        rows.append(row(server, "last line", time.monotonic() - began))
        time.sleep(REST_S)
        # The server closes connections that were idle for long.
        server.client = Client(server.http)
        rows.append(row(server, f"{REST_S:.0f} s later", time.monotonic() - began))
    print(table(["when", "s", "lines", "anonymous MB", "files", "peak", "cache", "budget used", "to seal"], rows))
    shown = [[name, len(found), f"{statistics.median(found) * 1000:.0f}", f"{max(found) * 1000:.0f}"] for name, found in times.items()]
    print("\n" + table(["query", "runs", "median, ms", "worst"], shown))


if __name__ == "__main__":
    main()
