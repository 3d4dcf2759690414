#!/usr/bin/env python3
"""Measures Loginson beside VictoriaLogs, ripgrep, DuckDB and rsyslog on mixes of lines, and writes docs/benchmarks/peers.md.

    make bench-peers                                      two mixes, 0.1 and 2 GB, three states: up to 90 minutes, 8 GB of disk
    PEERS_SIZES=0.1 PEERS_STATES=sealed make bench-peers  the quick look at every shape, five minutes
    PEERS_MIXES=every PEERS_SIZES=0.1 make bench-peers    all mixes of peers_data.py, or those named: PEERS_MIXES=all,one-host
    PEERS_CORPUS=DIR make bench-peers                     the log files of a directory instead of testdata/corpora
    PEERS_OUT=DIR make bench-peers                        where raw numbers go; what it has is not measured again
    PEERS_SHAPES=REGEX PEERS_SEED=1 PEERS_RG_THREADS=2    shapes whose names match, seed of mixes and queries, threads of ripgrep

peers_data.py makes the mixes, peers_words.py chooses what is searched for, peers_shapes.py has the queries, peers_report.py prints the
shapes that are behind first. For each mix and size:

1. Loginson, then VictoriaLogs, each with default settings and an empty directory, take the lines as fast as they can; both are left
   until their background work is done. CPU time and size on disk are those of this part, in which nothing is queried but counts of
   lines. rsyslog writes the lines of syslog mixes to a file.
2. `sealed`: both answer the queries in turn, ripgrep counts what it can, all from memory, and DuckDB, where its Python module is
   installed, answers the analytical ones from Parquet that Loginson exported.
3. `new` and `default`: Loginson takes the lines anew with nothing beside it, and answers 1 s after the last line was counted, and
   after 60 s in turn with VictoriaLogs at rest. VictoriaLogs takes them anew, too, and answers after 1 s.

A query runs RUNS_MAX times if it is fast, RUNS_MIN times if it is slow. Each run names another word that no line has, so no cache of
answers helps. Answers of both must agree, or the program ends with an error when it has written its tables. Standard library only,
but for DuckDB.
"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from datetime import datetime

os.environ["TZ"] = "UTC"
import peers_data
import peers_report
import peers_shapes
import peers_words
from benchlib import ROOT, TICKS, Client, Server, cpu_s, note, wait_listening

VICTORIALOGS = os.environ["VICTORIALOGS_BIN"]
SIZES_GB = [float(size) for size in os.environ.get("PEERS_SIZES", "0.1,2").split(",")]
STATES = os.environ.get("PEERS_STATES", ",".join(peers_report.STATES)).split(",")
# The mixes that are measured where none are named.
USUAL_MIXES = "all,services"
SHAPES = re.compile(os.environ.get("PEERS_SHAPES", ""))
SEED = int(os.environ.get("PEERS_SEED", "1"))
RG_THREADS = os.environ.get("PEERS_RG_THREADS", "2")
# Size of a request with JSON lines. Requests are sent one at a time over one connection.
BODY_BYTES = 16 << 20
# Seconds after ingest at which the queries `new` and `default` begin. In `new` no round begins NEW_WINDOW_S later: the lines are not new
# any more.
NEW_S, DEFAULT_S, NEW_WINDOW_S = 1, 60, 20
# A query of one peer runs RUNS_MAX times; once RUNS_S are used up RUNS_MIN times; once RUNS_SLOW_S are used up no more.
RUNS_MAX, RUNS_MIN, RUNS_S, RUNS_SLOW_S = 7, 3, 1.0, 10.0
# Numbers that a peer estimates agree when they differ by this share at most. VictoriaLogs takes quantiles of a sample.
NEAR_SHARE = 0.5
# A server is at rest when it used less than REST_CORES for REST_S seconds. Nothing is awaited for longer than PATIENCE_S.
REST_CORES, REST_S, PATIENCE_S = 0.03, 10, 1200
# The machine is quiet while other processes use less than QUIET_CORES.
QUIET_CORES, QUIET_PATIENCE_S = 0.1, 10


class Peer:
    """A server that takes lines and answers LogsQL."""

    def __init__(self, name, pid, address, syslog_port, data):
        self.name, self.pid, self.address, self.syslog_port, self.data = name, pid, address, syslog_port, data
        self.connect()

    def connect(self):
        """Opens a new connection: servers close connections that were idle for long."""
        self.client = Client(self.address)
        self.client.get("/health")

    def query(self, logsql, limit=0):
        """Its answer, or an object with the key `_error` of a query that was refused."""
        parameters = {"query": logsql} | ({"limit": limit} if limit else {})
        status, answer = self.client.request("GET", "/select/logsql/query?" + urllib.parse.urlencode(parameters))
        return answer if status == 200 else json.dumps({"_error": f"{status} {answer[:300]}"})

    def count(self):
        rows = self.query("* | stats count() n").splitlines()
        return int(json.loads(rows[0])["n"]) if rows else 0

    def cpu_s(self):
        return cpu_s(self.pid)

    def memory_peak_bytes(self):
        """The most memory it had since its start."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024

    def disk_bytes(self):
        """Bytes of its files; space that a file has beyond its end does not count."""
        size = 0
        for directory, _, names in os.walk(self.data):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    stat = os.stat(os.path.join(directory, name))
                    size += min(stat.st_blocks * 512, stat.st_size)
        return size

    def wait_rest(self):
        """Waits until the server is at rest; false when that takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            before = self.cpu_s()
            time.sleep(REST_S)
            if (self.cpu_s() - before) / REST_S < REST_CORES and self.is_done():
                return True
        return False

    def is_done(self):
        """Whether the server reports that no work is due. True for servers that do not report it."""
        return True

    def seal(self):
        """Makes the server write lines in their final form now, where it would do so later."""


class Loginson(Peer):
    def metrics(self):
        self.connect()
        samples = (line.rsplit(" ", 1) for line in self.client.get("/metrics").splitlines() if line[0] != "#")
        return {name: float(value) for name, value in samples}

    def is_done(self):
        metrics = self.metrics()
        return metrics["loginson_parse_lag_lines"] == 0 and metrics["loginson_seal_lag_bytes"] == 0

    def seal(self):
        """Seals the active segment, as its age would after an hour."""
        self.connect()
        status, answer = self.client.request("POST", "/api/v1/seal")
        if status >= 300:
            sys.exit(f"/api/v1/seal: {status} {answer[:300]}")


@contextlib.contextmanager
def loginson(directory):
    with Server(directory) as server:
        syslog_port = int(server.address["syslog_tcp"].rsplit(":", 1)[1])
        yield Loginson("Loginson", server.process.pid, server.http, syslog_port, server.directory / "data")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def victorialogs(directory):
    """VictoriaLogs with default settings, except retention, addresses and the time zone of the lines."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="victorialogs.", dir=directory))
    port, syslog_port = free_port(), free_port()
    command = [VICTORIALOGS, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={directory / 'data'}", "-retentionPeriod=100y"]
    command += [f"-syslog.listenAddr.tcp=127.0.0.1:{syslog_port}", "-syslog.timezone=UTC", "-search.maxQueryDuration=5m"]
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_listening(port)
        wait_listening(syslog_port)
        yield Peer("VictoriaLogs", process.pid, ("127.0.0.1", port), syslog_port, directory / "data")
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory)


