#!/usr/bin/env python3
"""Measures queries beside ripgrep over the raw file, and writes docs/benchmarks/query.md.

    make bench-query                                    everything: about half an hour and 8 GB of disk
    BENCH_PARTS="queries" make bench-query              some parts; the tables of the others stay as they are
    BENCH_LINES=1000000 BENCH_PAIRS=5 make bench-query  less data; more pairs

The data are the excerpts in testdata/corpora, replayed as syslog by the project's own generator: 100 lines a second of event
time, 12 applications, 13 hosts, 195 bytes a line. ripgrep reads the file from the page cache, with the one thread that it uses for
one file. Queries go over HTTP on a kept connection, in turn with ripgrep, with the data in memory as ripgrep's file is. Every run
uses a new query text, because the server caches what blocks counted; a column of its own repeats the query with that cache warm.
Every count must be ripgrep's: a wrong answer ends the benchmark. Standard library only.
"""

import http.client
import itertools
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

from benchlib import BENCH, BIN, PAIRS, ROOT, Client, Server, main, note, report, run

LINES = int(os.environ.get("BENCH_LINES", "10000000"))
# Records of the study's historical data: 1,009 seconds × 23 machines × 17 services × 19 severities, cycled together.
RECORDS = int(os.environ.get("BENCH_RECORDS", "7495861"))
# The first event time. Queries contain it, so it must not depend on when this runs.
START_S = 1_750_000_000
FRESH = "[store]\nreencode = false\n"
REENCODED = '[store]\nreencode_age = "0s"\n'
# Each of these texts stands in exactly one line.
NEEDLES = {"id": "blk_4203958203958203", "IP address": "203.0.113.77", "hash": "9e107d9d372bb6826bd81d3542a419d6"}
# Segments are closed early, and sealed at once.
FILLING = 'segment_age = "1s"\nbacklog_bytes_max = "1MiB"\n'


# ---- data ------------------------------------------------------------------------------------------------------------


def corpora(directory):
    """The raw file, made once."""
    file = directory / "lines.log"
    if not file.exists():
        note(f"  making {LINES} lines")
        samples = sorted(str(path) for path in (ROOT / "testdata/corpora").glob("*.log"))
        command = [BIN, "generate", "--replay", *samples, "--format", "rfc5424", "--seed", "1", "--quiet", "--to", "-"]
        times = ["--rate", "100", "--backfill", f"{LINES // 100}s", "--start", str(START_S + LINES // 100)]
        lines = str(LINES - len(NEEDLES))
        made = subprocess.Popen([*command, *times, "--lines", lines], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        left = list(NEEDLES.values())
        with open(file, "wb") as out:
            while chunk := made.stdout.read(min(64 << 20, LINES * 40)):
                # Put a needle behind the last whole line of each piece, until all are written.
                whole = chunk.rfind(b"\n") + 1
                out.write(chunk[:whole])
                if left and whole:
                    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START_S + LINES // 200))
                    out.write(f"<30>1 {stamp} web1 openssh 1 - - Accepted publickey of {left.pop()} from a friend\n".encode())
                out.write(chunk[whole:])
        if made.wait() != 0 or left:
            sys.exit(f"{command} failed")
    return file


def study(directory):
    """The historical data of the 2015 study as syslog: timestamp, machine, service, severity, message of 255 letters."""
    file = directory / "study.log"
    if not file.exists():
        note(f"  making {RECORDS} records")
        rng = random.Random(2015)
        letters = "abcdefghijklmnopqrstuvwxyz"
        name = lambda: "".join(rng.choices(letters, k=30))
        machines, services = [name() for _ in range(23)], [name() for _ in range(17)]
        messages = ["".join(rng.choices(letters, k=255)) for _ in range(997)]
        times = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START_S + i)) for i in range(1009)]
        with open(file, "w", buffering=1 << 20) as out:
            for i in range(RECORDS):
                severity = SEVERITIES[i % 19]
                out.write(f"<{8 + severity}>1 {times[i % 1009]} {machines[i % 23]} {services[i % 17]} - - - {messages[i % 997]}\n")
        (directory / "study.json").write_text(json.dumps({"machines": machines, "services": services}))
    return file


# Values 0 and 1 stand here once; 2, 6 and 7 twice; 4 three times; 3 and 5 four times.
SEVERITIES = [0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7, 7]


