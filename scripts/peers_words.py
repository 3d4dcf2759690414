"""Chooses what the queries of bench-peers.py look for: words, phrases, hosts, values and bounds of a mix, for peers_shapes.py.

They are drawn from a sample of the finished mix by the share of lines that have them, so no query is written for one kind of log.

Standard library only.
"""

import collections
import dataclasses
import datetime
import json
import math
import random
import re
import sys

from peers_data import HEADER, PARTS

# Of the sample in which words are counted: pieces, and bytes of each.
SAMPLE_PIECES = 8
SAMPLE_PIECE_BYTES = 1 << 20
# Two words and what is between them; overlapping ones are found, too.
PHRASE = re.compile(r"(?<![A-Za-z0-9_])(?=([A-Za-z]{3,}[ /:=.-][A-Za-z]{3,})(?![A-Za-z0-9_]))")
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Text that needs no escape in any query.
PLAIN = re.compile(r"[\w .,:;/=()\[\]-]{8,200}")
# A kind of characters → how a regular expression writes a run of them.
CLASSES = [(re.compile("[0-9]+"), "[0-9]"), (re.compile("[a-z]+"), "[a-z]"), (re.compile("[A-Z]+"), "[A-Z]")]


@dataclasses.dataclass
class Row:
    """A line of the sample."""

    host: str
    app: str
    message: str
    # The text that no message is, and, of JSON, all fields.
    rest: str
    fields: dict


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


