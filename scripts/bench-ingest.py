#!/usr/bin/env python3
"""Measures ingest beside its limits, and writes docs/benchmarks/ingest.md.

    make bench-ingest                                  everything; about 45 minutes, of which two parts take 10 each
    BENCH_PARTS="tcp udp" make bench-ingest            some parts; the tables of the others stay as they are
    BENCH_PAIRS=5 BENCH_SECONDS=60 make bench-ingest   more pairs; shorter long parts
    BENCH_SHARES="0.08 0.15" BENCH_PARTS=sustained …   shares of the null sink at which lines are offered

Each case runs in turn with its limit, BENCH_PAIRS times. Nothing else should run on the machine, which sender and receiver share.
The tables give medians and their ratio. A run in which a line is missing, or is there twice, ends the benchmark: a rate at which
lines are lost is worth nothing.

Standard library only. The programs it drives are Loginson itself and the benchmarks of `loginson-bench`. The table of each part stands in
the page between two comments; text around them is kept.
"""

import http.client
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

from benchlib import BENCH, BIN, PAIRS, ROOT, Server, cpu_s, finish, main, note, pairs, report, run, sampled, start, threads_cpu_s, wait_listening

LONG_S = int(os.environ.get("BENCH_SECONDS", "600"))
# Steadiness is measured at 80% of the maximum: the rate in the second half of this many seconds of unlimited sending.
MAXIMUM_S = int(os.environ.get("BENCH_MAXIMUM_SECONDS", "90"))
# Raw bytes of one short run: some seconds at the rates that are expected.
RUN_BYTES = int(float(os.environ.get("BENCH_RUN_GB", "4")) * 1e9)
FILE_BYTES = 64 << 20
# The paper's range of line lengths, newline not counted.
LINE_BYTES = [33, 117, 291, 1024, 4176]


# ---- what is sent ----------------------------------------------------------------------------------------------------

WORDS = (
    "connection closed by peer session opened for user root accepted publickey failed password timeout "
    "while reading response upstream retry block replica received packet interface state changed disk latency "
    "request id worker started stopped health check passed memory usage cache miss queue depth error warning"
).split()


