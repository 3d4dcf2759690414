#!/usr/bin/env python3
"""Sends Loginson and VictoriaLogs the same queries and compares the answers.

Both are started with empty directories and given the same records (victorialogs_records.py). The queries are those of
testdata/victorialogs/*.txt, whose form its README describes, and as many as `--count` says (4,000) from a grammar
(victorialogs_grammar.py), other ones each day: they are drawn by a seed, which is printed, and which `--seed` sets.

Loginson is asked in four states: hot (nothing is sealed yet), sealed, restarted, and as a server for two stores that have half of the
records each. VictoriaLogs is asked by all queries once, and by those of the files again when Loginson is sealed, and by two stores. In
all states the answers must be those of the hot state, and properties are checked that need no other store: a filter and its negation
select all lines, parts of a span of time add up, `limit` and `offset` cut pieces out of the sorted rows, and so on.

What may differ stands in docs/logsql.md, in two tables. "Accepted differences" has patterns of queries: a query whose answers differ and
which no pattern matches is a fault, and so is a pattern whose queries all have the same answers. "What is not compared" has the ways in
which answers are made alike before they are compared.

    LOGINSON_BIN=…      the binary under test
    VICTORIALOGS_BIN=…  the binary it is compared with
    test-victorialogs.py [-v] [--seed TEXT] [--count N] [WORD …]   only the queries that contain one of the words; -v shows the answers

Standard library only.
"""

import argparse
import collections
import concurrent.futures
import csv
import datetime
import difflib
import http.client
import io
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import victorialogs_grammar as grammar
import victorialogs_records as records

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERIES = ROOT / "testdata" / "victorialogs"
DIFFERENCES = ROOT / "docs" / "logsql.md"
HEADING = "### Accepted differences"
ALIKE_HEADING = "### What is not compared"
# No server takes longer to start, no line to be seen, no query to run.
PATIENCE_S = 60
# Fields that Loginson adds to each line, and the one that VictoriaLogs does.
OWN_FIELDS = {"_type", "_level", "_remote_ip", "_file", "_note", "_stream_id"}
FLOAT = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
# Differences shown in full.
SHOWN_MAX = 40
# Filters whose properties are checked in each state.
PROPERTIES = 100
# Address space of VictoriaLogs.
MEMORY_BYTES_MAX = 6 << 30
# Of the drawn queries, how many both may refuse: more say that the grammar draws nonsense.
REFUSED_SHARE_MAX = 0.01
MODES = {"ordered", "rows", "names", "nohits", "refused"}


class Case:
    """A query with its endpoint, its parameters, and how its answers are compared."""

    def __init__(self, place, endpoint, parameters, mode, query):
        self.place, self.endpoint, self.parameters, self.mode, self.query = place, endpoint, parameters, mode, query

    def text(self):
        """What patterns of accepted differences are looked for in."""
        given = "&".join(f"{k}={v}" for k, v in self.parameters if k not in ("start", "end"))
        return f"{self.endpoint}{'?' + given if given else ''} {self.query}"


def expanded(text):
    """`a[[b,,c]]` is `ab` and `ac`; a comma of a part is written `\\,`, and `[[@]]` stands for what the first part was."""
    found = re.search(r"\[\[(.*?)\]\]", text)
    if not found:
        return [text]
    parts = [part.replace("\\,", ",") for part in found[1].split(",,")]
    texts = [text[: found.start()] + part + text[found.end() :].replace("[[@]]", part) for part in parts]
    return [whole for text in texts for whole in expanded(text)]


def read_cases():
    """The queries of all files."""
    cases, seen = [], set()
    ranges = {"json": records.JSON_RANGE, "syslog": records.SYSLOG_RANGE}
    for path in sorted(QUERIES.glob("*.txt")):
        endpoint, parameters, span, suffix = "query", [], "json", ""
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("== "):
                endpoint, *words = line[3:].split()
                span = next((word for word in words if word in ranges or word == "none"), "json")
                words = [word for word in words if "=" in word]
                parameters, suffix = [tuple(word.split("=", 1)) for word in words], ""
                continue
            if line.startswith("append "):
                suffix = line[len("append") :]
                continue
            mode, word = "set", line.split(": ", 1)[0]
            if word in MODES:
                mode, line = word, line[len(word) + 2 :]
            for query in expanded(line):
                given = [(name, value) for name, value in parameters]
                while found := re.match(r"&(\w+)=(\S*) ", query):
                    given.append((found[1], urllib.parse.unquote(found[2])))
                    query = query[found.end() :]
                if span in ranges:
                    named = {name for name, _ in given}
                    given += [pair for pair in zip(("start", "end"), ranges[span]) if pair[0] not in named]
                query += suffix
                case = Case(f"{path.name}:{number}", endpoint, given, mode, query)
                key = (endpoint, tuple(given), query)
                if key in seen:
                    sys.exit(f"{case.place}: the query is there twice: {case.text()}")
                seen.add(key)
                cases.append(case)
    return cases


