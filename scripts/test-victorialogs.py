#!/usr/bin/env python3
"""Sends Loginson and VictoriaLogs the same queries and compares the answers.

Both are started with empty directories and given the same records (victorialogs_records.py). The queries are those of
testdata/victorialogs/*.txt, whose form its README describes. Rows are compared as sets; those of queries marked `ordered`
in their order. Numbers may differ in the last digits of a float. The queries run three times: over hot lines of Loginson, over
sealed ones, and at a server that answers for two stores with half of the records each.

What may differ stands in the table "Accepted differences" of docs/logsql.md: a query whose answers differ and which no pattern of
the table matches is a fault, and so is a pattern whose queries all have the same answers.

    LOGINSON_BIN=…      the binary under test
    VICTORIALOGS_BIN=…  the binary it is compared with
    test-victorialogs.py [-v] [WORD …]   only the queries that contain one of the words; -v shows the answers

Standard library only.
"""

import collections
import concurrent.futures
import difflib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import victorialogs_records as records

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERIES = ROOT / "testdata" / "victorialogs"
DIFFERENCES = ROOT / "docs" / "logsql.md"
HEADING = "### Accepted differences"
# No server takes longer to start, no line to be seen, no query to run.
PATIENCE_S = 60
# Fields that Loginson adds to each line, and the one that VictoriaLogs does.
OWN_FIELDS = {"_type", "_level", "_remote_ip", "_file", "_note", "_stream_id"}
FLOAT = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
# Differences shown in full.
SHOWN_MAX = 40
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


def read_differences():
    """Id and pattern of the differences that docs/logsql.md accepts."""
    text = DIFFERENCES.read_text()
    if HEADING not in text:
        return []
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*?) \| (.*) \|$", text.split(HEADING)[1], re.M)
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


def start_victorialogs(directory):
    binary = os.environ["VICTORIALOGS_BIN"]
    port, syslog = free_port(), free_port()
    log = open(directory / "victorialogs.log", "w")
    command = [binary, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={directory / 'victorialogs'}"]
    command += ["-retentionPeriod=100y", "-futureRetention=10y", "-memory.allowedBytes=1GiB", "-defaultMsgValue="]
    command += [f"-syslog.listenAddr.tcp=127.0.0.1:{syslog}", "-syslog.timezone=UTC"]
    process = subprocess.Popen(command, stderr=log, stdout=log, env={**os.environ, "TZ": "UTC"})
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


def canonical(value, sums=False):
    """A value in which texts that differ in the last digits of a float are the same, and objects have an order. Whole numbers count
    as floats where they are `sums` of floats."""
    if isinstance(value, dict):
        return {name: canonical(value[name], sums) for name in sorted(value) if name not in OWN_FIELDS}
    if isinstance(value, list):
        return [canonical(item, sums) for item in value]
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, str):
        if len(value) > 12 and FLOAT.fullmatch(value) and ("." in value or "e" in value.lower() or sums):
            return f"{float(value):.12g}"
        if value[:1] in ("[", "{") and value[-1:] in ("]", "}") and len(value) > 2:
            try:
                parsed = json.loads(value)
            except ValueError:
                return value
            if isinstance(parsed, (dict, list)):
                return json.dumps(canonical(parsed, sums), ensure_ascii=False)
    return value


def own_value(value):
    """Whether a pair of a name or value and its hits is about one of the fields that only one store has."""
    names = [value.get("value"), value.get("name"), value.get("field_name"), value.get("f")]
    return any(isinstance(name, str) and name in OWN_FIELDS for name in names)


def answer_of(case, status, body):
    """What is compared: a list of texts, in the order that counts."""
    if status != 200:
        return [f"refused {status // 100 if status < 500 else status}"]
    try:
        if case.endpoint == "query":
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
        return [f"broken answer: {error}: {body[:200]!r}"]
    rows = [row for row in rows if not own_value(row)]
    for row in rows:
        if "metric" in row:
            # A label without a value is no label, as Prometheus has it.
            row["metric"] = {name: value for name, value in row["metric"].items() if value}
        if "timestamps" in row:
            # The order of series is compared, that of points too.
            row["points"] = list(zip(row.pop("timestamps"), row.pop("values")))
        if "field_name" in row and "values" in row:
            row["values"].sort(key=lambda value: (-value["hits"], value["field_value"]))
    if case.mode == "rows":
        return [str(len(rows))]
    if case.mode == "names":
        return sorted({name for row in rows for name in row if name not in OWN_FIELDS})
    if case.mode == "nohits":
        rows = [{name: value for name, value in row.items() if name != "hits"} for row in rows]
    sums = any(function in case.query for function in ("sum(", "avg(", "stddev(", "math "))
    # Rows without fields are no rows.
    texts = [json.dumps(canonical(row, sums), ensure_ascii=False, sort_keys=True) for row in rows]
    return texts if case.mode == "ordered" else sorted(texts)


