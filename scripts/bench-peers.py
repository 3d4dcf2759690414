#!/usr/bin/env python3
"""Measures Loginson beside VictoriaLogs, ripgrep and rsyslog on mixes of sample lines, and writes docs/benchmarks/peers.md.

    make bench-peers                                      everything, 1 GB a mix: more than an hour, 4 GB of disk
    PEERS_MIXES=all,one-host PEERS_GB=0.2 make bench-peers   some mixes; less data
    PEERS_CORPUS=DIR make bench-peers                     the log files of a directory instead of testdata/corpora
    PEERS_OUT=DIR make bench-peers                        where raw numbers go; mixes that it has are not measured again
    PEERS_RUNS=5 PEERS_SEED=1 PEERS_RG_THREADS=2          runs of a query, the seed of mixes and queries, threads of ripgrep

peers_data.py makes the mixes and chooses what is searched for. For each mix:

1. Loginson, then VictoriaLogs, each with default settings and an empty directory, take the lines as fast as they can; both are left
   until their background work is done. CPU time and size on disk are those of this part, in which nothing is queried but counts of
   lines. rsyslog writes the lines of syslog mixes to a file.
2. `sealed`: both answer the queries in turn, and ripgrep counts what it can, all from memory.
3. `new` and `default`: each takes the lines anew with nothing beside it, and answers 1 s after the last line was counted; Loginson once
   more after 60 s. `new` is compared with VictoriaLogs after ingest, the others with VictoriaLogs at rest.

Each run of a query names another word that no line has, so no cache of answers helps. Answers of both must agree, or the program ends
with an error when it has written its tables. Standard library only.
"""

import collections
import contextlib
import datetime
import http.client
import json
import math
import os
import pathlib
import re
import resource
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

os.environ["TZ"] = "UTC"
import peers_data
from benchlib import BIN, ROOT, TICKS, Client, Server, cpu_s, note, table, wait_listening

VICTORIALOGS = os.environ["VICTORIALOGS_BIN"]
RUNS = int(os.environ.get("PEERS_RUNS", "5"))
BYTES = float(os.environ.get("PEERS_GB", "1")) * 1e9
SEED = int(os.environ.get("PEERS_SEED", "1"))
RG_THREADS = os.environ.get("PEERS_RG_THREADS", "2")
PAGE = ROOT / "docs/benchmarks/peers.md"
# Size of a request with JSON lines. Requests are sent one at a time over one connection.
BODY_BYTES = 16 << 20
# Seconds after ingest at which the queries `new` and `default` begin.
NEW_S, DEFAULT_S = 1, 60
# A server is at rest when it used less than REST_CORES for REST_S seconds. Nothing is awaited for longer than PATIENCE_S.
REST_CORES, REST_S, PATIENCE_S = 0.03, 15, 1200
# The machine is quiet while other processes use less than QUIET_CORES.
QUIET_CORES, QUIET_PATIENCE_S = 0.1, 60
# State of Loginson → the state of VictoriaLogs that it is compared with.
STATES = {"new": "new", "default": "sealed", "sealed": "sealed"}


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
        parameters = {"query": logsql} | ({"limit": limit} if limit else {})
        return self.client.get("/select/logsql/query?" + urllib.parse.urlencode(parameters))

    def count(self):
        rows = self.query("* | stats count() n").splitlines()
        return int(json.loads(rows[0])["n"]) if rows else 0

    def cpu_s(self):
        return cpu_s(self.pid)

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
    command += [f"-syslog.listenAddr.tcp=127.0.0.1:{syslog_port}", "-syslog.timezone=UTC"]
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
    fields = {"_stream_fields": "hostname,app_name", "_time_field": mix.time_field, "_msg_field": mix.msg_field}
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


