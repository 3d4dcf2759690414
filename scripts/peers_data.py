"""The data of bench-peers.py: mixes of sample lines, and the words that are looked for in them.

Lines come from `loginson generate --replay`, which draws the digits of identifiers anew. This module makes of them what the generator
does not: other hosts, JSON. A mix is split over several files, because ripgrep runs a thread a file; all peers get the same bytes in the
same order. From one seed and one start come the same mixes. Words, phrases and patterns are drawn from a sample of the finished mix, by
the share of lines that have them, so no query is written for one kind of log.

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
# Of the sample in which words are counted: pieces, and bytes of each.
SAMPLE_PIECES = 24
SAMPLE_PIECE_BYTES = 1 << 20
# Lines of a many-hosts mix are of so many hosts, low numbers more often.
HOSTS = 10_000
COMBINED = re.compile(rb'\S+ \S+ \S+ \[[^]]+\] "([^"]*)" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"')
HEADER = re.compile(rb"<\d+>.{15} (\S+) ([^ \[:]+)(?:\[(\d+)\])?: ")
# Two words and what is between them; overlapping ones are found, too.
PHRASE = re.compile(r"(?<![A-Za-z0-9_])(?=([A-Za-z]{3,}[ /:=.-][A-Za-z]{3,})(?![A-Za-z0-9_]))")
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# A kind of characters → how a regular expression writes a run of them.
CLASSES = [(re.compile("[0-9]+"), "[0-9]"), (re.compile("[a-z]+"), "[a-z]"), (re.compile("[A-Z]+"), "[A-Z]")]


@dataclasses.dataclass
class Mix:
    """Lines that were made, and what a peer has to know to take them."""

    name: str
    files: list
    lines: int
    bytes: int
    # An identifier that one line has and no sample file.
    needle: str
    # Of JSON: the fields of time and message, and those that queries name; none of syslog.
    time_field: str = ""
    msg_field: str = ""
    equal_field: str = ""
    range_field: str = ""
    top_field: str = ""

    @property
    def is_json(self):
        return bool(self.time_field)


@dataclasses.dataclass
class Query:
    """A query in each peer's words. `NONCE` stands for a word that no line has, another one each time."""

    name: str
    # Whether answers are a number, hits of values, groups, rows with times, or any rows.
    kind: str
    logsql: str
    # Arguments of ripgrep, those that count exactly what LogsQL counts where they differ, and `limit` of the HTTP API.
    rg: list = None
    rg_exact: list = None
    limit: int = 0


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


MIXES = ["all", "without-1", "without-2", "without-3", "access-json", "one-host", "many-hosts", "high-cardinality"]


def make(name, directory, files, bytes_wanted, seed):
    """Makes a mix in `directory`; None where the sample files have nothing for it."""
    rng = random.Random(f"{seed} {name}")
    start_s = int(time.time()) // 60 * 60
    # Where JSON lines begin; they have 100 bytes at least.
    first_s = start_s - int(bytes_wanted) // 100 // RATE
    transform, fields = lambda lines: lines, {}
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
        fields = {"time_field": "time", "msg_field": "request"}
        fields |= {"equal_field": "status", "range_field": "request_time", "top_field": "remote_addr"}
    elif name == "high-cardinality":
        transform = lambda lines: high_cardinality(lines, rng, first_s)
        fields = {"time_field": "_time", "msg_field": "_msg"}
        fields |= {"equal_field": "request_id", "range_field": "duration_ms", "top_field": "user_id"}
    elif name != "all":
        sys.exit(f"no such mix: {name}; the mixes are {', '.join(MIXES)}")
    if not files:
        return None
    lines_expected = bytes_wanted // mean_bytes(transform(replayed(files, seed, start_s, 20_000)))
    # The history ends at the start of the run, so that no peer thinks the lines too old or too young.
    lines = transform(replayed(files, seed, start_s, int(lines_expected)))
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


