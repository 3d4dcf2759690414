#!/usr/bin/env python3
"""Measures what protection costs, and writes docs/benchmarks/protection.md.

    make bench-protection                                     everything; about a quarter of an hour
    BENCH_PARTS="ingest" make bench-protection                one part; the table of the other stays as it is
    BENCH_PAIRS=7 BENCH_LINES=2000000 make bench-protection   more pairs; more lines

Each case runs in turn with a server without any protection, BENCH_PAIRS times: encryption at rest alone, the chain of hashes with
signatures alone, tokens with the audit log alone, all of these together, and the same with HTTPS. Ingest is measured until the last line
is durable, and to the end of sealing. Queries are asked by a token without a restriction, and by one with a filter that keeps every line,
so that both read and answer the same. Every count must be right: a wrong answer ends the benchmark. The tables give the
median of the ratios of the pairs, and their smallest and largest. Standard library only.
"""

import base64
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import secrets
import ssl
import statistics
import subprocess
import sys
import time
import urllib.parse

from benchlib import BIN, PAIRS, ROOT, Server, main, note

LINES = int(os.environ.get("BENCH_LINES", "1000000"))
# Lines of one request; a few MB, so that a request costs little beside its lines.
BATCH_LINES = 20_000
# Settings that hold in all cases, so that sealing begins at once and at the same place.
SAME = '[store]\nsegment_age = "1s"\nbacklog_bytes_max = "1MiB"\nreencode = false\n'
START_S = 1_750_000_000
# Each of these queries counts all lines, errors, or groups, with a name that is new each time.
QUERIES = {
    "count of all lines": "*",
    "word `error`": "error",
    "any case `i(ERROR)`": "i(error)",
    "absent word": "xyzzyplugh",
}


class Case:
    """What is switched on. `restricted`: the token of queries has a filter that keeps every line."""

    def __init__(self, name, encrypted=False, chained=False, tokens=False, tls=False, restricted=False):
        self.name, self.encrypted, self.chained = name, encrypted, chained
        self.tokens, self.tls, self.restricted = tokens, tls, restricted


NOTHING = Case("nothing")
ALL = dict(encrypted=True, chained=True, tokens=True)
CASES = [
    Case("encryption at rest", encrypted=True),
    Case("chain with signatures", chained=True),
    Case("tokens and audit log", tokens=True),
    Case("all three", **ALL),
    Case("all three and HTTPS", **ALL, tls=True),
]
RESTRICTED = [
    Case("tokens, a filter that keeps all lines", tokens=True, restricted=True),
    Case("all three, a filter that keeps all lines", **ALL, restricted=True),
]


