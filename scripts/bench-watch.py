#!/usr/bin/env python3
"""Measures what the watch of what stands out costs a minute: `LOGINSON_BIN=target/release/loginson scripts/bench-watch.py`.

For each rate, a server with an empty data directory receives lines of 40 services, 40 hosts, levels, regions, versions and
status codes at that rate, by HTTP, for BENCH_MINUTES (4). The watch counts each minute once it is over. The table says how
long that took (`loginson_watch_last_minute_seconds`, the middle minute), the same as a share of one core, series and minutes
that were left out. BENCH_RATES are lines a second ("1000 10000 30000").

Standard library only.
"""

import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

import benchlib

MINUTES = int(os.environ.get("BENCH_MINUTES", "4"))
RATES = [int(rate) for rate in os.environ.get("BENCH_RATES", "1000 10000 30000").split()]
# Requests a second. Each has a part of the lines of its second.
REQUESTS = 4


def line(chance):
    """The fields of a line of a shop: some of few values, and one of many."""
    level = chance.choices(["info", "debug", "warning", "error"], [80, 12, 6, 2])[0]
    return {
        "_msg": f"request {chance.randrange(10**6)} done in {chance.randrange(900)} ms",
        "level": level,
        "service": f"service-{chance.randrange(40)}",
        "host": f"web-{chance.randrange(40)}",
        "region": f"region-{chance.randrange(5)}",
        "version": chance.choice(["2.3.9", "2.4.0"]),
        "status": chance.choices(["200", "404", "500"], [95, 4, 1])[0],
        "request_id": f"{chance.randrange(2**40):010x}",
    }


def measure(directory, rate):
    """One server at one rate; returns a row of the table."""
    chance = random.Random(1)
    # The same bodies again and again: making lines is not to be the limit.
    bodies = [[line(chance) for _ in range(rate // REQUESTS)] for _ in range(8)]
    with benchlib.Server(directory) as server:
        took, minutes, sent = [], 0, 0
        began = time.monotonic()
        until = began + 60 * (MINUTES + 2)
        while time.monotonic() < until and len(took) < MINUTES:
            due = began + sent / REQUESTS
            time.sleep(max(0, due - time.monotonic()))
            now_s, body = time.time(), bodies[sent % len(bodies)]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s)) + f".{int(now_s % 1 * 1e6):06d}Z"
            text = "".join(json.dumps({**one, "_time": stamp}) + "\n" for one in body)
            status, answer = server.client.request("POST", "/insert/jsonline?_stream_fields=service", text)
            if status != 200:
                sys.exit(f"{status} {answer[:300]}")
            sent += 1
            if sent % REQUESTS == 0:
                metrics = server.metrics()
                if metrics["loginson_watch_intervals_total"] > minutes:
                    minutes = metrics["loginson_watch_intervals_total"]
                    took.append(metrics["loginson_watch_last_minute_seconds"])
        reached = sent * (rate // REQUESTS) / (time.monotonic() - began)
        metrics = server.metrics()
        if not took:
            sys.exit(f"no minute was counted: {server.get('/api/v1/stands_out')[:500]}")
        middle = statistics.median(took)
        benchlib.note(f"    {rate} lines/s: {[f'{one:.3f}' for one in took]}")
        return [
            f"{rate:,}",
            f"{reached:,.0f}",
            f"{middle:.3f}",
            f"{max(took):.3f}",
            f"{100 * middle / 60:.2f} %",
            f"{metrics['loginson_watch_series']:.0f}",
            f"{metrics['loginson_watch_intervals_missed_total']:.0f}",
        ]


def main():
    base = pathlib.Path(os.environ.get("BENCH_DIR", pathlib.Path.home() / ".cache/loginson"))
    base.mkdir(parents=True, exist_ok=True)
    head = ["lines a second", "reached", "seconds a minute, middle", "most", "of one core", "series", "minutes left out"]
    with tempfile.TemporaryDirectory(prefix="bench.", dir=base) as directory:
        rows = [measure(pathlib.Path(directory), rate) for rate in RATES]
    print(benchlib.table(head, rows))


main()