def replayed(files, seed, start_s, lines):
    """Lines of the generator as RFC 3164, without their newlines, at RATE a second or more up to `start_s`."""
    rate = max(RATE, lines // SPAN_S)
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
            "_msg": line[head.end() :].decode(errors="replace"),
        }
        yield json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


# ---- queries ---------------------------------------------------------------------------------------------------------


def sampled(mix, rng):
    """Messages of the mix, and what else is in their lines."""
    pieces = []
    for path in mix.files:
        size = path.stat().st_size
        with open(path, "rb") as file:
            for _ in range(SAMPLE_PIECES // PARTS):
                file.seek(rng.randrange(max(1, size - SAMPLE_PIECE_BYTES)))
                pieces += file.read(SAMPLE_PIECE_BYTES).split(b"\n")[1:-1]
    lines = [line.decode() for line in pieces if line.isascii()]
    if not lines:
        sys.exit(f"{mix.name}: no line of ASCII in the sample")
    messages, rest = [], []
    for line in lines:
        if mix.is_json:
            message = json.loads(line)[mix.msg_field]
            messages.append(message)
            rest.append(line.replace(json.dumps(message), "", 1))
        else:
            head = HEADER.match(line.encode())
            end = head.end() if head else 0
            messages.append(line[end:])
            rest.append(line[:end])
    return lines, messages, rest


def nearest(rng, counts, lines, share, accept=lambda text: True):
    """One of those that about `share` of the lines have (within a factor of 1.6), else the one that comes nearest."""
    near = sorted(text for text, count in counts.items() if 1 / 1.6 <= count / lines / share <= 1.6)
    if near := [text for text in near if accept(text)]:
        return rng.choice(near)
    by_distance = sorted(counts, key=lambda text: (abs(math.log(counts[text] / lines / share)), text))
    return next((text for text in by_distance if accept(text)), None)


def shape(token):
    """A regular expression without a literal for texts like `10.250.19.102`: runs of a class, with their lengths."""
    out = ""
    while token:
        for pattern, written in CLASSES:
            if found := pattern.match(token):
                out += f"{written}{{{found.end()}}}"
                token = token[found.end() :]
                break
        else:
            out += re.escape(token[0])
            token = token[1:]
    return out


def queries(mix, seed, count):
    """The queries of a mix. `count(arguments)` is how many lines ripgrep counts."""
    rng = random.Random(f"{seed} {mix.name} queries")
    lines, messages, rest = sampled(mix, rng)
    words, phrases, shapes, once = (collections.Counter() for _ in range(4))
    for message in messages:
        words.update({word for word in WORD.findall(message) if len(word) >= 4})
        phrases.update(set(PHRASE.findall(message)))
        tokens = {token for token in message.split() if 6 <= len(token) <= 24}
        once.update(token for token in tokens if token.isalnum() and not token.isalpha())
        # Quotes and backslashes are written differently in JSON.
        shapes.update({shape(token) for token in tokens if re.fullmatch(r"[\w.:/-]+", token) and re.search("[0-9]", token)})
    if not words:
        sys.exit(f"{mix.name}: the sample has no word of four letters to search for")
    others = "\n".join(rest)
    other_words = "\n".join({word.lower() for word in WORD.findall(others)})
    # Words of the messages alone, so that ripgrep, which searches whole lines, counts the same. Else any.
    own = lambda word: word.lower() not in other_words
    pick = lambda counts, share, good: nearest(rng, counts, len(lines), share, good) or nearest(rng, counts, len(lines), share)
    word = pick(words, 0.05, own)
    second = pick(words, 0.015, lambda other: own(other) and other != word)
    phrase = pick(phrases, 0.01, lambda text: text not in others) or f"{word} {second}"
    long = pick(words, 0.05, lambda other: own(other) and len(other) >= 7 and other != word)
    part = long[1:-1]
    mixed = pick(words, 0.02, lambda other: own(other) and other not in (word, long))
    cased = mixed.lower() if mixed.upper() == mixed else mixed.upper()
    first, between, last = re.split(r"([^A-Za-z0-9_])", phrase)
    literal = f"{first}{between.replace('.', '[.]')}{last[0]}[A-Za-z]*{last[-1]}"
    outside = lambda pattern: not re.search(pattern, others)
    by_share = sorted(shapes, key=lambda pattern: abs(shapes[pattern] / len(lines) - 0.03))
    usual = [pattern for pattern in by_share if 0.003 <= shapes[pattern] / len(lines) <= 0.2]
    rng.shuffle(usual)
    loose = next((pattern for pattern in usual + by_share if outside(pattern)), "[0-9]{5}[a-z]{2}")
    singles = sorted(token for token, times in once.items() if times == 1)
    rng.shuffle(singles)
    needle = next((token for token in singles[:20] if own(token) and count(["-w", "-F", token]) == 1), None)
    # Without an identifier of its own the mix still has the one that was put in.
    needle = needle or mix.needle
    c = "| stats count() n"
    made = [
        Query("absent word", "number", f'"NONCE" {c}', ["-F", "NONCE"]),
        Query("needle", "number", f'"{needle}" !"NONCE" {c}', ["-F", needle], ["-w", "-F", needle]),
        Query("phrase", "number", f'"{phrase}" !"NONCE" {c}', ["-F", phrase], ["-w", "-F", phrase]),
        Query("word", "number", f'"{word}" !"NONCE" {c}', ["-F", word], ["-w", "-F", word]),
        Query(
            "two words, or",
            "number",
            f'("{word}" or "{second}") !"NONCE" {c}',
            ["-F", "-e", word, "-e", second],
            ["-w", "-F", "-e", word, "-e", second],
        ),
        Query("regex with a literal", "number", f'~"{literal}" !"NONCE" {c}', [literal]),
        Query("regex without a literal", "number", f'~`{loose}` !"NONCE" {c}', [loose]),
        Query("substring", "number", f'*{part}* !"NONCE" {c}', ["-F", part]),
        Query("any case", "number", f'i("{cased}") !"NONCE" {c}', ["-i", "-F", cased], ["-i", "-w", "-F", cased]),
        Query("count by application", "groups", '!"NONCE" | stats by (app_name) count() n'),
    ]
    if not mix.is_json:
        made.append(Query("top 10 process ids", "hits", '!"NONCE" | top 10 by (proc_id)'))
    made += [
        Query("distinct hosts", "number", '!"NONCE" | stats count_uniq(hostname) n'),
        Query("top 10 messages of a word", "hits", f'"{word}" !"NONCE" | top 10 by (_msg)'),
        Query("newest 100 by sort", "times", f'"{word}" !"NONCE" | sort by (_time desc) | limit 100'),
        Query("newest 100 by `limit=`", "times", f'"{word}" !"NONCE"', limit=100),
        Query("any 100", "rows", f'"{word}" !"NONCE" | limit 100'),
    ]
    if mix.is_json:
        rows = [json.loads(line) for line in lines]
        values = collections.Counter(str(row[mix.equal_field]) for row in rows)
        value = nearest(rng, values, len(lines), 0.03)
        raw = next(row[mix.equal_field] for row in rows if str(row[mix.equal_field]) == value)
        numbers = sorted(float(row[mix.range_field]) for row in rows)
        bound = numbers[int(len(numbers) * 0.97)]
        made += [
            Query("field equals", "number", f'{mix.equal_field}:="{value}" !"NONCE" {c}', ["-F", f'"{mix.equal_field}":{json.dumps(raw)}']),
            Query("range of a number", "number", f'{mix.range_field}:>{bound} !"NONCE" {c}'),
            Query("top 10 of a field with many values", "hits", f'!"NONCE" | top 10 by ({mix.top_field})'),
        ]
    return made