def timed(work):
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def answer_of(query, text):
    """The part of an answer in which the peers must agree."""
    rows = [json.loads(line) for line in text.splitlines() if line]
    if any("_error" in row for row in rows):
        return text
    if query.kind == "number":
        return int(rows[0]["n"])
    if query.kind == "groups":
        return sorted([row.get("app_name", ""), int(row["n"])] for row in rows)
    if query.kind == "hits":
        # Values with equal hits may be ordered in any way, so only the hits are compared.
        return sorted((int(row["hits"]) for row in rows), reverse=True)
    if query.kind == "times":
        return sorted(re.sub(r"\.?0*Z$", "Z", row["_time"]) if "." in row["_time"] else row["_time"] for row in rows)
    return len(rows)


def run_queries(mix, queries, peers, with_rg):
    """Runs each query RUNS times, in rounds; returns the times of each peer by query, and the answers."""
    times = {peer.name: collections.defaultdict(list) for peer in peers} | {"ripgrep": collections.defaultdict(list)}
    answers = {peer.name: {} for peer in peers}
    watch = Others(*peers)
    for number in range(RUNS):
        for peer in peers:
            peer.connect()
        for query in queries:
            for peer in peers[:: 1 if number % 2 else -1]:
                logsql = query.logsql.replace("NONCE", next(NONCE))
                seconds, text = timed(lambda: peer.query(logsql, query.limit))
                times[peer.name][query.name].append(seconds)
                answers[peer.name][query.name] = answer_of(query, text)
            if with_rg and query.rg:
                arguments = [word.replace("NONCE", next(NONCE)) for word in query.rg]
                times["ripgrep"][query.name].append(timed(lambda: rg_count(mix, arguments))[0])
    return times, answers, watch.cores()


def measure(name, directory, files):
    """Measures all numbers of a mix."""
    note(f"{name}: making {BYTES / 1e9:g} GB; load average {os.getloadavg()[0]:.2f}")
    mix = peers_data.make(name, directory, files, BYTES, SEED)
    if mix is None:
        note(f"{name}: the sample files have no such lines")
        return None
    queries = peers_data.queries(mix, SEED, lambda arguments: rg_count(mix, arguments))
    result = {"mix": name, "lines": mix.lines, "bytes": mix.bytes, "runs": RUNS, "seed": SEED, "bytes_wanted": BYTES}
    result |= {"ingest": {}, "times": {}, "answers": {}}
    result |= {"queries": {query.name: query.logsql for query in queries}, "ripgrep": {query.name: query.rg for query in queries}}
    result |= {"others_cores": {}, "wrong": []}
    exact = {query.name: rg_count(mix, query.rg_exact or query.rg) for query in queries if query.rg}

    def state(state, peers, with_rg=False):
        key = "+".join(peer.name for peer in peers)
        if with_rg:
            wait_quiet(*peers)
        times, answers, others = run_queries(mix, queries, peers, with_rg)
        result["others_cores"][f"{state} {key}"] = others
        for peer, found in times.items():
            if found:
                result["times"][f"{state} {peer}"] = found
        for peer, found in answers.items():
            result["answers"][f"{state} {peer}"] = found
        warning = "; too much, measure this mix again" if others > QUIET_CORES else ""
        note(f"    {state} {key}: other processes used {others:.2f} cores{warning}")

    with loginson(directory) as own, victorialogs(directory) as peer:
        for one in (own, peer):
            result["ingest"][one.name] = ingest(one, mix)
        state("sealed", [own, peer], with_rg=True)
    for start, later in ((loginson, True), (victorialogs, False)):
        with start(directory) as one:
            wait_quiet(one)
            result["ingest"][one.name]["seconds_again"] = take(one, mix)
            done = time.monotonic()
            time.sleep(NEW_S)
            state("new", [one])
            result["others_cores"][f"end of new {one.name}, s"] = time.monotonic() - done
            if later:
                time.sleep(max(0.0, DEFAULT_S - (time.monotonic() - done)))
                state("default", [one])
                result["others_cores"][f"end of default {one.name}, s"] = time.monotonic() - done
    result["ingest"]["rsyslog"] = rsyslog(mix, directory)
    for path in mix.files:
        path.unlink()
    # Every answer is compared with that of VictoriaLogs at rest, and with ripgrep where it can count the same.
    for query in queries:
        right = result["answers"]["sealed VictoriaLogs"][query.name]
        for key, answers in result["answers"].items():
            if answers[query.name] != right:
                result["wrong"].append(f"{name}, {query.name}, {key}: {short(answers[query.name])}, not {short(right)}: {query.logsql}")
        if query.name in exact and exact[query.name] != right:
            note(f"    ripgrep counts {exact[query.name]}, VictoriaLogs {right}: {query.logsql}")
    result["ripgrep_counts"] = exact
    for line in result["wrong"]:
        note(f"    different: {line}")
    return result


