"""The data of bench-peers.py: mixes of lines.

Lines come from `loginson generate --replay`, which draws the digits of identifiers anew. This module makes of them what the generator
does not: other hosts, JSON. The mix `services` needs no sample lines. A mix is split over several files, because ripgrep runs a thread
a file; all peers get the same bytes in the same order. From one seed and one start come the same mixes.

Standard library only.
"""

import collections
import dataclasses
import datetime
import itertools
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import zlib

BIN = os.environ["LOGINSON_BIN"]
# Lines a second of event time.
RATE = 1000
# RFC 3164 has no zone, and Loginson takes a line that is a whole number of hours old for one of another zone. So the history of such
# lines is shorter, with more lines a second.
SPAN_S = 1800
# Files a mix is split over.
PARTS = 8
# Lines of a many-hosts mix are of so many hosts, low numbers more often.
HOSTS = 10_000
COMBINED = re.compile(rb'\S+ \S+ \S+ \[[^]]+\] "([^"]*)" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"')
HEADER = re.compile(rb"<\d+>.{15} (\S+) ([^ \[:]+)(?:\[(\d+)\])?: ")


@dataclasses.dataclass
class Mix:
    """Lines that were made, and what a peer has to know to take them."""

    name: str
    files: list
    lines: int
    bytes: int
    # An identifier that one line has and no sample file.
    needle: str
    # Event time of the first and the last line.
    first_s: float
    last_s: float
    # Fields of application and of many values, and those that make a stream.
    app_field: str = "app_name"
    many_field: str = "proc_id"
    stream_fields: str = "hostname,app_name"
    # Of JSON: the fields of time and message, one with few values, and two with numbers; none of syslog.
    time_field: str = ""
    msg_field: str = ""
    equal_field: str = ""
    number_field: str = ""
    other_number_field: str = ""

    @property
    def is_json(self):
        return bool(self.time_field)


def corpus_files(directory):
    """The sample files, and those left out because they have JSON lines, which are no syslog messages to compare by."""
    files, left_out = [], []
    for path in sorted(pathlib.Path(directory).rglob("*")):
        if not path.is_file() or path.suffix == ".md" or path.name.startswith(".") or path.stat().st_size == 0:
            continue
        with open(path, "rb") as file:
            (left_out if file.read(1) in b"{[" and path.suffix.startswith(".json") else files).append(path)
    if not files:
        sys.exit(f"{directory} has no sample file; name a directory of log files by PEERS_CORPUS")
    return files, left_out


def access_files(files):
    """Those whose first lines are of an access log in the combined format."""
    found = []
    for path in files:
        with open(path, "rb") as file:
            lines = list(itertools.islice(file, 50))
        if sum(bool(COMBINED.match(line)) for line in lines) > len(lines) / 2:
            found.append(path)
    return found


MIXES = ["all", "services", "without-1", "without-2", "without-3", "access-json", "one-host", "many-hosts", "high-cardinality"]