def sampled(mix, rng):
    """Rows of pieces of the mix, of lines that are ASCII."""
    pieces = []
    for path in mix.files:
        size = path.stat().st_size
        with open(path, "rb") as file:
            for _ in range(SAMPLE_PIECES // PARTS):
                file.seek(rng.randrange(max(1, size - SAMPLE_PIECE_BYTES)))
                pieces += file.read(SAMPLE_PIECE_BYTES).split(b"\n")[1:-1]
    rows = [row_of(mix, line) for line in pieces if line.isascii()]
    if not rows:
        sys.exit(f"{mix.name}: no line of ASCII in the sample")
    return rows


def row_of(mix, line):
    text = line.decode()
    if mix.is_json:
        fields = json.loads(text)
        message = fields[mix.msg_field]
        return Row(fields["hostname"], fields[mix.app_field], message, text.replace(json.dumps(message), "", 1), fields)
    head = HEADER.match(line)
    if not head:
        return Row("", "", text, "", {})
    fields = {"severity": int(text[1 : text.index(">")]) % 8, "proc_id": head[3] and head[3].decode()}
    return Row(head[1].decode(), head[2].decode(), text[head.end() :], text[: head.end()], fields)


def choose(mix, seed, count):
    """What the names in queries of a mix stand for. `count(arguments)` is how many lines ripgrep counts."""
    rng = random.Random(f"{seed} {mix.name} queries")
    rows = sampled(mix, rng)
    found = words_of_messages(mix, rows, rng, count) | values_of_fields(mix, rows, rng)
    first, last = (mix.first_s + (mix.last_s - mix.first_s) * share for share in (0.45, 0.55))
    found["middle"] = f"[{rfc3339(first)}, {rfc3339(last)})"
    return found


def words_of_messages(mix, rows, rng, count):
    words, phrases, shapes, once, messages = (collections.Counter() for _ in range(5))
    for row in rows:
        words.update({word for word in WORD.findall(row.message) if len(word) >= 4})
        phrases.update(set(PHRASE.findall(row.message)))
        tokens = {token for token in row.message.split() if 6 <= len(token) <= 24}
        once.update(token for token in tokens if token.isalnum() and not token.isalpha())
        # Quotes and backslashes are written differently in JSON.
        shapes.update({shape(token) for token in tokens if re.fullmatch(r"[\w.:/-]+", token) and re.search("[0-9]", token)})
        if PLAIN.fullmatch(row.message):
            messages[row.message] += 1
    if not words:
        sys.exit(f"{mix.name}: the sample has no word of four letters to search for")
    others = "\n".join(row.rest for row in rows)
    other_words = "\n".join({word.lower() for word in WORD.findall(others)})
    # Words of the messages alone, so that ripgrep, which searches whole lines, counts the same. Else any.
    own = lambda word: word.lower() not in other_words
    lines = len(rows)
    pick = lambda counts, share, good: nearest(rng, counts, lines, share, good) or nearest(rng, counts, lines, share)
    word = pick(words, 0.05, own)
    second = pick(words, 0.015, lambda other: own(other) and other != word)
    beside = collections.Counter(
        other for row in rows if word in row.message for other in set(WORD.findall(row.message)) if len(other) >= 4 and other != word
    )
    phrase = pick(phrases, 0.01, lambda text: text not in others) or f"{word} {second}"
    long = pick(words, 0.05, lambda other: own(other) and len(other) >= 7 and other != word)
    mixed = pick(words, 0.02, lambda other: own(other) and other not in (word, long))
    change_case = lambda text: text.lower() if text.upper() == text else text.upper()
    first, between, last = re.split(r"([^A-Za-z0-9_])", phrase)
    outside = lambda pattern: not re.search(pattern, others)
    by_share = sorted(shapes, key=lambda pattern: abs(shapes[pattern] / lines - 0.03))
    usual = [pattern for pattern in by_share if 0.003 <= shapes[pattern] / lines <= 0.2]
    rng.shuffle(usual)
    singles = sorted(token for token, times in once.items() if times == 1)
    rng.shuffle(singles)
    needle = next((token for token in singles[:20] if own(token) and count(["-w", "-F", token]) == 1), None)
    five = [nearest(rng, words, lines, share, own) for share in (0.02, 0.01, 0.005, 0.002, 0.001)]
    return {
        # Without an identifier of its own the mix still has the one that was put in.
        "needle": needle or mix.needle,
        "word": word,
        "second": second,
        "beside": nearest(rng, beside, lines, 0.02) or second,
        "five": ", ".join(f'"{other}"' for other in dict.fromkeys(five) if other),
        "phrase": phrase,
        "phrase_first": first,
        "phrase_between": between,
        "phrase_last": last,
        "prefix": long[: max(5, len(long) - 2)],
        "part": long[1:-1],
        "cased": change_case(mixed),
        "cased_phrase": change_case(phrase),
        "literal": f"{first}{between.replace('.', '[.]')}{last[0]}[A-Za-z]*{last[-1]}",
        "loose": next((pattern for pattern in usual + by_share if outside(pattern)), "[0-9]{5}[a-z]{2}"),
        "message": nearest(rng, messages, lines, 0.002),
    }


def values_of_fields(mix, rows, rng):
    hosts, apps = (collections.Counter(getattr(row, name) for row in rows if getattr(row, name)) for name in ("host", "app"))
    pick = lambda counts, share, *others: nearest(rng, counts, len(rows), share, lambda text: text not in others)
    host, app = pick(hosts, 0.05), pick(apps, 0.1)
    app_words = collections.Counter(
        word for row in rows if row.app == app for word in set(WORD.findall(row.message)) if len(word) >= 4
    )
    # Where there is but one, the list has it twice.
    found = {"host": host, "host_other": pick(hosts, 0.02, host) or host, "app": mix.app_field, "app_value": app}
    found["app_word"] = nearest(rng, app_words, apps[app], 0.2)
    found |= {"stream": mix.stream_fields.split(",")[0], "stream_value": host, "stream_other": found["host_other"]}
    if found["stream"] != "hostname":
        found |= {"stream_value": app, "stream_other": pick(apps, 0.05, app) or app}
    found["many"] = mix.many_field
    if not mix.is_json:
        return found | {"severity": pick(collections.Counter(str(row.fields["severity"]) for row in rows if row.fields), 0.1)}
    texts = lambda name: collections.Counter(str(row.fields[name]) for row in rows if name in row.fields)
    equal, numbers = pick(texts(mix.equal_field), 0.03), sorted(map(float, texts(mix.number_field).elements()))
    raw = next(row.fields[mix.equal_field] for row in rows if str(row.fields.get(mix.equal_field, "")) == equal)
    return found | {
        "equal": mix.equal_field,
        "equal_value": equal,
        "equal_json": f'"{mix.equal_field}":{json.dumps(raw)}',
        "many_value": pick(texts(mix.many_field), 0.0005),
        "number": mix.number_field,
        "other_number": mix.other_number_field,
        "low": numbers[int(len(numbers) * 0.9)],
        "bound": numbers[int(len(numbers) * 0.97)],
    }


def rfc3339(unix_s):
    return datetime.datetime.fromtimestamp(unix_s, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