def drawn_cases(seed, count):
    """Queries from the grammar."""
    span = list(zip(("start", "end"), records.JSON_RANGE))
    for number, (endpoint, parameters, mode, query) in enumerate(grammar.cases(random.Random(seed), count), 1):
        yield Case(f"grammar:{number}", endpoint, [*parameters, *span], mode, query)


def read_differences():
    """Id and pattern of the differences that docs/logsql.md accepts."""
    text = DIFFERENCES.read_text()
    listed = set(re.findall(r"^\| `([a-z0-9-]+)` \|", text.split(ALIKE_HEADING)[1].split("\n#")[0], re.M))
    if listed != set(ALIKE):
        sys.exit(f"{DIFFERENCES}: the table \"What is not compared\" and the test differ in {sorted(listed ^ set(ALIKE))}")
    section = text.split(HEADING)[1].split("\n#")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*?) \| (.*) \|$", section, re.M)
    differences = []
    for name, pattern, _ in rows:
        patterns = re.findall(r"`` ?(.*?) ?``(?!`)|`(.*?)`", pattern)
        differences.append((name, [re.compile((a or b).replace("\\|", "|"), re.S) for a, b in patterns]))
    return differences


class Store:
    """A server that was started, over HTTP."""

    def __init__(self, name, process, host):
        self.name, self.process, self.host = name, process, host
        self.local = threading.local()

    def request(self, method, path, body=None, headers={}):
        for attempt in (0, 1):
            connection = getattr(self.local, "connection", None)
            if connection is None:
                connection = self.local.connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_S)
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except TimeoutError:
                self.local.connection = None
                return 599, b"no answer in time"
            except (http.client.HTTPException, ConnectionError):
                self.local.connection = None
                if attempt:
                    raise

    def ask(self, case):
        form = urllib.parse.urlencode([*case.parameters, ("query", case.query)])
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", f"/select/logsql/{case.endpoint}", form.encode(), headers)

    def insert(self, path, body):
        status, answer = self.request("POST", path, body)
        if status >= 300:
            sys.exit(f"{self.name} refuses the records: {status} {answer[:300]!r}")

    def count(self, span):
        form = urllib.parse.urlencode({"query": "* | count() n", "start": span[0], "end": span[1]})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        _, answer = self.request("POST", "/select/logsql/query", form.encode(), headers)
        return int(json.loads(answer)["n"])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    sys.exit(f"waited {PATIENCE_S} s in vain for {what}")


