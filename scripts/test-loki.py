#!/usr/bin/env python3
"""Asks a running Loginson what clients of Grafana Loki ask, over the documented HTTP API.

    LOGINSON_BIN=target/release/loginson scripts/test-loki.py

Needs nothing but Python. It pushes its own lines, and then does what a command line for Loki does: names of labels, lines
of both directions, more lines than one request gives, numbers, wrong queries, lines as they arrive.
"""

import base64
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

NOON_NS = 1_769_860_800_000_000_000
SECOND_NS = 1_000_000_000
PATIENCE_S = 300

faults = 0


def check(what, expected, found):
    global faults
    if found == expected:
        print(f"ok: {what}")
        return
    faults += 1
    print(f"FAILED: {what}\n--- expected\n{expected}\n--- found\n{found}")


class Loki:
    def __init__(self, address):
        self.address = address

    def get(self, call, **parameters):
        """The answer to a call, or the text of its error."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"http://{self.address}/loki/api/v1/{call}?{query}") as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def push(self, labels, lines):
        values = [[str(at), line, metadata] for at, line, metadata in lines]
        body = json.dumps({"streams": [{"stream": labels, "values": values}]}).encode()
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}/loki/api/v1/push", body, head)
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 204, answer.status

    def lines(self, query, **parameters):
        """The lines of a query in the order in which they were asked for."""
        answer = self.get("query_range", query=query, start=NOON_NS, end=NOON_NS + 60 * SECOND_NS, **parameters)
        values = [value for stream in answer["data"]["result"] for value in stream["values"]]
        values.sort(key=lambda value: int(value[0]), reverse=parameters.get("direction") != "forward")
        return [line for _, line, *_ in values]

    def pages(self, query, page):
        """All lines, newest first, a page a request: the next one ends where the last one began."""
        found, end = [], NOON_NS + 60 * SECOND_NS
        while True:
            answer = self.get("query_range", query=query, start=NOON_NS, end=end, limit=page)
            values = [value for stream in answer["data"]["result"] for value in stream["values"]]
            if not values:
                return found
            found += values
            end = min(int(at) for at, *_ in values)

    def tail(self, query):
        """A socket on which the lines of a query arrive as they do (RFC 6455)."""
        host, port = self.address.rsplit(":", 1)
        stream = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        path = "/loki/api/v1/tail?" + urllib.parse.urlencode({"query": query})
        stream.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {self.address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        reader = stream.makefile("rb")
        status = reader.readline()
        assert b" 101 " in status, status
        while reader.readline() not in (b"\r\n", b""):
            pass
        return reader


def message(reader):
    """The next message of a tail; pings are skipped."""
    while True:
        kind, length = reader.read(2)
        if length == 126:
            (length,) = struct.unpack(">H", reader.read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", reader.read(8))
        payload = reader.read(length)
        if kind == 0x81:
            return json.loads(payload)


def until(found):
    """What `found` gives once it gives something."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        result = found()
        if result:
            return result
        time.sleep(0.1)
    sys.exit("test-loki: waited in vain")


def ask(loki):
    metadata = lambda i: {"trace": f"t{i}", "app": "other"}
    lines = [(NOON_NS + i * SECOND_NS, f"GET /{i} took={i}ms", metadata(i)) for i in range(10)]
    loki.push({"app": "proxy", "pod": "p1"}, lines)
    span = {"start": NOON_NS, "end": NOON_NS + 60 * SECOND_NS}
    proxy = '{app="proxy"}'
    names = loki.get("labels", **span)["data"]
    check("labels", True, {"app", "pod"} <= set(names) and "trace" not in names)
    check("values of a label", ["proxy"], loki.get("label/app/values", **span)["data"])
    check("lines, newest first", [lines[9][1], lines[8][1]], loki.lines(proxy, limit=2))
    query = proxy + " | logfmt | took > 2ms"
    found = loki.lines(query, limit=2, direction="forward")
    check("lines, oldest first", [lines[3][1], lines[4][1]], found)
    found = loki.pages(proxy, 3)
    check("more lines than a request gives", [line for _, line, _ in reversed(lines)], [v[1] for v in found])
    answer = loki.get("query_range", query=proxy, limit=1, **span)
    stream = answer["data"]["result"][0]["stream"]
    shown = {name: stream.get(name) for name in ("app", "pod", "trace", "app_extracted")}
    check("labels and metadata", {"app": "proxy", "pod": "p1", "trace": "t9", "app_extracted": "other"}, shown)
    series = loki.get("series", **{"match[]": proxy}, **span)["data"]
    check("series", [("proxy", "p1")], [(one["app"], one["pod"]) for one in series])
    query = f"sum(count_over_time({proxy}[1m]))"
    answer = loki.get("query", query=query, time=NOON_NS + 60 * SECOND_NS - 1)
    check("a number", "10", answer["data"]["result"][0]["value"][1])
    error = loki.get("query", query="{app")
    check("a wrong query", "parse error at line 1, col 5", error[:28])
    fields = {field["label"]: field for field in loki.get("detected_fields", query=proxy, **span)["fields"]}
    check("fields", (["logfmt"], "duration"), (fields["took"]["parsers"], fields["took"]["type"]))
    found = loki.get("patterns", query=proxy, step="60s", **span)["data"]
    check("patterns", 10, sum(count for one in found for _, count in one["samples"]))

    tail = loki.tail(proxy + ' |= "live"')
    queries = f"http://{loki.address}/api/v1/queries"
    until(lambda: b'"kind":"tail"' in urllib.request.urlopen(queries).read())
    loki.push({"app": "proxy", "pod": "p1"}, [(time.time_ns(), "GET /live", {})])
    arrived = message(tail)
    check("tail", ["GET /live"], [v[1] for stream in arrived["streams"] for v in stream["values"]])


def main():
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("test-loki: LOGINSON_BIN names no binary to test")
    listen = ["--http-listen", "127.0.0.1:0", "--syslog-udp-listen", "127.0.0.1:0", "--syslog-tcp-listen", "127.0.0.1:0"]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        with open(log, "wb") as out:
            server = subprocess.Popen([binary, "serve", *listen, "--data-dir", f"{folder}/data"], stderr=out)
        try:
            address = lambda: re.search(r"page and API at http://([0-9.:]*)", open(log).read())
            found = until(lambda: address() or server.poll() is not None)
            if server.poll() is not None:
                sys.exit("test-loki: the server ended:\n" + open(log).read())
            loki = Loki(found[1])

            def is_ready():
                try:
                    return urllib.request.urlopen(f"http://{loki.address}/ready").status == 200
                except OSError:
                    return False

            until(is_ready)
            ask(loki)
        finally:
            server.terminate()
            server.wait()
    if faults:
        sys.exit(f"{faults} checks failed")
    print("A client of Loki and Loginson understand each other.")


if __name__ == "__main__":
    main()