# ---- the machine -----------------------------------------------------------------------------------------------------


class Others:
    """Measures the processor time that other processes use, since construction."""

    worst = 0.0

    def __init__(self, *peers):
        self.peers = peers
        self.began, self.before = time.monotonic(), self.foreign_s()

    def foreign_s(self):
        """CPU seconds of the machine, less those of this process, its ended children, and the peers."""
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return (sum(fields) - fields[3] - fields[4]) / TICKS - own - sum(peer.cpu_s() for peer in self.peers)

    def cores(self):
        used = (self.foreign_s() - self.before) / max(time.monotonic() - self.began, 0.001)
        return max(0.0, round(used, 3))


def wait_quiet(*peers):
    """Waits until other processes use next to nothing, or QUIET_PATIENCE_S is over; returns what they use."""
    deadline = time.monotonic() + QUIET_PATIENCE_S
    while True:
        others = Others(*peers)
        time.sleep(1)
        if (cores := others.cores()) < QUIET_CORES or time.monotonic() > deadline:
            return cores


# ---- ingest ----------------------------------------------------------------------------------------------------------


def send(mix, port):
    """Sends all lines over one connection, from the page cache."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for path in mix.files:
            with open(path, "rb") as file:
                connection.sendfile(file)


def bodies(mix):
    """The lines in pieces of BODY_BYTES, cut at line ends."""
    for path in mix.files:
        with open(path, "rb") as file:
            while piece := file.read(BODY_BYTES):
                yield piece + file.readline()


def post(mix, address):
    connection = http.client.HTTPConnection(*address)
    fields = {"_stream_fields": mix.stream_fields, "_time_field": mix.time_field, "_msg_field": mix.msg_field}
    for body in bodies(mix):
        connection.request("POST", "/insert/jsonline?" + urllib.parse.urlencode(fields), body)
        answer = connection.getresponse()
        if answer.read() and answer.status >= 300:
            sys.exit(f"{address} refuses lines: {answer.status}")


def take(peer, mix):
    """Sends all lines; returns the seconds until all of them are counted."""
    for path in mix.files:
        # Loads the file into the page cache, so that the sender does not wait for the disk.
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
    failed = []

    def sending():
        try:
            post(mix, peer.address) if mix.is_json else send(mix, peer.syslog_port)
        except BaseException as error:
            failed.append(error)

    sender = threading.Thread(target=sending)
    peer.connect()
    began = changed = time.monotonic()
    sender.start()
    counted = -1
    while (now_counted := peer.count()) != mix.lines:
        now = time.monotonic()
        if now_counted != counted:
            counted, changed = now_counted, now
        if failed or now_counted > mix.lines or now - changed > 120:
            sys.exit(f"{peer.name} has {now_counted} of {mix.lines} lines of {mix.name}; {failed or 'no more come'}")
        time.sleep(0.05)
    seconds = time.monotonic() - began
    sender.join()
    return seconds


def ingest(peer, mix):
    """Ingests all lines and waits until no work is due; returns times, CPU seconds, bytes on disk."""
    others = [wait_quiet(peer)]
    watch = Others(peer)
    seconds = take(peer, mix)
    done = time.monotonic()
    result = {"seconds": seconds, "cpu_taken_s": peer.cpu_s()}
    if "default" in STATES:
        time.sleep(max(0.0, DEFAULT_S - (time.monotonic() - done)))
        result["disk_default_bytes"] = peer.disk_bytes()
    result["rested"] = peer.wait_rest()
    result["cpu_rest_open_s"] = peer.cpu_s()
    result["disk_rest_open_bytes"] = peer.disk_bytes()
    peer.connect()
    peer.seal()
    if isinstance(peer, Loginson):
        result["rested"] &= peer.wait_rest()
        metrics = peer.metrics()
        result["sealed_share"] = metrics["loginson_store_sealed_raw_bytes"] / metrics["loginson_store_raw_bytes"]
        result["segments"] = metrics["loginson_store_segments"]
    result |= {"cpu_rest_s": peer.cpu_s(), "disk_rest_bytes": peer.disk_bytes(), "rest_after_s": time.monotonic() - done}
    result["memory_peak_bytes"] = peer.memory_peak_bytes()
    result["others_cores"] = [*others, watch.cores()]
    note(
        f"    {peer.name}: {seconds:.2f} s, CPU {result['cpu_taken_s']:.1f} s,"
        f" at rest after {result['rest_after_s']:.0f} s, CPU {result['cpu_rest_s']:.1f} s"
    )
    if not result["rested"]:
        note(f"    {peer.name} did not come to rest in {PATIENCE_S} s")
    return result


def rsyslog(mix, directory):
    """rsyslog takes the lines by TCP into a file, as in bench.sh; returns seconds and CPU seconds."""
    binary = shutil.which("rsyslogd", path=os.environ["PATH"] + ":/usr/sbin")
    if not binary or mix.is_json:
        return None
    port, out = free_port(), directory / "rsyslog.out"
    (directory / "rsyslog.conf").write_text(
        f'global(workDirectory="{directory}" maxMessageSize="64k")\n'
        'module(load="imtcp")\n'
        'template(name="raw" type="string" string="%rawmsg%\\n")\n'
        f'input(type="imtcp" address="127.0.0.1" port="{port}")\n'
        f'action(type="omfile" file="{out}" template="raw")\n'
    )
    log = open(directory / "rsyslog.log", "w")
    process = subprocess.Popen(
        [binary, "-n", "-f", directory / "rsyslog.conf", "-i", directory / "rsyslog.pid"], stdout=log, stderr=log
    )
    try:
        wait_listening(port)
        began = time.monotonic()
        send(mix, port)
        # rsyslog appends for a while after the last line was sent. It is done when its file has not grown for a second.
        size, changed = -1, time.monotonic()
        while time.monotonic() - changed < 1:
            time.sleep(0.05)
            if (now := out.stat().st_size if out.exists() else 0) != size:
                size, changed = now, time.monotonic()
        if size < mix.bytes:
            sys.exit(f"rsyslog wrote {size} of {mix.bytes} bytes; see {directory / 'rsyslog.log'}")
        return {"seconds": changed - began, "cpu_s": cpu_s(process.pid)}
    finally:
        process.terminate()
        process.wait()
        log.close()
        out.unlink(missing_ok=True)


# ---- queries ---------------------------------------------------------------------------------------------------------


def nonces():
    number = int(time.time() * 1000) % 10**9 * 1000
    while True:
        number += 1
        yield f"zq{number}xv"


NONCE = nonces()


def rg_count(mix, arguments):
    """The number of lines that ripgrep counts."""
    command = ["rg", "--no-config", "-j", RG_THREADS, "--no-filename", "-c", *arguments, *map(str, mix.files)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode > 1:
        sys.exit(f"{command} failed")
    return sum(map(int, done.stdout.split()))


def timed(work, pid=None):
    """Seconds that it takes, the processor seconds of a process meanwhile, and its result."""
    # The clock of the processor time of all threads of another process.
    clock = (~pid << 3) | 2 if pid else time.CLOCK_PROCESS_CPUTIME_ID
    cpu_before, began = time.clock_gettime(clock), time.perf_counter()
    result = work()
    return time.perf_counter() - began, time.clock_gettime(clock) - cpu_before, result


NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


def answer_of(query, text):
    """The part of an answer in which the peers must agree: rows of names and values, in an order of their own, or their number."""
    rows = [json.loads(line) for line in text.splitlines() if line]
    if error := next((row["_error"] for row in rows if "_error" in row), None):
        return f"error: {error}"
    if query.compare == peers_shapes.ANY:
        return None
    if query.compare == peers_shapes.COUNT:
        return len(rows)
    wanted = None if query.compare in (peers_shapes.ALL, peers_shapes.NEAR) else query.compare.split()
    # Rows with equal values may come in any order, and an empty value is as good as none.
    shown = lambda row: [[name, plain(row[name])] for name in sorted(row) if row[name] and (wanted is None or name in wanted)]
    return sorted(map(shown, rows))


def plain(value):
    """A value as both peers write it: times without zeros at their end, numbers of nine digits."""
    if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value):
        return re.sub(r"\.?0*Z$", "Z", value) if "." in value else value
    if NUMBER.fullmatch(value):
        return f"{float(value):.9g}"
    return value


def agree(query, one, other):
    if query.compare != peers_shapes.NEAR or not (isinstance(one, list) and isinstance(other, list)):
        return one == other
    flat = lambda rows: [value for row in rows for _, value in row]
    # The order of rows follows from the numbers, so these are compared by their sizes.
    numbers = lambda rows: sorted(float(value) for value in flat(rows) if NUMBER.fullmatch(value))
    texts = lambda rows: sorted(value for value in flat(rows) if not NUMBER.fullmatch(value))
    pairs = list(zip(numbers(one), numbers(other), strict=False))
    near = all(abs(a - b) <= NEAR_SHARE * max(abs(a), abs(b)) for a, b in pairs)
    return near and texts(one) == texts(other) and len(pairs) == len(numbers(one)) == len(numbers(other))


def runs_left(times, rounds_over):
    """Whether a query with these times so far runs once more."""
    if rounds_over:
        return not times
    used = sum(times)
    return len(times) < (RUNS_MAX if used < RUNS_S else RUNS_MIN if used < RUNS_SLOW_S else 1)


def run_queries(mix, queries, peers, with_rg, window_s):
    """Runs the queries in rounds, of which none but the first begins after `window_s`; returns times by peer and query, and answers."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    answers = {peer.name: {} for peer in peers}
    watch, began = Others(*peers), time.monotonic()
    for number in range(RUNS_MAX):
        over = number > 0 and time.monotonic() - began > window_s
        for peer in peers:
            peer.connect()
        for query in queries:
            for peer in peers[:: 1 if number % 2 else -1]:
                found = times[peer.name][query.name]
                if (query.own and not isinstance(peer, Loginson)) or not runs_left(found, over):
                    continue
                logsql = query.logsql.replace("NONCE", next(NONCE))
                seconds, cpu_seconds, text = timed(lambda: peer.query(logsql, query.limit), peer.pid)
                found.append(seconds)
                times[f"{peer.name} CPU"][query.name].append(cpu_seconds)
                answers[peer.name][query.name] = answer_of(query, text)
            if with_rg and query.rg and runs_left(found := times["ripgrep"][query.name], over):
                arguments = [word.replace("NONCE", next(NONCE)) for word in query.rg]
                found.append(timed(lambda: rg_count(mix, arguments))[0])
    return times, answers, watch.cores()