def certificate(directory):
    """A certificate for this machine, made once by openssl."""
    cert, key = directory / "certificate.pem", directory / "certificate.key"
    if not cert.exists():
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
        subprocess.run([*command, *names, "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    return cert, key


class Protected(Server):
    """A server with the protection of a case, and a client that may use it."""

    def __init__(self, directory, case, data=None):
        self.case, config = case, SAME
        self.writes, self.reads, admin = (secrets.token_hex(16) for _ in range(3))
        if case.encrypted:
            key = directory / "master.key"
            if not key.exists():
                subprocess.run([BIN, "encryption", "new-key", key], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            config += f"[encryption]\nkey_file = '{key}'\n"
        if case.chained:
            config += '[integrity]\nsign_every = "5s"\n'
            seed = directory / "signing.pem"
            if not seed.exists():
                subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", seed], check=True)
            config += f"key_file = '{seed}'\n"
        if case.tls:
            cert, key = certificate(directory)
            config += f"[http_tls]\ncertificate = '{cert}'\nkey = '{key}'\n"
        if case.tokens:
            for name, token, role in [("writes", self.writes, "ingest"), ("reads", self.reads, "read"), ("admin", admin, "admin")]:
                config += f"[[tokens]]\nname = '{name}'\nsha256 = '{hashlib.sha256(token.encode()).hexdigest()}'\nrole = '{role}'\n"
                if role == "read" and case.restricted:
                    config += "filter = 'NOT nobody_writes_this:*'\n"
        self.admin = admin
        super().__init__(directory, config=config, data=data)
        host, port = self.http
        if case.tls:
            context = ssl.create_default_context(cafile=str(certificate(directory)[0]))
            self.connection = http.client.HTTPSConnection(host, port, context=context)
        else:
            self.connection = http.client.HTTPConnection(host, port)

    def ask(self, method, path, token, body=None):
        headers = {"authorization": f"Bearer {token}"} if self.case.tokens else {}
        self.connection.request(method, path, body=body, headers=headers)
        answer = self.connection.getresponse()
        text = answer.read().decode()
        if answer.status not in (200, 202, 204):
            sys.exit(f"{self.case.name}: {path}: {answer.status} {text[:300]}")
        return text

    def metrics(self):
        samples = (line.rsplit(" ", 1) for line in self.ask("GET", "/metrics", self.admin).splitlines() if line[0] != "#")
        return {name: float(value) for name, value in samples}

    def count(self, query, name):
        text = urllib.parse.quote(f"{query} | stats count() {name}")
        return int(json.loads(self.ask("GET", f"/select/logsql/query?query={text}", self.reads).splitlines()[0])[name])


def batches(directory):
    """Bodies of requests, made once by the project's own generator from the excerpts in testdata."""
    file = directory / "lines.log"
    if not file.exists():
        note(f"  making {LINES} lines")
        samples = sorted(str(path) for path in (ROOT / "testdata/corpora").glob("*.log"))
        command = [BIN, "generate", "--replay", *samples, "--format", "rfc5424", "--seed", "1", "--quiet", "--to", "-"]
        times = ["--rate", "1000", "--backfill", f"{LINES // 1000}s", "--start", str(START_S + LINES // 1000), "--lines", str(LINES)]
        with open(file, "wb") as out:
            subprocess.run([*command, *times], stdout=out, stderr=subprocess.DEVNULL, check=True)
    with open(file, "rb") as lines:
        while batch := b"".join(itertools.islice(lines, BATCH_LINES)):
            yield batch


def fill(server, directory):
    """Sends all lines; returns the seconds until they are durable (each request is answered then)."""
    bodies = list(batches(directory))
    began = time.perf_counter()
    for body in bodies:
        server.ask("POST", "/insert/lines", server.writes, body)
    return time.perf_counter() - began


def ingest(directory, case):
    """Seconds until durable, and until all is sealed and chained; processor time of it all in seconds."""
    with Protected(directory, case) as server:
        began, before = time.perf_counter(), server.cpu_s()
        durable = fill(server, directory)
        server.wait_settled()
        sealed, spent = time.perf_counter() - began, server.cpu_s() - before
        found = server.count("NOT _type:in(summary, audit)", "n")
        if found != LINES:
            sys.exit(f"{case.name}: {found} lines of {LINES}")
        return [durable, sealed, spent]


def asked(server, names):
    """Seconds of each query, the cache of counts cold."""
    seconds, counts = [], []
    for query in QUERIES.values():
        name = next(names)
        began = time.perf_counter()
        counts.append(server.count(f"{query} NOT _type:in(summary, audit)", name))
        seconds.append(time.perf_counter() - began)
    return seconds, counts


def show(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def part_ingest(directory):
    rows = []
    ingest(directory, NOTHING)
    for case in CASES:
        pairs = []
        for number in range(PAIRS):
            # Which is first alternates, so that what drifts is on neither side.
            order = [NOTHING, case] if number % 2 else [case, NOTHING]
            measured = {one.name: ingest(directory, one) for one in order}
            pairs.append([with_it / without for with_it, without in zip(measured[case.name], measured["nothing"])])
            note(f"    {number + 1}/{PAIRS} {case.name}: " + ", ".join(f"{ratio:.2f}" for ratio in pairs[-1]))
        rows.append([case.name, *(show(ratios) for ratios in zip(*pairs))])
    return ["switched on", "time until durable", "time until sealed", "processor time"], rows


def part_queries(directory):
    names = map("n{}".format, itertools.count())
    rows = []
    for case in CASES + RESTRICTED:
        pairs = []
        with Protected(directory, NOTHING) as plain, Protected(directory, case) as guarded:
            for server in (plain, guarded):
                fill(server, directory)
                server.wait_settled()
                # A first round, whose times do not count: it brings the data into memory.
                asked(server, names)
            for number in range(PAIRS):
                order = [plain, guarded] if number % 2 else [guarded, plain]
                measured = {server: asked(server, names) for server in order}
                if measured[plain][1] != measured[guarded][1]:
                    sys.exit(f"{case.name}: counts {measured[guarded][1]}, without it {measured[plain][1]}")
                pairs.append([with_it / without for with_it, without in zip(measured[guarded][0], measured[plain][0])])
        rows.append([case.name, *(show(ratios) for ratios in zip(*pairs))])
        note(f"    {rows[-1]}")
    return ["switched on", *QUERIES], rows


if __name__ == "__main__":
    page = ROOT / "docs/benchmarks/protection.md"
    main(page, "bench-protection", {"ingest": (part_ingest, "Ingest"), "queries": (part_queries, "Queries")})