def start_loginson(directory, name="loginson", config=""):
    binary = os.environ["LOGINSON_BIN"]
    log = open(directory / f"{name}.log", "w")
    (directory / f"{name}.toml").write_text(config)
    command = [binary, "serve", "--config", directory / f"{name}.toml", "--data-dir", directory / name, "--http-listen", "127.0.0.1:0"]
    command += ["--syslog-udp-listen", "127.0.0.1:0", "--syslog-tcp-listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=log)

    def address():
        return re.search(r"page and API at http://([0-9.:]+)", (directory / f"{name}.log").read_text())

    host = wait_for("Loginson", address)[1]
    store = Store("loginson", process, host)
    wait_for("Loginson", lambda: store.request("GET", "/ready")[0] == 200)
    status = json.loads(store.request("GET", "/api/v1/status")[1])
    return store, int(status["listeners"]["syslog_tcp"].rsplit(":", 1)[1])


def limit_memory():
    """Some queries take all memory that VictoriaLogs finds."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def start_victorialogs(directory):
    binary = os.environ["VICTORIALOGS_BIN"]
    port, syslog = free_port(), free_port()
    log = open(directory / "victorialogs.log", "w")
    command = [binary, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={directory / 'victorialogs'}"]
    command += ["-retentionPeriod=100y", "-futureRetention=10y", "-memory.allowedBytes=1GiB", "-defaultMsgValue="]
    command += [f"-syslog.listenAddr.tcp=127.0.0.1:{syslog}", "-syslog.timezone=UTC"]
    process = subprocess.Popen(command, stderr=log, stdout=log, env={**os.environ, "TZ": "UTC"}, preexec_fn=limit_memory)
    store = Store("victorialogs", process, f"127.0.0.1:{port}")
    wait_for("VictoriaLogs", lambda: store.request("GET", "/health")[0] == 200)
    return store, syslog


def load(store, syslog_port):
    body = records.json_body()
    store.insert("/insert/jsonline?_stream_fields=host,app&_time_field=_time&_msg_field=_msg", body)
    lines = records.syslog_lines()
    with socket.create_connection(("127.0.0.1", syslog_port)) as connection:
        connection.sendall("".join(line + "\n" for line in lines).encode())

    def is_there():
        if store.name == "victorialogs":
            store.request("GET", "/internal/force_flush")
        return store.count(records.JSON_RANGE) == body.count(b"\n") and store.count(records.SYSLOG_RANGE) >= len(lines)

    wait_for(f"the records in {store.name}", is_there)


def load_halves(stores):
    """Every other record goes to the second store."""
    body = records.json_body().splitlines(keepends=True)
    lines = records.syslog_lines()
    for half, (store, syslog_port) in enumerate(stores):
        store.insert("/insert/jsonline?_stream_fields=host,app&_time_field=_time&_msg_field=_msg", b"".join(body[half::2]))
        with socket.create_connection(("127.0.0.1", syslog_port)) as connection:
            connection.sendall("".join(line + "\n" for line in lines[half::2]).encode())


def start_cluster(directory, stores):
    """Two stores with half of the records each, and a server that answers for both."""
    halves = []
    for number in (1, 2):
        halves.append(start_loginson(directory, f"store{number}"))
        stores.append(halves[-1][0])
    load_halves(halves)
    addresses = ", ".join(f"'{store.host}'" for store, _ in halves)
    server = start_loginson(directory, "server", f"[stores]\naddresses = [{addresses}]\n")[0]
    stores.append(server)
    there = len(records.json_body().splitlines())
    wait_for("the records in both stores", lambda: server.count(records.JSON_RANGE) == there
             and server.count(records.SYSLOG_RANGE) >= len(records.syslog_lines()))
    return server


def seal(store):
    """Has the lines of Loginson sealed: a deletion closes the segment that is written."""
    store.request("POST", "/api/v1/deletions?filter=" + urllib.parse.quote('seq:="no such line"'))

    def sealed():
        status = json.loads(store.request("GET", "/api/v1/status")[1])["store"]
        return status["segments_sealed"] > 0 and status["sealing"]["lag_segments"] == 0

    wait_for("sealed segments", sealed)


def is_number(value):
    return isinstance(value, (int, float)) or isinstance(value, str) and FLOAT.fullmatch(value) is not None


def near(a, b):
    """Whether values are the same up to the last digits of floats, and the blanks of JSON inside texts."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(near, a, b))
    if a == b:
        return True
    if is_number(a) and is_number(b):
        # Whole numbers are compared exactly: no sum of them is so large that it is rounded.
        whole = all(str(value).lstrip("-").isdigit() for value in (a, b)) and max(len(str(a)), len(str(b))) < 16
        return not whole and math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)
    return False


def inside(value):
    """A value in which texts that are JSON objects and arrays, or end with them, are read."""
    if isinstance(value, dict):
        return {name: inside(item) for name, item in value.items()}
    if isinstance(value, list):
        return [inside(item) for item in value]
    if isinstance(value, str) and value[:1] in ("[", "{") and value[-1:] in ("]", "}"):
        try:
            parsed = json.loads(value)
        except ValueError:
            return value
        if isinstance(parsed, (dict, list)):
            return inside(parsed)
    return value


def without_added(rows):
    """Fields that only one of the stores adds, also inside of values, and rows that are about such a field or have no others."""

    def without(value):
        if isinstance(value, dict):
            return {name: without(item) for name, item in value.items() if name not in OWN_FIELDS}
        return [without(item) for item in value] if isinstance(value, list) else value

    def is_about_added(row):
        names = [row.get(key) for key in ("value", "name", "field_name", "f")]
        return any(isinstance(name, str) and name in OWN_FIELDS for name in names)

    return [row for row in without([row for row in rows if not is_about_added(row)]) if row]


