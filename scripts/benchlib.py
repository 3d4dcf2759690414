"""Shared code of the benchmarks: starts programs, sends requests to servers, and writes tables into pages.

Each case runs in turn with its limit or peer, BENCH_PAIRS times. Nothing else should run on the machine. The tables give medians
and their ratio. The table of each part stands in the page between two comments; text around them is kept.

    BENCH_PARTS="a b"    some parts; the tables of the others stay as they are
    BENCH_PAIRS=5        more pairs
    BENCH_DIR=DIR        where data is made, instead of ~/.cache/loginson

Standard library only.
"""

import datetime
import http.client
import json
import os
import pathlib
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = os.environ["LOGINSON_BIN"]
# Its first argument names a benchmark of crates/bench; empty where a script needs none.
BENCH = os.environ.get("LOGINSON_BENCH", "")
PAIRS = int(os.environ.get("BENCH_PAIRS", "3"))
TICKS = os.sysconf("SC_CLK_TCK")


def report(line):
    """`name key=value …`, as every benchmark prints."""
    return {key: float(value) for key, value in (pair.split("=") for pair in line.split()[1:])}


def run(*command, **kwargs):
    """Runs a benchmark to its end; returns its last report."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True, **kwargs)
    return report(done.stdout.strip().splitlines()[-1])


def start(*command):
    """Starts a benchmark that listens; returns once it has printed its address (its first line)."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    process.first = process.stdout.readline()
    return process


def finish(process):
    """Waits for a benchmark that ends by itself; returns its last report."""
    lines = [process.first, *process.stdout.read().splitlines()]
    if process.wait() != 0:
        sys.exit(f"{process.args} failed")
    return report([line for line in lines if "=" in line][-1])


def wait_listening(port):
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)


def cpu_s(pid):
    """CPU seconds of a process so far, all its threads, user and system."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def threads_cpu_s(pid):
    """CPU seconds of the live threads of a process, by name. Threads whose names differ only by a number are added up."""
    threads = {}
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            name, fields = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except FileNotFoundError:
            continue
        name, fields = name.rstrip("-0123456789"), fields.split()
        threads[name] = threads.get(name, 0) + (int(fields[11]) + int(fields[12])) / TICKS
    return threads


class Client:
    """Sends requests on a connection that is kept, so that times do not include connecting. For one thread."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(*address)

    def request(self, method, path, body=None):
        """Sends a request; returns status and body."""
        if self.connection.sock is None:
            self.connection.connect()
            self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.request(method, path, body=body)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def get(self, path):
        status, body = self.request("GET", path)
        if status != 200:
            sys.exit(f"{path}: {status} {body[:300]}")
        return body

    def query(self, path, **parameters):
        return self.get(f"{path}?{urllib.parse.urlencode(parameters)}")


class Server:
    """Loginson on free ports, with an empty data directory, or with the directory `data`, which is not removed at the end."""

    def __init__(self, directory, *arguments, config="", command="serve", data=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="server.", dir=directory))
        ready = self.directory / "ready.json"
        settings = self.directory / "loginson.toml"
        settings.write_text(config)
        self.log = open(self.directory / "log", "w")
        listens = ["--http-listen", "127.0.0.1:0", "--syslog-tcp-listen", "127.0.0.1:0"]
        listens += ["--syslog-udp-listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [BIN, command, "--config", settings, "--data-dir", data or self.directory / "data", *listens]
            + ["--ready-file", ready, *arguments],
            stdout=self.log,
            stderr=self.log,
        )
        while not ready.exists():
            if self.process.poll() is not None:
                sys.exit((self.directory / "log").read_text())
            time.sleep(0.005)
        self.address = json.loads(ready.read_text())
        host, port = self.address["http"].rsplit(":", 1)
        self.http = (host, int(port))
        self.client = Client(self.http)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory)

    def get(self, path):
        return self.client.get(path)

    def query(self, path, **parameters):
        return self.client.query(path, **parameters)

    def metrics(self):
        samples = (line.rsplit(" ", 1) for line in self.get("/metrics").splitlines() if line[0] != "#")
        return {name: float(value) for name, value in samples}

    def kept(self, source):
        return self.metrics()[f'loginson_lines_kept_total{{source="{source}"}}']

    def received(self, source):
        return self.metrics()[f'loginson_lines_received_total{{source="{source}"}}']

    def dropped(self, source):
        prefix = f'loginson_lines_dropped_total{{source="{source}"'
        return sum(value for name, value in self.metrics().items() if name.startswith(prefix))

    def wait_kept(self, source, lines, patience_s=120):
        """Waits until `lines` lines are durable; returns the seconds it took. Fails when none became durable for `patience_s`."""
        began = last_change = time.monotonic()
        last = -1
        while (kept := self.kept(source)) < lines:
            now = time.monotonic()
            if kept != last:
                last, last_change = kept, now
            if now - last_change > patience_s:
                sys.exit(f"{lines - kept:.0f} of {lines} lines never became durable")
            time.sleep(0.005)
        if kept > lines or self.dropped(source) > 0:
            sys.exit(f"sent {lines} lines, {kept:.0f} were kept and {self.dropped(source):.0f} dropped")
        return time.monotonic() - began

    def wait_settled(self):
        """Waits until everything is parsed and no closed segment waits to be sealed."""
        while True:
            metrics = self.metrics()
            if metrics["loginson_parse_lag_lines"] == 0 and metrics["loginson_seal_lag_bytes"] == 0:
                return
            time.sleep(0.05)

    def cpu_s(self):
        return cpu_s(self.process.pid)