def filled(directory, name, file, lines, config):
    """A data directory with the lines of `file`, sealed; made once."""
    data = directory / name
    if not data.exists():
        note(f"  taking and sealing {name}")
        with Server(directory, config=config + FILLING, data=data) as server:
            run(BENCH, "tcp_limit", "send", server.address["syslog_tcp"], file, "1")
            server.wait_kept("syslog_tcp", lines)
            # Rows of the summary keep coming, so there is always an active segment, and its lines are not sealed.
            while server.metrics()["loginson_store_sealed_raw_bytes"] < file.stat().st_size:
                time.sleep(0.5)
    return data


def count_lines(file):
    return int(subprocess.run(["rg", "-c", "", file], stdout=subprocess.PIPE, check=True, text=True).stdout)


# ---- queries ---------------------------------------------------------------------------------------------------------


def timed(work):
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def rg(*arguments):
    """Runs ripgrep; returns seconds and its count."""
    seconds, done = timed(lambda: subprocess.run(["rg", *map(str, arguments)], stdout=subprocess.PIPE, text=True))
    return seconds, int(done.stdout or 0)


def numbers(answer):
    """The rows of an answer, one per line."""
    return [json.loads(line) for line in answer.splitlines()]


# Result names that were not used before, so that no answer comes from a cache of the server.
NAMES = map("n{}".format, itertools.count())


def count_of(server, query, name=None):
    """How many lines a filter selects. The caches of the server answer only if the `name` was used before."""
    name = name or next(NAMES)
    return int(numbers(server.query("/select/logsql/query", query=f"{query} | stats count() {name}"))[0][name])


def ms(seconds):
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def counted():
    """Queries that count lines: name, LogsQL, arguments of ripgrep, target ratios for fresh and re-encoded data."""
    address = r"\b[0-9]{2,3}\.[0-9]{2,3}\.[0-9]{2,3}\.[0-9]{2,3}\b"
    queries = [
        ("word `error`", "error", ["-c", "error"], 0.5, 0.08),
        ("phrase `Failed password`", '"Failed password"', ["-c", "Failed password"], 0.2, 0.2),
        ("regex with a literal", '~"Failed password for (root|admin)"', ["-c", "Failed password for (root|admin)"], 0.5, 0.5),
        ("regex without a literal", f"~`{address}`", ["-c", address], 0.5, 0.5),
        ("substring `rror`", "*rror*", ["-c", "-F", "rror"], None, None),
        ("any case `i(ERROR)`", "i(error)", ["-c", "-i", "-w", "error"], None, None),
        ("absent word", "xyzzyplugh", ["-c", "xyzzyplugh"], 0.03, 0.03),
    ]
    for name, word in NEEDLES.items():
        queries.append((f"{name} in one line", f'"{word}"', ["-c", "-F", word], 0.03, 0.03))
    return queries


def right(name, query, ours, file, arguments):
    """Fails unless our count is right. For words ripgrep counts with -w here, although it is timed without."""
    theirs = rg("-w", *arguments, file)[1] if query[0] not in "~*" else rg(*arguments, file)[1]
    if ours != theirs:
        sys.exit(f"{name}: {query} counted {ours}, rg {arguments} {theirs}")