def without_empty_labels(rows):
    """A label without a value is no label, as Prometheus has it."""
    return [
        {**row, "metric": {name: value for name, value in row["metric"].items() if value}} if "metric" in row else row
        for row in rows
    ]


# The ways in which answers are made alike, in the order in which they are tried; docs/logsql.md has a row for each. The last ones
# compare, and so are marked with None.
ALIKE = {"empty-labels": without_empty_labels, "json-in-texts": inside, "added-fields": without_added, "last-digits": None}


def rows_of(case, status, body):
    """The rows of an answer; a text if there is none."""
    if status != 200:
        return f"refused {status // 100 if status < 500 else status}"
    try:
        if ("format", "csv") in case.parameters:
            rows = [{name: value for name, value in row.items() if value} for row in csv.DictReader(io.StringIO(body.decode()))]
        elif case.endpoint == "query":
            rows = [json.loads(line) for line in body.decode().split("\n") if line.strip()]
        else:
            document = json.loads(body)
            document.pop("step_s", None)
            rows = (
                document["data"]["result"] if "data" in document
                else document["hits"] if "hits" in document
                else document["facets"] if "facets" in document
                else document["values"] if "values" in document
                else [document]
            )
    except (ValueError, KeyError) as error:
        return f"broken answer: {error}: {body[:200]!r}"
    for row in rows:
        if "timestamps" in row:
            # The order of series is compared, that of points too.
            row["points"] = list(zip(row.pop("timestamps"), row.pop("values")))
        if "field_name" in row and "values" in row:
            row["values"].sort(key=lambda value: (-value["hits"], value["field_value"]))
    return rows


def in_mode(case, rows):
    """What of the rows is compared: a list of texts, in the order that counts."""
    if isinstance(rows, str):
        return [rows]
    if case.mode == "rows":
        return [str(len(rows))]
    if case.mode == "names":
        return sorted({name for row in rows for name in row})
    if case.mode == "nohits":
        rows = [{name: value for name, value in row.items() if name != "hits"} for row in rows]
    texts = [json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows]
    return texts if case.mode == "ordered" else sorted(texts)


def pairs(ours, theirs):
    """Rows of both, those next to each other that have the same values but for their numbers."""
    number = re.compile(FLOAT.pattern.join(("(?<![\\w.])", "(?![\\w.])")))
    by_text = [sorted(rows, key=lambda text: (number.sub("#", text), [float(n[0]) for n in number.finditer(text)])) for rows in (ours, theirs)]
    return zip(*by_text)


def alike(case, ours, theirs):
    """Whether rows of two answers are the same; the ways of making alike that this took; and what was compared last."""
    used = []
    texts = [in_mode(case, rows) for rows in (ours, theirs)]
    for name, make in ALIKE.items():
        if texts[0] == texts[1] or isinstance(ours, str) or isinstance(theirs, str):
            break
        used.append(name)
        if make:
            ours, theirs = make(ours), make(theirs)
            texts = [in_mode(case, rows) for rows in (ours, theirs)]
        else:
            matched = zip(*texts) if case.mode == "ordered" else pairs(*texts)
            if len(texts[0]) == len(texts[1]) and all(near(json.loads(a), json.loads(b)) for a, b in matched if case.mode not in ("rows", "names")):
                return True, used, *texts
    return texts[0] == texts[1], used, *texts


def compare(case, stores):
    raw = [store.ask(case) for store in stores]
    rows = [rows_of(case, *answer) for answer in raw]
    same, used, ours, theirs = alike(case, *rows)
    refused = [status != 200 for status, _ in raw]
    fault = None
    if same and refused[0] and case.mode != "refused" and not case.place.startswith("grammar"):
        fault = "both refuse it"
    elif case.mode == "refused" and not all(refused):
        same = False
    return case, same, fault, ours, theirs, raw, used