def lines_of(line_bytes, directory):
    """A file of syslog lines of exactly `line_bytes` bytes each, without the newline."""
    file = directory / f"lines-{line_bytes}.log"
    rng = random.Random(line_bytes)
    hosts = [f"h{i}" for i in range(10)] if line_bytes < 64 else [f"web-{i:02}.example.org" for i in range(40)]
    apps = ["a"] if line_bytes < 64 else ["sshd", "nginx", "kernel", "postgres", "cron", "app"]
    with open(file, "wb") as out:
        for number in range(FILE_BYTES // (line_bytes + 1)):
            second = number // 5000 % 60
            pid = "" if line_bytes < 64 else f"[{rng.randrange(300, 400)}]"
            line = f"<13>Nov 22 02:{second:02}:{number % 60:02} {rng.choice(hosts)} {rng.choice(apps)}{pid}: "
            while len(line) < line_bytes:
                line += rng.choice(WORDS) + " " + (f"{rng.randrange(1 << 24):x} " if rng.random() < 0.2 else "")
            out.write(line[:line_bytes].encode() + b"\n")
    return file


def corpora(directory):
    """The excerpts in testdata, replayed as syslog of RFC 5424 by the project's own generator."""
    file = directory / "corpora.log"
    samples = sorted(str(p) for p in (ROOT / "testdata/corpora").glob("*.log"))
    command = [BIN, "generate", "--replay", *samples, "--format", "rfc5424", "--seed", "1", "--rate", "0"]
    with open(file, "wb") as out:
        subprocess.run([*command, "--lines", "300000", "--quiet", "--to", "-"], stdout=out, check=True)
    return file


class Input:
    def __init__(self, file):
        self.file = file
        self.bytes = file.stat().st_size
        with open(file, "rb") as content:
            self.lines = sum(chunk.count(b"\n") for chunk in iter(lambda: content.read(1 << 20), b""))
        self.times = max(1, round(RUN_BYTES / self.bytes))
        # Limits the number of lines, too: a run of the shortest lines would take a minute.
        self.times = max(1, min(self.times, round(60e6 / self.lines)))

    @property
    def name(self):
        return self.file.stem

    @property
    def line_bytes(self):
        return self.bytes / self.lines


# ---- the parts: each returns the rows of its table ------------------------------------------------------------------


def tcp_sink(inputs, connections=1):
    def case():
        sink = start(BENCH, "tcp_limit", "sink", "127.0.0.1:26514", connections)
        run(BENCH, "tcp_limit", "send", "127.0.0.1:26514", inputs.file, inputs.times, "--connections", connections)
        return finish(sink)["lines_per_s"]

    case.name = "sink"
    return case


def tcp_durable(inputs, directory, connections=1, config=""):
    """Lines per second, from the start of the sender until the last line is durable."""

    def case():
        with Server(directory, config=config) as server:
            began = time.monotonic()
            sender = subprocess.Popen(
                [BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, str(inputs.times)]
                + ["--connections", str(connections)],
                stdout=subprocess.DEVNULL,
            )
            lines = inputs.lines * inputs.times
            server.wait_kept("syslog_tcp", lines)
            seconds = time.monotonic() - began
            sender.wait()
            return lines / seconds

    case.name = "durable"
    return case


def rates_row(name, limit, ours, line_bytes, target):
    gbit = ours * (line_bytes) * 8 / 1e9
    return [name, f"{limit / 1e6:.2f} M lines/s", f"{ours / 1e6:.2f} M lines/s", f"{gbit:.1f}", f"{ours / limit:.2f}", target]


RATES_HEAD = ["what", "limit", "Loginson", "Gbit/s", "ratio", "target"]


def part_tcp(directory):
    rows = []
    for inputs in [Input(lines_of(size, directory)) for size in LINE_BYTES] + [Input(corpora(directory))]:
        note(f"  {inputs.name}")
        limit, ours = pairs(tcp_sink(inputs), tcp_durable(inputs, directory))
        name = f"one connection, {inputs.line_bytes - 1:.0f} B" + (" (corpora)" if "corpora" in inputs.name else "")
        rows.append(rates_row(name, limit, ours, inputs.line_bytes, "0.40, 10 Gbit/s"))
    for size in (117, 291):
        inputs = Input(lines_of(size, directory))
        limit, ours = pairs(tcp_sink(inputs, 1000), tcp_durable(inputs, directory, 1000))
        rows.append(rates_row(f"1,000 connections, {size} B", limit, ours, inputs.line_bytes, "0.30"))
    return RATES_HEAD, rows


def part_collector(directory):
    inputs = Input(lines_of(291, directory))

    def null_deliver():
        listening = start(BENCH, "collect_null", "127.0.0.1:26516")
        run(BENCH, "tcp_limit", "send", "127.0.0.1:26516", inputs.file, inputs.times)
        return finish(listening)["lines_per_s"]

    def null_store():
        store = start(BENCH, "tcp_limit", "sink", "127.0.0.1:26517")
        listening = start(BENCH, "collect_null", "127.0.0.1:26516", "--to", "127.0.0.1:26517")
        run(BENCH, "tcp_limit", "send", "127.0.0.1:26516", inputs.file, inputs.times)
        finish(store)
        return finish(listening)["lines_per_s"]

    def null_node():
        """A store that acknowledges frames and keeps none; both sides check checksums."""
        store = subprocess.Popen([BENCH, "node_limit", "null", "127.0.0.1:26517"], stdout=subprocess.DEVNULL)
        wait_listening(26517)
        listening = subprocess.Popen(
            [BENCH, "node_limit", "collect", "127.0.0.1:26516", "127.0.0.1:26517"], stdout=subprocess.PIPE, text=True
        )
        wait_listening(26516)
        run(BENCH, "tcp_limit", "send", "127.0.0.1:26516", inputs.file, inputs.times)
        found, spooled = (report(line) for line in listening.stdout.read().splitlines())
        listening.wait()
        store.kill()
        store.wait()
        if found["lines"] != inputs.lines * inputs.times or spooled["lines"] > 0:
            sys.exit(f"sent {inputs.lines * inputs.times}, acknowledged {found}, on disk {spooled}")
        return found["lines_per_s"]

    limit, inside, over_tcp, node = pairs(tcp_sink(inputs), null_deliver, null_store, null_node)
    frames = [run(BENCH, "frames_speed", inputs.file) for _ in range(PAIRS)]
    built = statistics.median(frame["lines_per_s"] for frame in frames)
    copied = statistics.median(frame["limit_lines_per_s"] for frame in frames)
    return RATES_HEAD, [
        rates_row("frames of 291 B lines built from memory, 1+1 threads (limit: copying)", copied, built, 292, "10 M lines/s"),
        rates_row("collector, 291 B, frames counted in the process", limit, inside, 292, ""),
        rates_row("collector, 291 B, frames sent over TCP to a sink", limit, over_tcp, 292, "8 M lines/s"),
        rates_row("collector, 291 B, to a null store that checks and acknowledges", limit, node, 292, "8 M lines/s"),
    ]


BUSY = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"


def part_udp(directory):
    """Datagrams of mixed sizes from 50 sources, as fast as the sender can send.

    The sender is slower where the other processors are not idle, whoever receives. So the sink is also measured beside a
    program that only keeps one processor busy, at the lowest priority.
    """
    datagrams = 5_000_000
    sockets = min(4, os.cpu_count())
    lost = []

    def sending(address):
        return run(
            BENCH, "udp_limit", "send", address, "--sources", 50, "--sizes", "mixed", "--datagrams", datagrams
        )

    def sink():
        listening = start(BENCH, "udp_limit", "sink", "127.0.0.1:26514", sockets)
        sent = sending("127.0.0.1:26514")
        return finish(listening)["lines"] / sent["seconds"]

    def sink_beside():
        busy = subprocess.Popen([sys.executable, "-c", BUSY])
        try:
            return sink()
        finally:
            busy.kill()
            busy.wait()

    def ours():
        with Server(directory) as server:
            sent = sending(server.address["syslog_udp"])
            last = -1
            while (received := server.received("syslog_udp")) != last:
                last = received
                time.sleep(1.1)
            dropped = server.dropped("syslog_udp")
            if received + dropped != sent["lines"]:
                sys.exit(f"sent {sent['lines']:.0f} datagrams, received {received:.0f}, dropped by the kernel {dropped:.0f}")
            lost.append(dropped / sent["lines"])
            return received / sent["seconds"]

    limit, beside, rate = pairs(sink, sink_beside, ours)

    def row(name, limit, target):
        rates = [f"{limit / 1e6:.3f} M/s", f"{rate / 1e6:.3f} M/s", f"{100 * statistics.median(lost):.1f} %"]
        return [name, *rates, f"{rate / limit:.2f}", target]

    rows = [row("50 sources, mixed sizes", limit, "0.95"), row("the same, the sink beside a busy processor", beside, "")]
    return ["datagrams", "null sink", "Loginson", "dropped by the kernel, all counted", "ratio", "target"], rows


def certificate(directory):
    """A key and a certificate for this run."""
    key, chain = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-keyout", key, "-out", chain],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return key, chain


def part_tls(directory):
    inputs = Input(lines_of(291, directory))
    key, chain = certificate(directory)
    config = f'syslog_tls_listen = "127.0.0.1:0"\n[tls]\ncertificate = "{chain}"\nkey = "{key}"\n'
    times = max(1, inputs.times // 2)

    def bulk():
        return run(BENCH, "tls_limit", "bulk", inputs.file, times)["lines_per_s"]

    def ours():
        with Server(directory, config=config) as server:
            began = time.monotonic()
            sender = subprocess.Popen(
                [BENCH, "tls_limit", "send", server.address["syslog_tls"], inputs.file, str(times)]
                + ["--ca", chain],
                stdout=subprocess.DEVNULL,
            )
            lines = inputs.lines * times
            server.wait_kept("syslog_tls", lines)
            seconds = time.monotonic() - began
            sender.wait()
            return lines / seconds

    limit, rate = pairs(bulk, ours)
    return RATES_HEAD, [rates_row("TLS, one connection, 291 B, durable (limit: rustls to rustls)", limit, rate, 292, "0.50")]


def part_http(directory):
    rows = []
    json_lines = directory / "lines.json"
    samples = sorted(str(p) for p in (ROOT / "testdata/corpora").glob("*.log"))
    with open(json_lines, "wb") as out:
        subprocess.run(
            [BIN, "generate", "--replay", *samples, "--format", "json", "--seed", "1", "--rate", "0", "--quiet"]
            + ["--lines", "300000", "--to", "-"],
            stdout=out,
            check=True,
        )
    inputs = Input(json_lines)
    times = max(1, inputs.times // 4)
    path = "/insert/jsonline"

    def sink():
        listening = subprocess.Popen([BENCH, "http_limit", "sink", "127.0.0.1:26518"], stdout=subprocess.DEVNULL)
        wait_listening(26518)
        sent = run(BENCH, "http_limit", "send", "127.0.0.1:26518", path, inputs.file, times)
        listening.kill()
        listening.wait()
        return sent["lines_per_s"]

    def ours(*options):
        def case():
            with Server(directory) as server:
                sent = run(BENCH, "http_limit", "send", server.address["http"], path, inputs.file, times, *options)
                server.wait_kept("http", inputs.lines * times)
                return sent["lines_per_s"]

        return case

    limit, rate, gzip, zstd = pairs(sink, ours(), ours("--gzip"), ours("--zstd"))
    name = f"JSON lines of {inputs.line_bytes:.0f} B, one request, answered when durable"
    rows.append(rates_row(name, limit, rate, inputs.line_bytes, "0.25"))
    rows.append(rates_row("the same, gzip", limit, gzip, inputs.line_bytes, ""))
    rows.append(rates_row("the same, zstd", limit, zstd, inputs.line_bytes, ""))
    return RATES_HEAD, rows


def rsyslog(inputs, directory):
    """rsyslog's distribution package, imtcp to omfile: CPU seconds per GB."""
    rsyslogd = shutil.which("rsyslogd", path=os.environ["PATH"] + ":/usr/sbin")
    if rsyslogd is None:
        sys.exit("rsyslogd is missing; install it: apt-get install rsyslog, or leave this part out")
    settings, out = directory / "rsyslog.conf", directory / "rsyslog.out"
    settings.write_text(
        f'global(workDirectory="{directory}" maxMessageSize="64k")\n'
        'module(load="imtcp")\ntemplate(name="raw" type="string" string="%rawmsg%\\n")\n'
        'input(type="imtcp" address="127.0.0.1" port="26515")\n'
        f'action(type="omfile" file="{out}" template="raw")\n'
    )

    def case():
        out.unlink(missing_ok=True)
        process = subprocess.Popen([rsyslogd, "-n", "-f", settings, "-i", directory / "rsyslog.pid"])
        wait_listening(26515)
        times = max(1, inputs.times // 4)
        run(BENCH, "tcp_limit", "send", "127.0.0.1:26515", inputs.file, times)
        size, since = -1, time.monotonic()
        while time.monotonic() - since < 1:
            if (now := out.stat().st_size if out.exists() else 0) != size:
                size, since = now, time.monotonic()
            time.sleep(0.1)
        spent = cpu_s(process.pid) / (size / 1e9)
        process.terminate()
        process.wait()
        out.unlink()
        if size < inputs.bytes * times:
            sys.exit(f"rsyslog kept {size} of {inputs.bytes * times} bytes")
        return spent

    return case


def part_cpu(directory):
    inputs = Input(corpora(directory))

    def ours():
        # Segments are so small that several are closed in the run; the last is closed at the age of 1 s, and sealed then.
        with Server(directory, config='[store]\nsegment_bytes_max = "256MiB"\nsegment_age = "1s"\nreencode = false\n') as server:
            run(BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, inputs.times)
            server.wait_kept("syslog_tcp", inputs.lines * inputs.times)
            time.sleep(2)
            server.wait_settled()
            return server.cpu_s() / (inputs.bytes * inputs.times / 1e9)

    theirs, spent = pairs(rsyslog(inputs, directory), ours)
    row = ["TCP, durable, parsed, summarised, sealed (rsyslog: written to a file)", f"{theirs:.2f} s/GB", f"{spent:.2f} s/GB"]
    return ["CPU", "rsyslog", "Loginson", "ratio", "target"], [[*row, f"{spent / theirs:.2f}", "0.25"]]


def part_query(directory):
    """Writing at half of the maximum rate while one long query after the other reads everything."""
    inputs = Input(corpora(directory))
    maximum = tcp_durable(inputs, directory)()
    rate, seconds = maximum / 2, 20

    def writing(query):
        def case():
            with Server(directory) as server:
                run(BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, inputs.times)
                server.wait_kept("syslog_tcp", inputs.lines * inputs.times)
                sender = subprocess.Popen(
                    [BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, "1000000"]
                    + ["--rate", f"{rate:.0f}", "--seconds", str(seconds)],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                stop = threading.Event()

                answers, errors = [], []

                def query_until_stopped():
                    while not stop.is_set():
                        command = [BIN, "query", "--server", f"http://{server.address['http']}", query]
                        done = subprocess.run(command, capture_output=True, text=True)
                        (answers if done.returncode == 0 else errors).append(done.stdout + done.stderr)

                querying = threading.Thread(target=query_until_stopped)
                if query:
                    querying.start()
                sent = report(sender.communicate()[0].strip().splitlines()[-1])
                server.wait_kept("syslog_tcp", inputs.lines * inputs.times + int(sent["lines"]))
                stop.set()
                if query:
                    querying.join()
                    if errors or not answers:
                        sys.exit(f"{len(answers)} answers; {errors[:1]}")
                return sent["lines_per_s"]

        case.name = query or "no query"
        return case

    alone, beside = pairs(writing(""), writing("_line:~'[0-9]+x[a-z]+zz' | stats count() n"))
    row = [f"{alone / 1e6:.2f} M lines/s", f"{beside / 1e6:.2f} M lines/s", f"{beside / alone:.3f}", "0.98"]
    return ["writing at half of the maximum", "without a query", "while a query reads", "ratio", "target"], [["corpora", *row]]


# Settings of the long parts: retention keeps the disk from filling, and the work of idle time is left out.
LONG_CONFIG = '[retention]\nbytes = "15GB"\n[store]\nreencode = false\n'
KEPT_LINES = 'loginson_lines_kept_total{source="syslog_tcp"}'
KEPT_BYTES = 'loginson_bytes_kept_total{source="syslog_tcp"}'


def sending(server, inputs, rate, seconds):
    """Starts a sender of `rate` lines a second; 0: as fast as they are taken."""
    return subprocess.Popen(
        [BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, "1000000"]
        + ["--rate", f"{rate:.0f}", "--seconds", str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )


def sent_by(sender):
    return report(sender.communicate()[0].strip().splitlines()[-1])


def per_s(samples, column):
    """The growth of a counter per second over these samples."""
    return (samples[-1][column] - samples[0][column]) / (samples[-1][0] - samples[0][0])


def part_sustained(directory):
    """Whether parsing, summaries and sealing keep up for LONG_S seconds at a rate.

    They keep up when, in the second half, nothing holds the sender back and as many bytes are sealed, and so parsed before, as
    arrive. The lag alone would not show this, because retention deletes the oldest lines, parsed or not.
    """
    inputs = Input(corpora(directory))
    limit = pairs(tcp_sink(inputs))[0]
    names = [KEPT_BYTES, "loginson_seal_raw_bytes_total", "loginson_parse_lag_lines", "loginson_seal_lag_bytes"]
    rows = []
    for share in [float(share) for share in os.environ.get("BENCH_SHARES", "0.15").split()]:
        rate = share * limit
        with Server(directory, config=LONG_CONFIG) as server:
            sender = sending(server, inputs, rate, LONG_S)
            samples = sampled(server, LONG_S / 2, 1, *names)
            before, since = threads_cpu_s(server.process.pid), time.monotonic()
            samples += sampled(server, LONG_S / 2, 1, *names)
            spent = {name: cpu - before.get(name, 0) for name, cpu in threads_cpu_s(server.process.pid).items()}
            shares = {name: cpu / (time.monotonic() - since) for name, cpu in spent.items()}
            sent = sent_by(sender)
            server.wait_kept("syslog_tcp", int(sent["lines"]))
            began = time.monotonic()
            server.wait_settled()
            settled_s = time.monotonic() - began
        half = samples[len(samples) // 2 :]
        came, sealed = per_s(half, 1), per_s(half, 2)
        lags = [samples[min(len(samples) - 1, len(samples) * part // 5)] for part in range(1, 6)]
        if sent["lines_per_s"] < 0.99 * rate:
            verdict = f"no: {sent['lines_per_s'] / 1e6:.2f} M lines/s were taken"
        elif sealed < 0.95 * came:
            verdict = f"no: {came / 1e9:.3f} GB/s came"
        else:
            verdict = "yes"
        busy = sorted(shares.items(), key=lambda item: -item[1])
        rows.append(
            [f"{rate / 1e6:.2f} M lines/s ({share:.2f} of the null sink) offered for {LONG_S} s"]
            + [f"{sealed / 1e9:.3f} GB/s ({sealed / inputs.line_bytes / limit:.3f})"]
            + [" → ".join(f"{lag[3] / 1e6:.1f}" for lag in lags) + " M lines"]
            + [" → ".join(f"{lag[4] / 1e9:.1f}" for lag in lags) + " GB", f"{settled_s:.0f} s"]
            + [", ".join(f"`{name}` {100 * cpu:.0f} %" for name, cpu in busy if cpu >= 0.02), verdict, "0.15, lag bounded"]
        )
        note("    " + "; ".join(rows[-1]))
    head = ["with parsing, summaries and sealing", "parsed and sealed in the second half (of the null sink)"]
    head += ["not parsed, at each fifth", "closed and not sealed", "all done after the end", "of a processor, second half"]
    return [*head, "keeps up", "target"], rows


def part_steady(directory):
    """Lines per 100 ms at 80% of the maximum, which is measured once sealing has as much to do as it will ever have."""
    inputs = Input(corpora(directory))
    with Server(directory, config=LONG_CONFIG) as server:
        sender = sending(server, inputs, 0, MAXIMUM_S)
        samples = sampled(server, MAXIMUM_S, 1, KEPT_LINES)
        sent = sent_by(sender)
        server.wait_kept("syslog_tcp", int(sent["lines"]))
        maximum, first = (per_s(part, 1) for part in (samples[len(samples) // 2 :], samples[: len(samples) // 4]))
        note(f"    maximum {maximum / 1e6:.2f} M lines/s, at first {first / 1e6:.2f}")
    rate = 0.8 * maximum
    with Server(directory, config=LONG_CONFIG) as server:
        sender = sending(server, inputs, rate, LONG_S)
        time.sleep(2)
        samples = sampled(server, LONG_S - 4, 0.1, KEPT_LINES)
        sent = sent_by(sender)
        server.wait_kept("syslog_tcp", int(sent["lines"]))
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(samples, samples[1:])]
    mean, deviation = statistics.mean(rates), statistics.pstdev(rates)
    longest, since = 0.0, samples[0][0]
    for a, b in zip(samples, samples[1:]):
        since = b[0] if b[1] > a[1] else since
        longest = max(longest, b[0] - since)
    # Frames become durable in groups, which averages over a second even out; a stall would still show in them.
    seconds = [per_s(samples[at : at + 11], 1) for at in range(0, len(samples) - 10, 10)]
    row = [f"{maximum / 1e6:.2f} M lines/s ({first / 1e6:.2f} at first)", f"{rate / 1e6:.2f} M lines/s for {LONG_S} s"]
    row += [f"{mean / 1e6:.2f} M lines/s", f"{100 * deviation / mean:.1f} %", f"{100 * statistics.pstdev(seconds) / mean:.1f} %"]
    row += [f"{longest * 1000:.0f} ms", "5 %, no stall of 1 s"]
    head = ["maximum", "offered: 80% of it", "made durable", "standard deviation of 100 ms", "of 1 s", "longest stall", "target"]
    return head, [row]


def tail_of(server, reads):
    """Opens a live tail of all lines, whose client reads all or nothing. Returns a function that closes it and returns its counts of
    lines shown and skipped."""
    connection = http.client.HTTPConnection(*server.http)
    connection.request("GET", "/select/logsql/tail?query=*%20%7C%20fields%20_msg&start_offset=1ms")
    answer = connection.getresponse()
    counts = {"shown": 0, "skipped": 0}

    def read():
        while line := answer.readline():
            if line.startswith(b'{"_skipped":"'):
                counts["skipped"] += int(line[13:-3])
            elif line != b"\n" and not line.startswith(b'{"_error":'):
                counts["shown"] += 1

    thread = threading.Thread(target=read)
    if reads:
        thread.start()

    def close(lines):
        """If the client reads, waits until the tail has shown or skipped `lines` lines. Then closes the tail."""
        while reads and sum(counts.values()) < lines:
            time.sleep(0.05)
        server.client.request("DELETE", f"/api/v1/queries/{answer.headers['X-Loginson-Query-Id']}")
        if reads:
            thread.join()
        connection.close()
        return counts

    return close


def part_tail(directory):
    """The rate at which lines can be made durable beside a live tail of all lines, whose client reads or does not."""
    inputs = Input(corpora(directory))
    lines = inputs.lines * inputs.times
    shares = []

    def case(tail):
        def measure():
            with Server(directory) as server:
                close = tail_of(server, tail == "read") if tail else lambda _: None
                began = time.monotonic()
                sender = subprocess.Popen(
                    [BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, str(inputs.times)],
                    stdout=subprocess.DEVNULL,
                )
                server.wait_kept("syslog_tcp", lines)
                rate = lines / (time.monotonic() - began)
                sender.wait()
                counts = close(lines)
                if tail == "read":
                    # The tail shows or skips the rows of the summary, too.
                    if sum(counts.values()) > lines + server.kept("internal"):
                        sys.exit(f"{lines} lines came; the tail accounts for {counts}")
                    shares.append(counts["shown"] / lines)
                return rate

        measure.name = f"tail: {tail}" if tail else "no tail"
        return measure

    alone, read, unread = pairs(case(None), case("read"), case("not read"))
    head = ["lines made durable, as fast as they can", "without a tail", "with a tail of all lines", "ratio", "shown to it, the rest reported as skipped", "target"]
    rows = []
    for name, rate, shown in [
        ("its client reads (Python, on the same cores)", read, f"{100 * statistics.median(shares):.0f} %"),
        ("its client reads nothing", unread, "–"),
    ]:
        rows.append([name, f"{alone / 1e6:.2f} M lines/s", f"{rate / 1e6:.2f} M lines/s", f"{rate / alone:.2f}", shown, "never slows ingest"])
    return head, rows


def memory_mib(server):
    """Resident memory of the server now."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS:")).split()[1]) / 1024


def idle_share(server, seconds=10):
    """The share of a processor that a server takes while nothing happens."""
    before = server.cpu_s()
    time.sleep(seconds)
    return (server.cpu_s() - before) / seconds


def part_many(directory):
    """Many idle connections, and many followed files: the memory and time they take, and the rate that another connection reaches."""
    count = int(os.environ.get("BENCH_MANY", "10000"))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < count + 1000:
        sys.exit(f"{count} connections need more open files than {hard}: ulimit -n {count + 1000}, or BENCH_MANY={hard - 1000}")
    # The server inherits this limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    inputs = Input(lines_of(291, directory))
    rows = []

    def durable_after(server, source, lines, begin):
        began = time.monotonic()
        begin()
        server.wait_kept(source, lines)
        return time.monotonic() - began

    def quiet(server, before):
        """Memory above `before`, and the share of a processor. Measured before the flood, which is still being sealed long after."""
        return [f"{memory_mib(server) - before:.0f} MiB", f"{100 * idle_share(server):.1f} %"]

    def row(what, cells, each, one, rate, alone):
        rows.append([what, *cells, f"{each:.2f} s", f"{one * 1000:.0f} ms", f"{rate / alone:.2f}"])

    alone = tcp_durable(inputs, directory)()

    with Server(directory) as server:
        host, port = server.address["syslog_tcp"].rsplit(":", 1)
        before = memory_mib(server)
        connections = [socket.create_connection((host, int(port))) for _ in range(count)]
        while server.metrics()['loginson_connections_open{source="syslog_tcp"}'] < count:
            time.sleep(0.05)
        silent_kib = (memory_mib(server) - before) * 1024 / count
        each = durable_after(server, "syslog_tcp", count, lambda: [c.sendall(b"<13>one of many\n") for c in connections])
        one = durable_after(server, "syslog_tcp", count + 1, lambda: connections[count // 2].sendall(b"<13>one alone\n"))
        cells = quiet(server, before)
        lines = inputs.lines * inputs.times
        send = [BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, str(inputs.times)]
        senders = []
        seconds = durable_after(
            server, "syslog_tcp", count + 1 + lines, lambda: senders.append(subprocess.Popen(send, stdout=subprocess.DEVNULL))
        )
        senders[0].wait()
        row(f"{count} connections, {silent_kib:.1f} KiB each before their first line", cells, each, one, lines / seconds, alone)
        for connection in connections:
            connection.close()

    files = directory / "many"
    files.mkdir()
    paths = [files / f"{number}.log" for number in range(count)]

    def append(paths):
        for path in paths:
            with open(path, "ab") as out:
                out.write(b"a line of one of many files\n")

    with Server(directory, "--follow", f"{files}/*.log") as server:
        before = memory_mib(server)
        append(paths)
        server.wait_kept("file", count)
        each = durable_after(server, "file", 2 * count, lambda: append(paths))
        one = durable_after(server, "file", 2 * count + 1, lambda: append(paths[count // 2 :][:1]))
        cells = quiet(server, before)
        lines = inputs.lines * inputs.times
        send = [BENCH, "tcp_limit", "send", server.address["syslog_tcp"], inputs.file, str(inputs.times)]
        senders = []
        seconds = durable_after(
            server, "syslog_tcp", lines, lambda: senders.append(subprocess.Popen(send, stdout=subprocess.DEVNULL))
        )
        senders[0].wait()
        row(f"{count} followed files", cells, each, one, lines / seconds, alone)
    shutil.rmtree(files)
    head = ["many at once", "memory", "of a processor, idle", "a line of each durable", "a line of one durable", "lines by another connection, of those without them"]
    return head, rows


PARTS = {
    "tcp": (part_tcp, "TCP, durable raw append"),
    "collector": (part_collector, "The collector alone"),
    "udp": (part_udp, "UDP"),
    "tls": (part_tls, "TLS"),
    "http": (part_http, "HTTP"),
    "cpu": (part_cpu, "CPU per GB"),
    "query": (part_query, "Writing while a query reads"),
    "sustained": (part_sustained, "With parsing, summaries and sealing"),
    "steady": (part_steady, "Steadiness"),
    "tail": (part_tail, "Beside a live tail"),
    "many": (part_many, "Many connections and files"),
}


main(ROOT / "docs/benchmarks/ingest.md", "bench-ingest", PARTS)