def compare(case, stores):
    answers, raw = [], []
    for store in stores:
        status, body = store.ask(case)
        raw.append((status, body))
        answers.append(answer_of(case, status, body))
    ours, theirs = answers
    same = ours == theirs
    refused = [status != 200 for status, _ in raw]
    fault = None
    if same and refused[0] and case.mode != "refused":
        fault = "both refuse it"
    elif case.mode == "refused" and not all(refused):
        same = False
    return case, same, fault, ours, theirs, raw


def show(result, verbose):
    case, _, fault, ours, theirs, raw = result
    print(f"--- {case.place}  {case.text()}" + (f"  ({fault})" if fault else ""))
    for name, (status, body) in zip(("Loginson", "VictoriaLogs"), raw):
        if status != 200:
            print(f"    {name} {status}: {body[:400].decode(errors='replace').strip()}")
    if fault or any(status != 200 for status, _ in raw):
        return
    limit = 60 if verbose else 12
    lines = [line for line in difflib.unified_diff(theirs, ours, "VictoriaLogs", "Loginson", lineterm="", n=0) if not line.startswith(("@@", "---", "+++"))]
    print(f"    Loginson {len(ours)} rows (+), VictoriaLogs {len(theirs)} rows (-)")
    for line in lines[:limit]:
        print("    " + (line if verbose else line[:400]))
    if len(lines) > limit:
        print(f"    … {len(lines) - limit} more")


def run(cases, stores, differences, form, verbose):
    """Runs all and reports; gives the number of faults and the differences that none of them showed."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda case: compare(case, stores), cases))
    unexpected, met = [], collections.Counter()
    agree = 0
    for result in results:
        case, same, fault = result[:3]
        matching = [name for name, patterns in differences if any(p.search(case.text()) for p in patterns)]
        # A difference is shown by a query whose answers differ.
        met.update(matching if not same else [])
        if fault:
            unexpected.append(result)
        elif not same and not matching:
            unexpected.append((case, same, None, *result[3:]))
        else:
            agree += same
    for result in unexpected if verbose else unexpected[:SHOWN_MAX]:
        show(result, verbose)
    if len(unexpected) > SHOWN_MAX and not verbose:
        print(f"… {len(unexpected) - SHOWN_MAX} more, see with -v")
    unmet = [name for name, _ in differences if not met[name]]
    print(f"{form}: {len(results)} queries, {agree} alike, {len(results) - agree - len(unexpected)} with accepted differences, {len(unexpected)} faults")
    return len(unexpected), unmet


def main():
    arguments = sys.argv[1:]
    verbose = "-v" in arguments
    words = [argument for argument in arguments if argument != "-v"]
    cases = read_cases()
    differences = read_differences()
    wanted = [case for case in cases if not words or any(word in case.text() or word in case.place for word in words)]
    directory = pathlib.Path(tempfile.mkdtemp(prefix="loginson-victorialogs-"))
    started = time.monotonic()
    stores = []
    try:
        loginson, syslog = start_loginson(directory)
        stores.append(loginson)
        victorialogs, their_syslog = start_victorialogs(directory)
        stores.append(victorialogs)
        load(loginson, syslog)
        load(victorialogs, their_syslog)
        faults, unmet = run(wanted, stores, differences, "hot", verbose)
        if os.environ.get("ONLY_HOT") != "1":
            seal(loginson)
            faults += run(wanted, stores, differences, "sealed", verbose)[0]
            server = start_cluster(directory, stores)
            faults += run(wanted, [server, victorialogs], differences, "two stores", verbose)[0]
        if not words:
            for name in unmet:
                print(f"accepted difference that no query shows: {name}")
            faults += len(unmet)
    finally:
        for store in stores:
            store.process.send_signal(signal.SIGTERM)
        for store in stores:
            store.process.wait(PATIENCE_S)
        shutil.rmtree(directory)
    print(f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if faults else 0)


main()