def duckdb_times(peer, queries, directory):
    """The times of DuckDB over Parquet that the server exports; none where neither Python nor scripts/test-deps.sh's venv has it."""
    venv = os.environ.get("LOGINSON_PARQUET_VENV", pathlib.Path.home() / ".cache/loginson/parquet-venv")
    sys.path += map(str, pathlib.Path(venv).glob("lib/python3*/site-packages"))
    try:
        import duckdb
    except ImportError:
        note("    DuckDB is left out: its Python module is not installed")
        return {}
    file = directory / "lines.parquet"
    address = f"http://{peer.address[0]}:{peer.address[1]}/api/v1/export?query=*&format=parquet"
    urllib.request.urlretrieve(address, file)
    found = collections.defaultdict(list)
    with duckdb.connect() as database:
        database.execute(f"set threads = {RG_THREADS}")
        database.execute(f"create view lines as select * from read_parquet('{file}')")
        for query in queries:
            while query.sql and runs_left(found[query.name], False):
                found[query.name].append(timed(lambda: database.execute(query.sql).fetchall())[0])
    file.unlink()
    return {name: times for name, times in found.items() if times}


def measure(name, size_gb, directory, files):
    """Measures all numbers of a mix of a size."""
    note(f"{name}: making {size_gb:g} GB; load average {os.getloadavg()[0]:.2f}")
    mix = peers_data.make(name, directory, files, size_gb * 1e9, SEED)
    if mix is None:
        note(f"{name}: the sample files have no such lines")
        return None
    words = peers_words.choose(mix, SEED, lambda arguments: rg_count(mix, arguments))
    queries = [query for query in peers_shapes.of(mix, words) if SHAPES.search(query.name)]
    result = {"mix": f"{name} {size_gb:g} GB", "lines": mix.lines, "bytes": mix.bytes, "seed": SEED, "states": STATES}
    result |= {"ingest": {}, "times": {}, "answers": {}, "wrong": [], "others_cores": {}}
    result |= {"queries": {query.name: query.logsql for query in queries}, "ripgrep": {query.name: query.rg for query in queries}}
    exact = {query.name: rg_count(mix, query.rg_exact or query.rg) for query in queries if query.rg}

    def state(state, peers, with_rg=False, window_s=PATIENCE_S):
        key = "+".join(peer.name for peer in peers)
        if with_rg:
            wait_quiet(*peers)
        began = time.monotonic()
        times, answers, others = run_queries(mix, queries, peers, with_rg, window_s)
        result["others_cores"][f"{state} {key}"] = others
        for peer, found in times.items():
            result["times"][f"{state} {peer}"] = found
        for peer, found in answers.items():
            result["answers"][f"{state} {peer}"] = found
        warning = "; too much, measure this mix again" if others > QUIET_CORES else ""
        note(f"    {state} {key}: {time.monotonic() - began:.0f} s; other processes used {others:.2f} cores{warning}")

    with victorialogs(directory) as peer:
        with loginson(directory) as own:
            for one in (own, peer):
                result["ingest"][one.name] = ingest(one, mix)
            state("sealed", [own, peer], with_rg=True)
            for one in (own, peer):
                result["ingest"][one.name]["memory_peak_queried_bytes"] = one.memory_peak_bytes()
            result["times"]["sealed DuckDB"] = duckdb_times(own, queries, directory)
        if "new" in STATES or "default" in STATES:
            with loginson(directory) as own:
                done = take_anew(own, mix, result, state)
                if "default" in STATES:
                    time.sleep(max(0.0, DEFAULT_S - (time.monotonic() - done)))
                    state("default", [own, peer])
                    result["others_cores"]["end of default, s"] = time.monotonic() - done
    if "new" in STATES:
        with victorialogs(directory) as peer:
            take_anew(peer, mix, result, state)
    result["ingest"]["rsyslog"] = rsyslog(mix, directory) if "new" in STATES else None
    for path in mix.files:
        path.unlink()
    compare(result, queries, exact)
    return result


