"""Runs hostile inputs against the real binary, with honest senders beside them.

A case is a name and a function of the running server. It fails when what comes back is not what the case says, and the
whole run fails, with the case's name, when the process dies, when its memory passes the ceiling, or when `/health` does
not answer within some tries. In the end every line that an honest sender got acknowledged must be there, once.

Only the Python standard library is used: the corpus runs wherever the binary runs.
"""

import base64
import gzip
import http.client
import json
import os
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

# Resident memory of the process. Above it the case under way has failed.
CEILING_BYTES = 2 << 30
# One try to get an answer from /health, and tries in a row that may fail: a machine under load may miss some.
HEALTH_TRY_S = 5
HEALTH_TRIES_MAX = 6
# No case takes longer. What does has failed.
CASE_TIME_MAX_S = 180
# A process that aborts is gone within this time of the connection that it breaks.
DEATH_S = 2
# For what comes later than its cause: lines of syslog that are to be found, counters.
PATIENCE_S = 60
# A connection that is neither answered nor closed for this long is left open. The server waits half a minute for the rest of
# a head.
OPEN_S = 120


class Failed(Exception):
    """A case's expectation does not hold."""


class Dead(Exception):
    """The process ended, or its memory passed the ceiling: nothing further can be said."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.body)

    def rows(self):
        return [json.loads(line) for line in self.body.splitlines() if line.strip()]

    def __str__(self):
        return f"{self.status} {self.text()[:300]}"


class Server:
    """The real binary on free ports of loopback, with a directory of its own."""

    def __init__(self, binary, config=""):
        self.directory = tempfile.mkdtemp(prefix="loginson-hostile-")
        ready = os.path.join(self.directory, "ready.json")
        self.config_path = os.path.join(self.directory, "loginson.toml")
        # A table for the pipe `lookup`, which gives every line a long value.
        table = os.path.join(self.directory, "table.csv")
        with open(table, "w") as file:
            file.write("key,value\n*," + "y" * (1 << 10) + "\n")
        with open(self.config_path, "w") as file:
            file.write(f'{config}\n[[lookups]]\nname = "hostile"\nfile = "{table}"\nmatch = "wildcard"\n')
        self.log_path = os.path.join(self.directory, "log")
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            [
                binary, "serve", "--config", self.config_path,
                "--data-dir", os.path.join(self.directory, "data"),
                "--http-listen", "127.0.0.1:0", "--syslog-udp-listen", "127.0.0.1:0",
                "--syslog-tcp-listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0",
                "--ready-file", ready,
            ],
            stdout=subprocess.DEVNULL,
            stderr=self.log,
        )
        deadline = time.time() + PATIENCE_S
        while not os.path.exists(ready):
            if self.process.poll() is not None or time.time() > deadline:
                raise Dead("the server does not start: " + self.tail_of_log())
            time.sleep(0.05)
        time.sleep(0.05)
        with open(ready) as file:
            self.addresses = json.load(file)
        host, port = self.addresses["http"].rsplit(":", 1)
        self.http = (host, int(port))

    def address(self, name):
        host, port = self.addresses[name].rsplit(":", 1)
        return host, int(port)

    def tail_of_log(self):
        with open(self.log_path, "rb") as file:
            return file.read()[-2000:].decode("utf-8", "replace")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    # Memory.

    def memory(self):
        """Resident bytes now, and at most since the last call of reset_peak."""
        found = {}
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                for line in file:
                    if line.startswith(("VmRSS:", "VmHWM:")):
                        name, value = line.split(":")
                        found[name] = int(value.split()[0]) << 10
        except OSError:
            return 0, 0
        return found.get("VmRSS", 0), found.get("VmHWM", 0)

    def cpu_s(self):
        """Seconds of processor time that it used so far."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def reset_peak(self):
        try:
            with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass

    # HTTP.

    def request(self, method, path, body=None, headers=None, timeout=CASE_TIME_MAX_S):
        connection = http.client.HTTPConnection(*self.http, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def get(self, path, headers=None, timeout=CASE_TIME_MAX_S, **params):
        return self.request("GET", with_params(path, params), headers=headers, timeout=timeout)

    def form(self, path, patience_s=CASE_TIME_MAX_S, **params):
        """The same with the parameters in a form, which may be longer than a request's head."""
        body = urllib.parse.urlencode(pairs(params)).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, body, headers, patience_s)

    def post(self, path, body, headers=None, timeout=CASE_TIME_MAX_S):
        return self.request("POST", path, body, headers, timeout)

    def count(self, query):
        rows = self.form("/select/logsql/query", query=f"{query} | count() as n").rows()
        return int(rows[0]["n"])

    def wait_for(self, what, look, patience_s=PATIENCE_S):
        deadline = time.time() + patience_s
        while True:
            value = look()
            if value:
                return value
            expect(time.time() < deadline, f"{what}: waited for {patience_s} s, last seen {value!r}")
            time.sleep(0.1)

    def raw(self, data, half_close=False):
        """Sends bytes to the HTTP port; see `exchange`."""
        return exchange(self.http, data, half_close)