def show(result, verbose, names=("Loginson", "VictoriaLogs")):
    case, _, fault, ours, theirs, raw, _ = result
    print(f"--- {case.place}  {case.text()}" + (f"  ({fault})" if fault else ""))
    for name, (status, body) in zip(names, raw):
        if status != 200:
            print(f"    {name} {status}: {body[:400].decode(errors='replace').strip()}")
    if fault or any(status != 200 for status, _ in raw):
        return
    limit = 60 if verbose else 12
    lines = [line for line in difflib.unified_diff(theirs, ours, lineterm="", n=0) if not line.startswith(("@@", "---", "+++"))]
    print(f"    {names[0]} {len(ours)} rows (+), {names[1]} {len(theirs)} rows (-)")
    for line in lines[:limit]:
        print("    " + (line if verbose else line[:400]))
    if len(lines) > limit:
        print(f"    … {len(lines) - limit} more")


def run(cases, stores, differences, form, verbose, kept=None):
    """Runs all and reports; gives the number of faults, and counts what differences and ways of making alike were met. The answers of
    Loginson go to `kept`."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda case: compare(case, stores), cases))
    unexpected, met = [], collections.Counter()
    agree = refused = 0
    for result in results:
        case, same, fault, raw, used = *result[:3], *result[5:7]
        matching = [name for name, patterns in differences if any(p.search(case.text()) for p in patterns)]
        # A difference is shown by a query whose answers differ.
        met.update(used if same else matching)
        if kept is not None:
            kept[case] = raw[0]
        refused += same and raw[0][0] != 200 and case.place.startswith("grammar")
        if fault or not same and not matching:
            unexpected.append(result)
        else:
            agree += same
    for result in unexpected if verbose else unexpected[:SHOWN_MAX]:
        show(result, verbose)
    if len(unexpected) > SHOWN_MAX and not verbose:
        print(f"… {len(unexpected) - SHOWN_MAX} more, see with -v")
    faults = len(unexpected)
    if refused > REFUSED_SHARE_MAX * len(results):
        print(f"both refuse {refused} of the drawn queries, so these test little")
        faults += 1
    print(f"{form}: {len(results)} queries, {agree} alike, {len(results) - agree - len(unexpected)} with accepted differences, {len(unexpected)} faults")
    return faults, met


def check_same(kept, store, form):
    """Whether Loginson answers as it did when everything was hot; gives the number of queries that it does not."""

    def check(pair):
        case, hot = pair
        now = store.ask(case)
        same, _, ours, theirs = alike(case, rows_of(case, *now), rows_of(case, *hot))
        return None if same else (case, same, None, ours, theirs, [now, hot], None)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [result for result in pool.map(check, kept.items()) if result]
    for result in found[:SHOWN_MAX]:
        show(result, False, ("now", "hot"))
    print(f"{form}: {len(kept)} queries again, {len(found)} answers other than those of hot lines")
    return len(found)


def check_properties(store, rng, form):
    """Checks what must hold whatever the lines are; gives the number of faults."""
    start, end = records.JSON_RANGE
    faults = 0

    def rows(query, **parameters):
        case = Case("property", parameters.pop("endpoint", "query"), [*{"start": start, "end": end, **parameters}.items()], "set", query)
        answer = rows_of(case, *store.ask(case))
        if isinstance(answer, str):
            raise ValueError(f"{query}: {answer}")
        return answer

    def count(query, **parameters):
        return int(rows(f"{query} | count() n", **parameters)[0]["n"])

    def seqs(query, **parameters):
        return [row["seq"] for row in rows(query, **parameters)]

    def time_at(share):
        first, last = (datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (start, end))
        return (first + (last - first) * share).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def check(what, ours, theirs):
        nonlocal faults
        if ours != theirs:
            faults += 1
            print(f"--- {form}: {what}: {str(ours)[:300]} is not {str(theirs)[:300]}")

    everything = count("*")
    for _ in range(PROPERTIES):
        drawn = grammar.Grammar(rng)
        f, g = (f"({drawn.filter()})" for _ in range(2))
        middle, skipped, kept = time_at(rng.random()), rng.randrange(20), rng.randrange(30)
        by = rng.choice(["lvl", "host", "kind", "_stream", "x"])
        try:
            n = count(f)
            check(f"{f} and not {f}", n + count(f"!{f}"), everything)
            check(f"{f} and {g}, {f} or {g}", count(f"{f} {g}") + count(f"({f} or {g})"), n + count(g))
            check(f"not ({f} or {g})", count(f"!({f} or {g})"), count(f"!{f} !{g}"))
            if " | " not in f:
                # A query inside a filter reads the span of the request.
                check(f"{f} in two spans", count(f, end=middle) + count(f, start=middle), n)
            check(f"{f} in two spans that filters name", count(f"{f} _time:<{middle}") + count(f"{f} _time:>={middle}"), n)
            check(f"hits of {f}", sum(row["total"] for row in rows(f, endpoint="hits", step="7h")), n)
            check(f"groups of {f}", sum(int(row["n"]) for row in rows(f"{f} | stats by ({by}) count() n")), n)
            check(f"uniq of {f}", sum(int(row["hits"]) for row in rows(f"{f} | uniq by ({by}) with hits")), n)
            check(f"union of {f}", len(rows(f"{f} | fields seq | union ({g} | fields seq)")), n + count(g))
            ordered = seqs(f"{f} | sort by ({by}, _time desc) | fields seq")
            check(f"sort of {f}", sorted(ordered), sorted(seqs(f"{f} | fields seq")))
            check(f"piece of the sorted {f}", seqs(f"{f} | sort by ({by}, _time desc) | offset {skipped} | limit {kept} | fields seq"), ordered[skipped : skipped + kept])
            check(f"sort with a limit of {f}", seqs(f"{f} | sort by ({by}, _time desc) offset {skipped} limit {kept} | fields seq") if kept else [], ordered[skipped : skipped + kept])
            check(f"subquery of {f}", count(f"seq:in({f} | fields seq)"), n)
            check(f"filter pipe of {f}", count(f"{g} | filter {f}"), count(f"{f} {g}"))
            newest = seqs(f"{f} | sort by (_time desc) | fields seq")
            check(f"the newest of {f}", seqs(f"{f} | fields _time, seq", limit=str(kept or 1)), newest[: kept or 1])
        except ValueError as error:
            check("refused", str(error), "")
    print(f"{form}: properties of {PROPERTIES} filters, {faults} faults")
    return faults


def stop(store):
    store.process.send_signal(signal.SIGTERM)
    store.process.wait(PATIENCE_S)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", action="store_true", dest="verbose")
    parser.add_argument("--seed", default=os.environ.get("SEED") or str(datetime.date.today()))
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    verbose, words = options.verbose, options.words
    print(f"seed {options.seed}; SEED={options.seed} draws the same queries again")
    fixed, drawn = read_cases(), list(drawn_cases(options.seed, options.count))
    differences = read_differences()
    fixed, drawn = ([case for case in cases if not words or any(word in case.text() or word in case.place for word in words)] for cases in (fixed, drawn))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="loginson-victorialogs-"))
    started = time.monotonic()
    rng = random.Random(options.seed)
    stores = []
    try:
        loginson, syslog = start_loginson(directory)
        stores.append(loginson)
        victorialogs, their_syslog = start_victorialogs(directory)
        stores.append(victorialogs)
        load(loginson, syslog)
        load(victorialogs, their_syslog)
        kept = {}
        faults, met = run(fixed, [loginson, victorialogs], differences, "hot", verbose)
        found, drawn_met = run(drawn, [loginson, victorialogs], differences, f"hot, seed {options.seed}", verbose, kept)
        faults += found
        met += drawn_met
        faults += 0 if words else check_properties(loginson, rng, "hot")
        if os.environ.get("ONLY_HOT") != "1":
            seal(loginson)
            faults += run(fixed, [loginson, victorialogs], differences, "sealed", verbose)[0]
            faults += check_same(kept, loginson, "sealed")
            faults += 0 if words else check_properties(loginson, rng, "sealed")
            stop(loginson)
            stores.remove(loginson)
            loginson, _ = start_loginson(directory)
            stores.append(loginson)
            faults += check_same(kept, loginson, "restarted")
            faults += 0 if words else check_properties(loginson, rng, "restarted")
            server = start_cluster(directory, stores)
            faults += run(fixed, [server, victorialogs], differences, "two stores", verbose)[0]
            faults += check_same(kept, server, "two stores")
            faults += 0 if words else check_properties(server, rng, "two stores")
        if not words:
            for name in [name for name, _ in differences if not met[name]]:
                print(f"accepted difference that no query shows: {name}")
                faults += 1
            for name in [name for name in ALIKE if not met[name]]:
                print(f"a way of making alike that no query needs: {name}")
                faults += 1
    finally:
        for store in stores:
            stop(store)
        shutil.rmtree(directory)
    print(f"{time.monotonic() - started:.0f} s, {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