def short(answer):
    text = json.dumps(answer)
    return text if len(text) < 200 else text[:200] + "…"


# ---- report ----------------------------------------------------------------------------------------------------------


def ms(seconds):
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def median(result, state, peer, query):
    found = result["times"].get(f"{state} {peer}", {}).get(query)
    return statistics.median(found) if found else None


def worst_and_mean(ratios):
    """The cells for ratios by mix: the worst with its mix, and the geometric mean."""
    if not ratios:
        return ["", ""]
    name = max(ratios, key=ratios.get)
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    return [f"{ratios[name]:.2f} ({name})", f"{mean:.2f}"]


def ratios(results, state, query, peer, peer_state):
    own = {result["mix"]: median(result, state, "Loginson", query) for result in results}
    theirs = {result["mix"]: median(result, peer_state, peer, query) for result in results}
    return {name: own[name] / theirs[name] for name in own if own[name] and theirs[name]}


def query_table(results, state, peer_state):
    shown = next((result for result in results if result["mix"] == "all"), results[0])
    head = ["query", "worst ratio to VictoriaLogs", "mean ratio", "worst ratio to ripgrep", "mean ratio"]
    head += [f"in `{shown['mix']}`: Loginson", "VictoriaLogs", "ripgrep"]
    names = list(dict.fromkeys(name for result in results for name in result["queries"]))
    wrong = {tuple(line.split(", ", 2)[:2]) for result in results for line in result["wrong"]}
    rows = []
    for name in names:
        cells = worst_and_mean(ratios(results, state, name, "VictoriaLogs", peer_state))
        cells += worst_and_mean(ratios(results, state, name, "ripgrep", "sealed"))
        example = next((result for result in (shown, *results) if name in result["queries"]))
        medians = [(state, "Loginson"), (peer_state, "VictoriaLogs"), ("sealed", "ripgrep")]
        found = [median(example, of, peer, name) for of, peer in medians]
        cells += ["" if seconds is None else ms(seconds) for seconds in found]
        if example is not shown:
            cells[-3] += f" (`{example['mix']}`)"
        rows.append([name + (" †" if any(query == name for _, query in wrong) else ""), *cells])
    return head, rows


def ingest_tables(results):
    """The tables of time and CPU, and of size on disk."""
    cpu_head = ["mix", "lines", "Loginson, s", "VictoriaLogs, s", "ratio", "CPU s/GB: Loginson taken", "sealed"]
    cpu_head += ["VictoriaLogs taken", "at rest", "rsyslog"]
    disk_head = ["mix", "raw", "Loginson after 60 s", "at rest", "VictoriaLogs after 60 s", "at rest", "ratio after 60 s", "at rest"]
    cpu_rows, disk_rows = [], []
    for result in results:
        own, peer, daemon = (result["ingest"][name] for name in ("Loginson", "VictoriaLogs", "rsyslog"))
        gb = result["bytes"] / 1e9
        took = [statistics.median([one["seconds"], one["seconds_again"]]) for one in (own, peer)]
        row = [result["mix"], result["lines"], f"{took[0]:.2f}", f"{took[1]:.2f}", f"{took[0] / took[1]:.2f}"]
        row += [f"{one[key] / gb:.1f}" for one in (own, peer) for key in ("cpu_taken_s", "cpu_rest_s")]
        cpu_rows.append([*row, f"{daemon['cpu_s'] / gb:.1f}" if daemon else ""])
        sizes = [one[key] for one in (own, peer) for key in ("disk_default_bytes", "disk_rest_bytes")]
        row = [result["mix"], f"{result['bytes'] / 1e6:.0f} MB", *(f"{size / 1e6:.1f} MB" for size in sizes)]
        disk_rows.append([*row, f"{sizes[0] / sizes[2]:.2f}", f"{sizes[1] / sizes[3]:.2f}"])
    return (cpu_head, cpu_rows), (disk_head, disk_rows)