def take_anew(peer, mix, result, state):
    """A new server takes the lines, and answers the queries of the state `new`; returns when it had taken them."""
    wait_quiet(peer)
    result["ingest"][peer.name]["seconds_again"] = take(peer, mix)
    done = time.monotonic()
    if "new" in STATES:
        time.sleep(NEW_S)
        state("new", [peer], window_s=NEW_WINDOW_S)
        result["others_cores"][f"end of new {peer.name}, s"] = time.monotonic() - done
    return done


def compare(result, queries, exact):
    """Compares every answer with that of VictoriaLogs at rest, and with ripgrep where it can count the same."""
    for query in queries:
        right = result["answers"]["sealed VictoriaLogs"].get(query.name)
        for key, answers in result["answers"].items():
            found = answers.get(query.name)
            if not agree(query, found, right) and not query.own or str(found).startswith("error"):
                result["wrong"].append([query.name, f"{result['mix']}, {key}: {short(found)}, not {short(right)}: {query.logsql}"])
        counted = [[["n", f"{exact[query.name]:.9g}"]]] if query.name in exact else right
        if counted != right:
            note(f"    ripgrep counts {exact[query.name]}, VictoriaLogs {short(right)}: {query.logsql}")
    result["ripgrep_counts"] = exact
    for name, text in result["wrong"]:
        note(f"    different: {name}: {text}")