def pairs(params):
    found = []
    for name, value in params.items():
        values = value if isinstance(value, list) else [value]
        found += [(name, one) for one in values]
    return found


def with_params(path, params):
    if not params:
        return path
    return path + ("&" if "?" in path else "?") + urllib.parse.urlencode(pairs(params))


def exchange(address, data, half_close=False):
    """Sends bytes; what comes back, and whether the connection ended. Of an answer of HTTP only the head is waited for."""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        try:
            for begin in range(0, len(data), 1 << 16):
                connection.sendall(data[begin : begin + (1 << 16)])
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # It was closed before all was sent; what comes back says why.
        connection.settimeout(OPEN_S)
        found = b""
        while len(found) < 1 << 20 and not (found.startswith(b"HTTP/") and b"\r\n\r\n" in found):
            try:
                more = connection.recv(1 << 16)
            except socket.timeout:
                return found, False
            except OSError:
                return found, True
            if not more:
                return found, True
            found += more
        return found, False


def status_of(raw):
    """The status of an answer in bytes; none where the connection was just closed."""
    found = re.match(rb"HTTP/1\.[01] (\d{3})", raw)
    return int(found.group(1)) if found else None


def gzipped(data, level=9):
    return gzip.compress(data, level)


def basic(number):
    return base64.b64encode(number.to_bytes(16, "big")).decode()


# Honest senders.


class Sender(threading.Thread):
    """Sends numbered lines until told to end; `acknowledged` are those that must be there, once."""

    def __init__(self, server, kind):
        super().__init__(daemon=True, name=f"honest {kind}")
        self.server, self.kind = server, kind
        self.acknowledged = []
        self.number = 0
        self.ended = threading.Event()
        self.refused = 0
        self.failure = None

    def line(self):
        self.number += 1
        return f"honest {self.kind} {self.number:07}"

    def run(self):
        try:
            self.send_all()
        except Exception as error:  # Whatever it is, the run has to tell it.
            self.failure = f"{type(error).__name__}: {error}"

    def wait(self, seconds):
        return self.ended.wait(seconds)


class HttpSender(Sender):
    """Posts a line at a time, and posts it again until it is acknowledged."""

    def send_all(self):
        while not self.ended.is_set():
            line = self.line()
            while True:
                try:
                    answer = self.server.post("/insert/lines", line.encode(), timeout=30)
                    if answer.status == 200:
                        break
                    self.refused += 1
                except OSError:
                    # Whether it was kept is not known. It may be there twice, so it is not sent again.
                    line = self.line()
                    self.refused += 1
                if self.wait(0.2):
                    return
            self.acknowledged.append(line)
            self.wait(0.05)


class JsonSender(HttpSender):
    def send_all(self):
        while not self.ended.is_set():
            line = self.line()
            body = gzipped(json.dumps({"_msg": line, "host": "honest"}).encode())
            headers = {"Content-Encoding": "gzip"}
            try:
                answer = self.server.post("/insert/jsonline", body, headers, timeout=30)
                if answer.status == 200:
                    self.acknowledged.append(line)
                else:
                    self.refused += 1
            except OSError:
                self.refused += 1
            self.wait(0.1)


class TcpSender(Sender):
    """One connection of syslog for the whole run. It must not break."""

    def send_all(self):
        with socket.create_connection(self.server.address("syslog_tcp"), 30) as connection:
            connection.settimeout(PATIENCE_S)
            while not self.ended.is_set():
                line = self.line()
                text = f"<13>1 2026-01-31T12:00:00Z honest app - - - {line}\n"
                connection.sendall(text.encode())
                self.acknowledged.append(line)
                self.wait(0.03)


class Health(threading.Thread):
    """Asks for /health all the time."""

    def __init__(self, server):
        super().__init__(daemon=True, name="health")
        self.server = server
        self.ended = threading.Event()
        self.failed_in_row = 0
        self.worst = 0
        self.answers = 0

    def run(self):
        while not self.ended.is_set():
            try:
                healthy = self.server.get("/health", timeout=HEALTH_TRY_S).status == 200
            except (OSError, http.client.HTTPException):
                healthy = False
            self.failed_in_row = 0 if healthy else self.failed_in_row + 1
            self.worst = max(self.worst, self.failed_in_row)
            self.answers += healthy
            self.ended.wait(0.25)


class Watch(threading.Thread):
    """Samples memory while a case runs, and ends the process when it passes the ceiling: the machine has to live on."""

    def __init__(self, server, ceiling):
        super().__init__(daemon=True, name="memory")
        self.server, self.ceiling = server, ceiling
        self.ended = threading.Event()
        self.passed = 0

    def run(self):
        while not self.ended.wait(0.02):
            resident, _ = self.server.memory()
            if resident > self.ceiling:
                self.passed = resident
                self.server.process.kill()
                return


class Case:
    def __init__(self, name, run, fast=False, time_max_s=CASE_TIME_MAX_S):
        self.name, self.run, self.fast, self.time_max_s = name, run, fast, time_max_s