def write(results):
    """Replaces the tables of the page, between their comments."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    version = subprocess.run([BIN, "--version"], stdout=subprocess.PIPE, text=True).stdout.split()[1]
    chosen = {name: value for name, value in os.environ.items() if name.startswith("PEERS_") and name != "PEERS_OUT"}
    if "PEERS_CORPUS" in chosen:
        chosen["PEERS_CORPUS"] = pathlib.Path(chosen["PEERS_CORPUS"]).name
    command = "".join(f"{name}={shlex.quote(value)} " for name, value in sorted(chosen.items())) + "make bench-peers"
    seen = [value for result in results for key, value in result["others_cores"].items() if not key.startswith("end")]
    seen += [value for result in results for one in result["ingest"].values() for value in (one or {}).get("others_cores", [])]
    others = max(seen)
    measured = f"{os.cpu_count()} cores, {memory:.0f} GiB, {datetime.date.today()}, version {version}, {RUNS} runs"
    measured += f", {BYTES / 1e9:g} GB a mix"
    measured += f", {len(results)} of {len(peers_data.MIXES)} mixes; other processes used {others:.2f} of a core at most; `{command}`"
    page, tables = PAGE.read_text(), []
    cpu, disk = ingest_tables(results)
    parts = [("ingest", *cpu), ("disk", *disk)]
    parts += [(state, *query_table(results, state, peer_state)) for state, peer_state in STATES.items()]
    for part, head, rows in parts:
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        block = f"{begin}\n{measured}\n\n{table(head, rows)}\n{end}"
        page = page[: page.index(begin)] + block + page[page.index(end) + len(end) :]
        tables.append(f"{part}\n\n{table(head, rows)}")
    PAGE.write_text(page)
    return "\n\n".join(tables)


def main():
    if not shutil.which("rg"):
        sys.exit("ripgrep is one of the peers; install it: apt-get install ripgrep")
    names = os.environ.get("PEERS_MIXES", ",".join(peers_data.MIXES)).replace(",", " ").split()
    if unknown := [name for name in names if name not in peers_data.MIXES]:
        sys.exit(f"no such mix: {', '.join(unknown)}; the mixes are {', '.join(peers_data.MIXES)}")
    base = pathlib.Path(os.environ.get("BENCH_DIR", pathlib.Path.home() / ".cache/loginson"))
    out = pathlib.Path(os.environ.get("PEERS_OUT", base / f"peers-{datetime.datetime.now():%Y%m%d-%H%M%S}"))
    base.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    note(f"raw numbers go to {out}")
    files, left_out = peers_data.corpus_files(os.environ.get("PEERS_CORPUS", ROOT / "testdata/corpora"))
    if left_out:
        note(f"left out, as their lines are JSON: {', '.join(map(str, left_out))}")
    results = []
    for name in names:
        raw = out / f"{name}.json"
        if raw.exists():
            results.append(json.loads(raw.read_text()))
            if [results[-1][key] for key in ("runs", "seed", "bytes_wanted")] != [RUNS, SEED, BYTES]:
                sys.exit(f"{raw} was measured with other runs, seed or size; name another directory by PEERS_OUT")
            continue
        with tempfile.TemporaryDirectory(prefix="peers.", dir=base) as directory:
            if result := measure(name, pathlib.Path(directory), files):
                raw.write_text(json.dumps(result, indent=1))
                results.append(result)
                write(results)
    if not results:
        sys.exit("nothing was measured")
    print(write(results))
    print(f"\nraw numbers: {out}")
    if wrong := [line for result in results for line in result["wrong"]]:
        sys.exit("answers differ:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