def short(answer):
    text = json.dumps(answer)
    return text if len(text) < 200 else text[:200] + "…"


def main():
    if not shutil.which("rg"):
        sys.exit("ripgrep is one of the peers; install it: apt-get install ripgrep")
    names = os.environ.get("PEERS_MIXES", USUAL_MIXES).replace(",", " ").split()
    names = peers_data.MIXES if names == ["every"] else names
    if unknown := [name for name in names if name not in peers_data.MIXES]:
        sys.exit(f"no such mix: {', '.join(unknown)}; the mixes are {', '.join(peers_data.MIXES)}")
    if unknown := [name for name in STATES if name not in peers_report.STATES] or "sealed" not in STATES:
        states = ", ".join(peers_report.STATES)
        sys.exit(f"PEERS_STATES names some of {states}, and always `sealed`, whose answers are those that the others must have")
    base = pathlib.Path(os.environ.get("BENCH_DIR", pathlib.Path.home() / ".cache/loginson"))
    out = pathlib.Path(os.environ.get("PEERS_OUT", base / f"peers-{datetime.now():%Y%m%d-%H%M%S}"))
    base.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    note(f"raw numbers go to {out}")
    files, left_out = peers_data.corpus_files(os.environ.get("PEERS_CORPUS", ROOT / "testdata/corpora"))
    if left_out:
        note(f"left out, as their lines are JSON: {', '.join(map(str, left_out))}")
    results = []
    for size_gb in SIZES_GB:
        for name in names:
            raw = out / f"{name}-{size_gb:g}.json"
            if raw.exists():
                results.append(json.loads(raw.read_text()))
                if [results[-1]["seed"], results[-1]["states"]] != [SEED, STATES]:
                    sys.exit(f"{raw} was measured with another seed or other states; name another directory by PEERS_OUT")
                continue
            with tempfile.TemporaryDirectory(prefix="peers.", dir=base) as directory:
                if result := measure(name, size_gb, pathlib.Path(directory), files):
                    raw.write_text(json.dumps(result, indent=1))
                    results.append(result)
    if not results:
        sys.exit("nothing was measured")
    print(peers_report.text(results))
    # A quick look does not replace the page.
    if STATES == list(peers_report.STATES) and not SHAPES.pattern:
        peers_report.write_page(results)
    print(f"\nraw numbers: {out}")
    if wrong := [f"{name}: {text}" for result in results for name, text in result["wrong"]]:
        sys.exit("answers differ:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