class Corpus:
    """The cases, in the order in which they run."""

    def __init__(self):
        self.cases = []

    def add(self, name, run, fast=False, time_max_s=CASE_TIME_MAX_S):
        assert all(case.name != name for case in self.cases), f"{name} is there twice"
        self.cases.append(Case(name, run, fast, time_max_s))


def run_case(server, case, health, watch):
    """Why it failed, or none; and the peak of memory, bytes."""
    server.reset_peak()
    health.worst = health.failed_in_row
    outcome = []

    def work():
        try:
            case.run(server)
            outcome.append(None)
        except Failed as failure:
            outcome.append(str(failure))
        except Exception as error:
            if isinstance(error, (OSError, http.client.HTTPException)):
                # The process may be about to end; then this case is the one that ended it.
                time.sleep(DEATH_S)
            outcome.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=work, daemon=True, name=case.name)
    thread.start()
    thread.join(case.time_max_s)
    peak = max(server.memory()[1], watch.passed)
    if watch.passed or peak > watch.ceiling:
        raise Dead(f"memory passed the ceiling: {peak >> 20} MiB")
    if server.process.poll() is not None:
        raise Dead(f"the process ended ({server.process.returncode}): {server.tail_of_log()}")
    if not outcome:
        return f"it hangs: no end within {case.time_max_s} s", peak
    if outcome[0] is None and health.worst > HEALTH_TRIES_MAX:
        return f"/health did not answer {health.worst} times in a row", peak
    return outcome[0], peak


def check_honest(server, senders):
    """Every acknowledged line is there, once."""
    failures = []
    for sender in senders:
        if sender.failure:
            failures.append(f"{sender.name}: {sender.failure}")
        wanted = set(sender.acknowledged)
        prefix = f"honest {sender.kind}"

        def found():
            query = f'"{prefix}" | fields _msg'
            try:
                answer = server.form("/select/logsql/query", query=query)
            except (http.client.HTTPException, OSError) as broken:
                # An answer that its query does not end breaks off. The query is asked again.
                time.sleep(DEATH_S)
                if server.process.poll() is not None:
                    raise Dead(f"the process ended ({server.process.returncode}), or was ended at the ceiling")
                print(f"the answer about {prefix} breaks off: {broken}; {server.tail_of_log()}", flush=True)
                return []
            return [row.get("_msg", "") for row in answer.rows()]

        deadline = time.time() + PATIENCE_S
        while True:
            lines = found()
            if wanted <= set(lines) or time.time() > deadline:
                break
            time.sleep(0.5)
        missing = wanted - set(lines)
        twice = {line for line in wanted if lines.count(line) > 1} if len(lines) != len(set(lines)) else set()
        if missing:
            failures.append(f"{sender.name}: {len(missing)} of {len(wanted)} lines are missing: {sorted(missing)[:3]}")
        if twice:
            failures.append(f"{sender.name}: {len(twice)} lines are there twice: {sorted(twice)[:3]}")
    return failures


def run(binary, cases, config="", prepare=None, ceiling=CEILING_BYTES, out=sys.stdout):
    """Runs the cases; the names of those that failed, with the reason."""
    failed, peaks = [], []
    pending = list(cases)
    while pending:
        server = Server(binary, config)
        senders = [HttpSender(server, "http"), JsonSender(server, "json"), TcpSender(server, "tcp")]
        health, watch = Health(server), Watch(server, ceiling)
        try:
            if prepare:
                prepare(server)
            for thread in [*senders, health, watch]:
                thread.start()
            while pending:
                case = pending.pop(0)
                begun = time.time()
                failure, peak = run_case(server, case, health, watch)
                peaks.append((peak, case.name))
                took = time.time() - begun
                told = "ok" if failure is None else f"FAILED: {failure}"
                print(f"{case.name}: {told} ({took:.1f} s, {peak >> 20} MiB)", file=out, flush=True)
                if failure is not None:
                    failed.append((case.name, failure))
            for sender in senders:
                sender.ended.set()
            for sender in senders:
                sender.join(PATIENCE_S)
            for failure in check_honest(server, senders):
                failed.append(("honest senders", failure))
                print(f"honest senders: FAILED: {failure}", file=out, flush=True)
            told = ", ".join(f"{len(s.acknowledged)} {s.kind} ({s.refused} refused)" for s in senders)
            print(f"honest lines: {told}; /health answered {health.answers} times", file=out, flush=True)
        except Dead as dead:
            # The others still get their turn, on a server of their own.
            failed.append((case.name if "case" in locals() else "start", str(dead)))
            print(f"{failed[-1][0]}: FAILED: {dead}", file=out, flush=True)
        finally:
            for thread in [*senders, health, watch]:
                thread.ended.set()
            server.stop()
            if failed:
                print(f"the log of the server: {server.log_path}", file=out, flush=True)
            else:
                server.remove()
    peaks.sort(reverse=True)
    for peak, name in peaks[:5]:
        print(f"peak: {peak >> 20} MiB in {name}", file=out, flush=True)
    return failed