def pairs(*cases):
    """Runs the cases in turn, PAIRS times; returns the median of each."""
    results = [[] for _ in cases]
    for number in range(PAIRS):
        for result, case in zip(results, cases):
            result.append(case())
            note(f"    {number + 1}/{PAIRS} {getattr(case, 'name', '')} {result[-1]:.4g}")
    return [statistics.median(result) for result in results]


def note(text):
    print(text, file=sys.stderr, flush=True)


def sampled(server, seconds, step_s, *names):
    """Samples metrics every `step_s`; returns rows of time and values. The time is the middle between request and answer."""
    rows = []
    began = time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        metrics = server.metrics()
        rows.append([(now + time.monotonic()) / 2, *(metrics[name] for name in names)])
        time.sleep(max(0, step_s - (time.monotonic() - began) % step_s))
    return rows


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def settings():
    """The settings of this run that influence its numbers, as they are typed before the command."""
    omitted = ("BENCH_PARTS", "BENCH_PAIRS", "BENCH_DIR")
    chosen = {name: value for name, value in os.environ.items() if name.startswith("BENCH_") and name not in omitted}
    return "".join(f"{name}={shlex.quote(value)} " for name, value in sorted(chosen.items()))


def put(page_file, target, part, title, head, rows):
    """Replaces the table of a part in the page, between its two comments. The page names `make TARGET` as its command."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    version = subprocess.run([BIN, "--version"], stdout=subprocess.PIPE, text=True).stdout.split()[1]
    measured = f"{os.cpu_count()} cores, {memory:.0f} GiB, {datetime.date.today()}, version {version}, {PAIRS} pairs"
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    block = f"{begin}\n{measured}; `{settings()}BENCH_PARTS={part} make {target}`\n\n{table(head, rows)}\n{end}"
    page = page_file.read_text()
    if begin in page:
        page = page[: page.index(begin)] + block + page[page.index(end) + len(end) :]
    else:
        page = f"{page.rstrip()}\n\n## {title}\n\n{block}\n"
    page_file.write_text(page)


def main(page_file, target, parts):
    """Runs the wanted parts. `parts` maps a name to (function of a directory that returns head and rows, title)."""
    wanted = os.environ.get("BENCH_PARTS", " ".join(parts)).split()
    unknown = [part for part in wanted if part not in parts]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; the parts are {', '.join(parts)}")
    base = pathlib.Path(os.environ.get("BENCH_DIR", pathlib.Path.home() / ".cache/loginson"))
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench.", dir=base) as directory:
        for part in wanted:
            measure, title = parts[part]
            note(f"{title}; load average {os.getloadavg()[0]:.1f}")
            head, rows = measure(pathlib.Path(directory))
            print(f"\n{table(head, rows)}\n", flush=True)
            put(page_file, target, part, title, head, rows)