def part_queries(directory):
    file = corpora(directory)
    data = filled(directory, "lines", file, LINES, FRESH)
    whole = lambda: rg("-c", "", file)
    rg("-c", "", file)
    rows = []
    queries = counted()

    def measure(server, state):
        for name, query, arguments, target_fresh, target_best in queries:
            ours, theirs, again = [], [], []
            right(name, query, count_of(server, query), file, arguments)
            for _ in range(PAIRS):
                theirs.append(rg(*arguments, file)[0])
                known = next(NAMES)
                ours.append(timed(lambda: count_of(server, query, known))[0])
                again.append(timed(lambda: count_of(server, query, known))[0])
            peer, own = statistics.median(theirs), statistics.median(ours)
            target = target_fresh if state == "fresh" else target_best
            rows.append([name, state, ms(peer), ms(own), f"{own / peer:.3f}", target or "", ms(statistics.median(again))])
            note(f"    {rows[-1]}")
        peer = statistics.median([whole()[0] for _ in range(PAIRS)])
        for name, path, query, limit in [
            ("count of all lines", "query", "* | stats count() NAME", "2.5 ms"),
            ("lines per minute, whole range", "hits", "*", "2.5 ms"),
            ("count by host", "query", "* | stats by (hostname) count() NAME", "2.5 ms"),
            ("count by level", "query", "* | stats by (level) count() NAME", "2.5 ms"),
            ("count by application and severity", "query", "* | stats by (app_name, severity) count() NAME", "0.1"),
            ("top 10 process ids", "query", "* | top 10 by (proc_id) hits as NAME", ""),
            ("last 100 lines with `error`", "query", "error", "10 ms"),
        ]:
            parameters = {"step": "1m"} if path == "hits" else {} if "NAME" in query else {"limit": 100}
            own, again = [], []
            for _ in range(max(PAIRS, 5)):
                known = next(NAMES)
                for times in (own, again):
                    request = lambda: server.query(f"/select/logsql/{path}", query=query.replace("NAME", known), **parameters)
                    seconds, answer = timed(request)
                    times.append(seconds)
                if "count() NAME" in query:
                    total = sum(int(row[known]) for row in numbers(answer))
                    if total != LINES:
                        sys.exit(f"{name}: {total} lines of {LINES}")
            own = statistics.median(own)
            rows.append([name, state, f"{ms(peer)} (`rg -c ''`)", ms(own), f"{own / peer:.4f}", limit, ms(statistics.median(again))])
            note(f"    {rows[-1]}")

    with Server(directory, config=FRESH, data=data) as server:
        measure(server, "fresh")
    note("  waiting for all segments to be re-encoded")
    with Server(directory, config=REENCODED, data=data) as server:
        while True:
            metrics = server.metrics()
            if metrics["loginson_seal_reencoded_total"] >= metrics["loginson_store_segments_sealed"]:
                break
            time.sleep(1)
    with Server(directory, config=FRESH, data=data) as server:
        measure(server, "re-encoded")
    return ["query", "data", "ripgrep", "Loginson", "ratio", "target", "repeated"], rows


def part_cold(directory):
    """The first answer of a server that just started, with none of the data in the page cache."""
    file = corpora(directory)
    data = filled(directory, "lines", file, LINES, FRESH)
    drop = "/proc/sys/vm/drop_caches"
    rows = []
    for name, query in [
        ("count of all lines", "*"),
        ("word `error`", "error"),
        ("phrase `Failed password`", '"Failed password"'),
        ("absent word", "xyzzyplugh"),
    ]:
        cold = []
        for _ in range(PAIRS):
            os.sync()
            with open(drop, "w") as switch:
                switch.write("3")
            with Server(directory, config=FRESH, data=data) as server:
                cold.append(timed(lambda: count_of(server, query))[0])
        with open(drop, "w") as switch:
            switch.write("3")
        peer = rg("-c", "error", file)[0]
        rows.append([name, ms(peer), ms(statistics.median(cold))])
    return ["first answer after a start, cold", "`rg -c error`, cold", "Loginson"], rows


def part_values(directory):
    """The most frequent of a million values, and a query that must not exhaust the server's memory."""
    file = directory / "sessions.log"
    lines = LINES // 5
    rng = random.Random(7)
    stamps = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START_S + i)) for i in range(3600)]
    with open(file, "w", buffering=1 << 20) as out:
        for i in range(lines):
            # Half of the lines are of a few sessions, so that there are most frequent ones.
            session = rng.randrange(1_000_000) if i % 2 else int(rng.paretovariate(0.3)) % 1_000_000
            out.write(f'<14>1 {stamps[i * 3600 // lines]} web{i % 5} shop {i % 97} - - {{"session":"s{session:07}","took_ms":{i % 911},"msg":"request served"}}\n')
    data = filled(directory, "sessions", file, lines, FRESH)
    rows = []
    with Server(directory, config=FRESH, data=data) as server:
        top = lambda: numbers(server.query("/select/logsql/query", query=f"* | top 10 by (session) hits as {next(NAMES)}"))
        if len(top()) != 10 or not top()[0].get("session"):
            sys.exit(f"no sessions: {top()[:1]}")
        theirs, ours = [], []
        for _ in range(PAIRS):
            theirs.append(rg("-c", "", file)[0])
            ours.append(timed(top)[0])
        peer, own = statistics.median(theirs), statistics.median(ours)
        rows.append([f"top 10 of a field with a million values, {lines} lines", ms(peer), ms(own), f"{own / peer:.2f}", "1.0"])
        rows.append(all_different(server, lines))
    file.unlink()
    shutil.rmtree(data)
    with Server(directory, config=FRESH, data=filled(directory, "lines", corpora(directory), LINES, FRESH)) as server:
        rows.append(all_different(server, LINES))
    return ["what", "`rg -c ''`", "Loginson", "ratio", "target"], rows