def make(name, directory, files, bytes_wanted, seed):
    """Makes a mix in `directory`; None where the sample files have nothing for it."""
    rng = random.Random(f"{seed} {name}")
    start_s = int(time.time()) // 60 * 60
    # Where JSON lines begin; they have 100 bytes at least.
    first_s = start_s - int(bytes_wanted) // 100 // RATE
    transform, fields = lambda lines: lines, {}
    if name == "services":
        lines = int(bytes_wanted) // SERVICE_LINE_BYTES
        fields = SERVICE_FIELDS | {"first_s": start_s - SERVICES_SPAN_S, "last_s": start_s}
        return write(name, directory, services(rng, start_s, lines), bytes_wanted, lines, rng, fields)
    if name.startswith("without-"):
        third = int(name[-1]) - 1
        files = [path for number, path in enumerate(files) if number % 3 != third]
    elif name == "one-host":
        files = [rng.choice(files)]
        transform = lambda lines: (with_host(line, b"host1") for line in lines)
    elif name == "many-hosts":
        hosts = lambda: int(HOSTS * min(rng.random(), rng.random()))
        transform = lambda lines: (with_host(line, b"node-%05d" % hosts()) for line in lines)
    elif name == "access-json":
        files = access_files(files)
        transform = lambda lines: access_json(lines, rng, first_s)
        fields = {"time_field": "time", "msg_field": "request", "equal_field": "status", "many_field": "remote_addr"}
        fields |= {"number_field": "request_time", "other_number_field": "body_bytes_sent"}
    elif name == "high-cardinality":
        transform = lambda lines: high_cardinality(lines, rng, first_s)
        fields = {"time_field": "_time", "msg_field": "_msg", "equal_field": "level", "many_field": "user_id"}
        fields |= {"number_field": "duration_ms", "other_number_field": "bytes"}
    elif name != "all":
        sys.exit(f"no such mix: {name}; the mixes are {', '.join(MIXES)}")
    if not files:
        return None
    lines = int(bytes_wanted // mean_bytes(transform(replayed(files, seed, start_s, 20_000))))
    # The history ends at the start of the run, so that no peer thinks the lines too old or too young.
    fields |= {"first_s": first_s, "last_s": first_s + lines / RATE} if fields else {"first_s": start_s - lines // rate_of(lines), "last_s": start_s}
    return write(name, directory, transform(replayed(files, seed, start_s, lines)), bytes_wanted, lines, rng, fields)


def write(name, directory, lines, bytes_wanted, lines_expected, rng, fields):
    """Writes the lines of a mix to its files, a needle among them."""
    paths = [directory / f"{name}.{part}.log" for part in range(PARTS)]
    needle, needle_at = f"{rng.getrandbits(128):032x}", rng.randrange(int(lines_expected * 0.9))
    count, size = 0, 0
    for part, path in enumerate(paths):
        with open(path, "wb", buffering=1 << 20) as out:
            while size < bytes_wanted * (part + 1) / PARTS and (line := next(lines, None)) is not None:
                if count == needle_at:
                    line = with_needle(line, needle, fields.get("msg_field"))
                size += out.write(line) + out.write(b"\n")
                count += 1
    lines.close()
    return Mix(name, [path for path in paths if path.stat().st_size], count, size, needle, **fields)


def mean_bytes(lines):
    sizes = [len(line) + 1 for line in lines]
    if not sizes:
        sys.exit("the generator made no line of the sample files; try `loginson generate --to - --lines 9 --replay FILE …`")
    return sum(sizes) / len(sizes)


def rate_of(lines):
    """Lines a second of event time in RFC 3164."""
    return max(RATE, lines // SPAN_S)


def replayed(files, seed, start_s, lines):
    """Lines of the generator as RFC 3164, without their newlines, at RATE a second or more up to `start_s`."""
    rate = rate_of(lines)
    command = [BIN, "generate", "--replay", *map(str, files), "--format", "rfc3164", "--seed", str(seed), "--quiet", "--to", "-"]
    times = ["--rate", str(rate), "--backfill", f"{lines // rate + 1}s", "--start", str(start_s), "--lines", str(lines)]
    made = subprocess.Popen(command + times, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        for line in made.stdout:
            yield line.rstrip(b"\n")
    finally:
        made.stdout.close()
        made.terminate()
        made.wait()


def with_host(line, host):
    """The line as another host sends it: name and process id, which follows from host and application."""
    head = HEADER.match(line)
    if not head:
        return line
    pid = b"[%d]" % (300 + zlib.crc32(host + head[2]) % 32_000) if head[3] else b""
    return line[: head.start(1)] + host + b" " + head[2] + pid + b": " + line[head.end() :]


def with_needle(line, needle, msg_field):
    if not msg_field:
        return line + b" " + needle.encode()
    row = json.loads(line)
    row[msg_field] += " " + needle
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def stamps(first_s):
    """RFC 3339 times, RATE a second."""
    for second in itertools.count(first_s):
        text = datetime.datetime.fromtimestamp(second, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        for number in range(RATE):
            yield f"{text}.{number * 1000 // RATE:03}Z"


def access_json(lines, rng, first_s):
    """Access lines as nginx writes them with a `log_format` of JSON. Half of the clients and all durations are drawn."""
    visitors = [f"{rng.randrange(1, 224)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}" for _ in range(50_000)]
    for stamp, line in zip(stamps(first_s), lines):
        head = HEADER.match(line)
        text = line[head.end() :] if head else line
        found = COMBINED.match(text)
        if not found:
            continue
        request, status, size, referer, agent = (part.decode(errors="replace") for part in found.groups())
        known = rng.random() < 0.5
        row = {
            "time": stamp,
            "hostname": f"web{1 + int(8 * rng.random() ** 2)}",
            "app_name": "nginx",
            "remote_addr": text.split(b" ", 1)[0].decode(errors="replace") if known else visitors[int(50_000 * rng.random() ** 3)],
            "request": request,
            "status": int(status),
            "body_bytes_sent": 0 if size == "-" else int(size),
            "request_time": round(rng.lognormvariate(-3, 1.2), 3),
            "http_referer": referer,
            "http_user_agent": agent,
        }
        yield json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def high_cardinality(lines, rng, first_s):
    """The messages of all files in JSON, beside fields of which nearly every line has its own value."""
    levels = ["emerg", "alert", "critical", "error", "warning", "notice", "info", "debug"]
    for stamp, line in zip(stamps(first_s), lines):
        head = HEADER.match(line)
        if not head:
            continue
        row = {
            "_time": stamp,
            "hostname": head[1].decode(),
            "app_name": head[2].decode(),
            "level": levels[int(line[1 : line.index(b">")]) % 8],
            "request_id": f"{rng.getrandbits(128):032x}",
            "user_id": f"u{min(int(rng.paretovariate(0.4)), 10**7):07}",
            "client_ip": f"{rng.randrange(1, 224)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}",
            "duration_ms": round(rng.lognormvariate(3, 1.5), 3),
            "bytes": int(rng.lognormvariate(7, 2)),
            "_msg": line[head.end() :].decode(errors="replace"),
        }
        yield json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


# ---- services --------------------------------------------------------------------------------------------------------

# About as many bytes has a line of `services`, whose history is so long.
SERVICE_LINE_BYTES = 300
SERVICES_SPAN_S = 3600
SERVICE_FIELDS = {"app_field": "service", "many_field": "user", "stream_fields": "service", "time_field": "_time", "msg_field": "_msg"}
SERVICE_FIELDS |= {"equal_field": "status", "number_field": "bytes", "other_number_field": "duration_ms"}
# A service, its share of the lines, and the paths it serves.
SERVICE_PATHS = {
    "gateway": (30, ["/", "/login", "/logout", "/static/app.js", "/static/app.css", "/api/orders", "/api/cart"]),
    "cart": (18, ["/api/cart", "/api/cart/{}", "/api/cart/{}/items"]),
    "orders": (14, ["/api/orders", "/api/orders/{}", "/api/orders/{}/cancel"]),
    "catalog": (14, ["/api/products", "/api/products/{}", "/api/products/{}/reviews", "/api/categories"]),
    "payments": (8, ["/api/payments", "/api/payments/{}/capture", "/api/payments/{}/refund"]),
    "users": (8, ["/api/users/{}", "/api/users/{}/addresses", "/api/sessions"]),
    "search": (5, ["/api/search", "/api/suggest"]),
    "mailer": (3, ["/internal/mails", "/internal/mails/{}"]),
}
SERVICE_EVENTS = [
    "connection to db-{a} reset by peer, retrying in {b}ms",
    "cache miss for key session:{a}, loading from replica {b}",
    "slow query: SELECT * FROM items WHERE id = {a} took {b}ms",
    "upstream inventory-{b} timed out after {a}ms",
    "circuit breaker opened for pricing after {b} failures",
    "worker {b} finished batch {a}",
    "token of user {a} expired",
    "rate limit reached, {b} requests rejected",
]
STATUSES, STATUS_WEIGHTS = [200, 201, 204, 301, 400, 401, 404, 409, 429, 500, 502, 503], [760, 60, 30, 20, 25, 15, 45, 10, 8, 12, 6, 9]
REGIONS = ["eu-west-1", "eu-central-1", "us-east-1", "ap-south-1"]


def services(rng, start_s, lines):
    """JSON lines of eight services on 24 hosts: three of four tell of a request, the others of something inside a service."""
    random_, getrandbits = rng.random, rng.getrandbits
    names = list(SERVICE_PATHS)
    # Drawn once and then taken at random: drawing them for each line takes longer than all the rest.
    choices = rng.choices(names, [SERVICE_PATHS[name][0] for name in names], k=4096)
    statuses = rng.choices(STATUSES, STATUS_WEIGHTS, k=4096)
    durations = [round(rng.lognormvariate(3, 1.2), 2) for _ in range(65_536)]
    sizes = [int(rng.lognormvariate(7.5, 1.6)) for _ in range(65_536)]
    for number in itertools.count():
        at = start_s - SERVICES_SPAN_S + number * SERVICES_SPAN_S / lines
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1e6):06}Z"
        bits = getrandbits(96)
        service, trace, user = choices[bits & 4095], f"{bits:024x}", int(20_000 * random_() ** 3)
        duration, size = durations[bits >> 36 & 65_535], sizes[bits >> 52 & 65_535]
        head = f'{{"_time":"{stamp}","hostname":"{service}-{(bits >> 12) % 3}","service":"{service}","trace":"{trace}"'
        numbers = f'"duration_ms":{duration},"bytes":{size}'
        if bits >> 20 & 3:
            status = statuses[bits >> 24 & 4095]
            level = "error" if status >= 500 else "warn" if status >= 400 else "info"
            paths = SERVICE_PATHS[service][1]
            path = paths[(bits >> 70) % len(paths)].format(user)
            cache = "hit" if bits >> 80 & 3 else "miss"
            message = f"request handled path={path} cache={cache} rows={size % 97}"
            details = f'{{\\"region\\":\\"{REGIONS[bits >> 82 & 3]}\\",\\"retries\\":{bits >> 84 & 1}}}'
            details = f',"details":"{details}"' if bits >> 85 & 3 == 0 else ""
            method = "POST" if bits >> 87 & 3 == 0 else "GET"
            yield (
                f'{head},"level":"{level}","user":"u{user:05}","method":"{method}","path":"{path}","status":{status},{numbers}{details}'
                f',"_msg":"{message}"}}'
            ).encode()
        else:
            level = ("error", "warn", "info", "info", "debug", "debug", "debug", "debug")[bits >> 24 & 7]
            message = SERVICE_EVENTS[bits >> 27 & 7].format(a=bits >> 30 & 8191, b=bits >> 43 & 63)
            yield f'{head},"level":"{level}",{numbers},"_msg":"{message}"}}'.encode()