def all_different(server, lines):
    """A query that groups by as many values as there are lines. The server answers it, or names the limit that it exceeds."""
    before = resident_mib(server)
    path = "/select/logsql/query?" + urllib.parse.urlencode({"query": "* | stats by (_line_id) count() n | stats count() n"})
    seconds, (_, answer) = timed(lambda: server.client.request("GET", path))
    grown = resident_mib(server) - before
    answer = answer.decode() if isinstance(answer, bytes) else answer
    return [f"by {lines} different values: `{answer.strip()[:200]}`", "", ms(seconds), f"{grown:+.0f} MiB of memory", "512 MiB"]


def resident_mib(server):
    """The largest resident memory so far."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024


def part_study(directory):
    """Historical and real-time queries of the 2015 study (docs: Hruby et al.). Counts are compared with those of its records."""
    file = study(directory)
    names = json.loads((directory / "study.json").read_text())
    data = filled(directory, "study", file, RECORDS, FRESH)
    rng = random.Random(1)
    second = lambda i: f"_time:[{START_S + i}, {START_S + i + 1})"
    queries = {"A": [], "B": [], "C": []}
    for _ in range(23):
        t, m, s = rng.randrange(1009), rng.randrange(23), rng.randrange(17)
        severity = rng.randrange(8)
        times = SEVERITIES.count(severity)
        queries["A"].append((second(t), 7429))
        queries["B"].append((f"{second(t)} hostname:={names['machines'][m]}", 323))
        queries["C"].append((f"{second(t)} app_name:={names['services'][s]} severity:={severity}", 23 * times))
    rows = []
    with Server(directory, config=FRESH, data=data) as server:
        for name, target in [("A", "1 ms"), ("B", "1 ms"), ("C", "2 ms")]:
            first, again = [], []
            for times in range(30):
                for query, expected in queries[name]:
                    seconds, n = timed(lambda: count_of(server, query, name))
                    if n != expected and RECORDS == 7495861:
                        sys.exit(f"{query} counted {n}, not {expected}")
                    (again if times else first).append(seconds)
            rows.append([f"query {name}, median of 23 × 30", ms(statistics.median(first)), ms(statistics.median(again)), target])
        delays = []
        for turn in range(20):
            word = f"realtime{turn}x"
            body = "".join(f'{{"_time":{START_S + 5000 + turn},"_msg":"{word}"}}\n' for _ in range(10_000)).encode()
            status, answer = server.client.request("POST", "/insert/jsonline", body)
            if status != 200:
                sys.exit(answer)
            began = time.perf_counter()
            while count_of(server, f"{second(5000 + turn)} {word}") < 10_000:
                pass
            delays.append(time.perf_counter() - began)
        rows.append(["10,000 lines found after the last was acknowledged", ms(delays[0]), ms(statistics.median(delays)), "10 ms"])
    return ["what", "first time", "warm", "target"], rows


def part_beside(directory):
    """Lines taken at half of the maximum rate, alone and while eight clients query without pause."""
    file = corpora(directory)
    data = filled(directory, "lines", file, LINES, FRESH)
    seconds = int(os.environ.get("BENCH_SECONDS", "30"))
    config = '[retention]\nbytes = "6GB"\n' + FRESH
    # Loads the file into the page cache, so that the sender does not wait for the disk.
    rg("-c", "", file)
    with Server(directory, config=config) as server:
        began = time.monotonic()
        run(BENCH, "tcp_limit", "send", server.address["syslog_tcp"], file, "1")
        server.wait_kept("syslog_tcp", LINES)
        maximum = LINES / (time.monotonic() - began)
    queries = ["error | stats count() n", "* | stats by (app_name) count() n", '"Failed password" | stats by (hostname) count() n', "error | limit 100"]

    def case(clients):
        copy = directory / "beside"
        shutil.copytree(data, copy)
        with Server(directory, config=config, data=copy) as server:
            sender = subprocess.Popen(
                [BENCH, "tcp_limit", "send", server.address["syslog_tcp"], file, "1000"]
                + ["--rate", f"{maximum / 2:.0f}", "--seconds", str(seconds)],
                stdout=subprocess.PIPE,
                text=True,
            )
            stop, times = threading.Event(), [[] for _ in range(clients)]

            def query_until_stopped(place):
                client = Client(server.http)
                while not stop.is_set():
                    for query in queries:
                        times[place].append(timed(lambda: client.query("/select/logsql/query", query=query))[0])

            threads = [threading.Thread(target=query_until_stopped, args=(place,)) for place in range(clients)]
            for thread in threads:
                thread.start()
            sent = report(sender.communicate()[0].strip().splitlines()[-1])
            server.wait_kept("syslog_tcp", int(sent["lines"]))
            stop.set()
            for thread in threads:
                thread.join()
        shutil.rmtree(copy)
        return sent["lines_per_s"], times

    alone, beside, fewest, times = [], [], [], []
    for _ in range(PAIRS):
        alone.append(case(0)[0])
        rate, by_client = case(8)
        beside.append(rate)
        fewest.append(min(map(len, by_client)))
        times += itertools.chain.from_iterable(by_client)
    ratio = statistics.median(beside) / statistics.median(alone)
    row = ["8 clients without pause", f"{statistics.median(alone) / 1e6:.2f} M lines/s", f"{statistics.median(beside) / 1e6:.2f} M lines/s"]
    times.sort()
    row += [f"{ratio:.3f}", f"{min(fewest)}", ms(statistics.median(times)), ms(times[len(times) * 99 // 100]), ms(times[-1])]
    head = ["lines taken at half of the maximum", "alone", "beside", "ratio", "fewest answers of a client", "median", "p99", "slowest", "target"]
    return head, [[*row, "0.98; p99 1 s"]]


def part_cancel(directory):
    """Time from the request to cancel a query to its end, for each kind of work: reading, sorting, counting, answering, writing rows."""
    file = corpora(directory)
    data = filled(directory, "lines", file, LINES, FRESH)
    rng = random.Random(3)
    slow = "~`[a-z]+[0-9]+[a-z]+[0-9]+x`"
    cases = [
        ("reading with a regular expression", "query", f"{slow} | stats count() NAME"),
        ("counting by a field of many values", "query", "* | stats by (_time, proc_id) count() NAME"),
        ("sorting", "query", "* | sort by (_msg, proc_id) | limit 100000 | fields _msg, NAME"),
        ("replacing and counting", "query", "* | replace_regexp ('[0-9]+', 'n') at _msg | stats by (_msg) count() NAME"),
        ("answering a client that reads nothing", "export", "*"),
        ("an export that is read", "export-read", "* | fields _time, _msg"),
        ("writing rows in the background", "background", "* | fields _time, _msg"),
        ("finding the columns of CSV", "csv", "*"),
    ]
    # These limits let no query end by itself while it is measured.
    limits = '[query]\nmemory_bytes_max = "4GiB"\nrun_max = "10m"\nresult_bytes_max = "8GiB"\nresult_bytes_total_max = "16GiB"\n'
    rows = []
    with Server(directory, config=FRESH + limits, data=data) as server:

        def queries():
            return json.loads(server.get("/api/v1/queries"))["queries"]

        def once(kind, query):
            before = {entry["id"] for entry in queries()}
            query = query.replace("NAME", next(NAMES))
            path = {"query": "/select/logsql/query", "background": "/api/v1/queries"}.get(kind, "/api/v1/export")
            form = {"query": query} | ({"format": "csv" if kind == "csv" else "jsonl"} if path.endswith("export") else {})

            def send():
                connection = http.client.HTTPConnection(*server.http)
                connection.request("POST", path, urllib.parse.urlencode(form), {"Content-Type": "application/x-www-form-urlencoded"})
                try:
                    answer = connection.getresponse()
                    held.wait() if kind == "export" else answer.read()
                except (http.client.HTTPException, OSError):
                    # The server breaks an incomplete answer off.
                    pass
                connection.close()

            held = threading.Event()
            thread = threading.Thread(target=send)
            thread.start()
            while not (found := [entry for entry in queries() if entry["id"] not in before and entry["state"] == "running"]):
                if not thread.is_alive() and kind != "background":
                    return None
            entry = f"/api/v1/queries/{found[0]['id']}"
            time.sleep(rng.uniform(0.0, 0.3))
            began = time.perf_counter()
            server.client.request("DELETE", entry)
            while True:
                status, body = server.client.request("GET", entry)
                state = json.loads(body)["state"] if status == 200 else "deleted"
                if state not in ("running", "waiting"):
                    break
            took = time.perf_counter() - began
            held.set()
            thread.join()
            if kind == "background":
                server.client.request("DELETE", entry)
            # A query that ended before it was cancelled does not count.
            return took if state == "cancelled" else None

        for name, kind, query in cases:
            times = [took for _ in range(10 * PAIRS) if (took := once(kind, query)) is not None]
            if times:
                rows.append([name, str(len(times)), ms(statistics.median(times)), ms(max(times)), "100 ms"])
            else:
                rows.append([name, "0", "ended before", "", "100 ms"])
            note(f"    {rows[-1]}")
    return ["what it was doing", "times", "median", "longest", "target"], rows


# Queries whose cost should grow no faster than the data, or not at all.
GROWING = [
    ("absent word", "xyzzyplugh | stats count() NAME"),
    ("id in one line", f'"{NEEDLES["id"]}" | stats count() NAME'),
    ("word `error`", "error | stats count() NAME"),
    ("substring `rror`", "*rror* | stats count() NAME"),
    ("count by host", "* | stats by (hostname) count() NAME"),
    ("top 10 process ids", "* | top 10 by (proc_id) hits as NAME"),
    ("newest 100 with `error`", "error | sort by (_time desc) | limit 100 | fields _time, _msg, NAME"),
]
# Lines of each step of growth, as parts of all; the segments that the lines are in; clients.
SIZES = [0.01, 0.1, 1]
SEGMENTS_MIB = [1024, 16, 1]
CLIENTS = [1, 8, 64]
CLIENTS_S = 5


def part_growth(directory):
    """How times grow with lines, segments and clients, each alone."""
    file = corpora(directory)
    rows = []

    def measure(what, data, config=FRESH):
        with Server(directory, config=config, data=data) as server:
            segments = int(server.metrics()["loginson_store_segments_sealed"])
            cells = []
            for _, query in GROWING:
                ask = lambda: server.query("/select/logsql/query", query=query.replace("NAME", next(NAMES)))
                ask()
                cells.append(ms(statistics.median(timed(ask)[0] for _ in range(max(PAIRS, 5)))))
        rows.append([what, str(segments), *cells])
        note(f"    {rows[-1]}")

    for part in SIZES:
        lines, name = int(LINES * part), "lines" if part == 1 else f"growth-{part}"
        some = file
        if part != 1:
            some = directory / f"{name}.log"
            # From the middle, where the needles are not: the last line is one.
            with open(file, "rb") as source, open(some, "wb") as out:
                out.writelines(itertools.islice(source, lines - 1))
                out.write(f"<30>1 2025-06-15T12:00:00Z web1 openssh 1 - - publickey of {NEEDLES['id']}\n".encode())
        measure(f"{lines:,} lines", filled(directory, name, some, lines, FRESH))
    few = directory / "growth-0.1.log"
    for mib in SEGMENTS_MIB:
        config = f'{FRESH}segment_bytes_max = "{mib}MiB"\n'
        data = filled(directory, f"segments-{mib}", few, int(LINES * 0.1), config)
        measure(f"{int(LINES * 0.1):,} lines, segments of up to {mib} MiB", data, config)
    with Server(directory, config=FRESH, data=directory / "lines") as server:
        for clients in CLIENTS:
            cells = []
            for _, query in GROWING:
                ends, times = time.monotonic() + CLIENTS_S, []

                def query_until_end():
                    client = Client(server.http)
                    while time.monotonic() < ends:
                        name = next(NAMES)
                        times.append(timed(lambda: client.query("/select/logsql/query", query=query.replace("NAME", name)))[0])

                threads = [threading.Thread(target=query_until_end) for _ in range(clients)]
                [thread.start() for thread in threads]
                [thread.join() for thread in threads]
                times.sort()
                cells.append(f"{len(times) / CLIENTS_S:.0f}/s, p99 {ms(times[len(times) * 99 // 100])}")
            rows.append([f"{LINES:,} lines, {clients} clients", "", *cells])
            note(f"    {rows[-1]}")
    return ["data", "segments", *(name for name, _ in GROWING)], rows


PARTS = {
    "queries": (part_queries, "Queries"),
    "cold": (part_cold, "Cold"),
    "values": (part_values, "Many values"),
    "study": (part_study, "Historical and real-time queries"),
    "beside": (part_beside, "Queries beside ingest"),
    "growth": (part_growth, "How cost grows"),
    "cancel": (part_cancel, "Time to cancel"),
}

if not shutil.which("rg"):
    sys.exit("queries are compared with ripgrep, which is missing; install it: apt-get install ripgrep")
main(ROOT / "docs/benchmarks/query.md", "bench-query", PARTS)
