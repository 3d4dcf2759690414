"""The records that both stores are given by test-victorialogs.py: the same at every run, of many shapes of fields.

Times are those of one day and its neighbours, and no two records have the same, so that an order by `_time` is total.
"""

import json
import random

# 2026-01-30T00:00:00Z, a Friday.
START_S = 1769731200
# The JSON records lie in these three days, lines of syslog ten days later: queries tell them apart by their range.
JSON_RANGE = ("2026-01-30T00:00:00Z", "2026-02-02T00:00:00Z")
SYSLOG_RANGE = ("2026-02-10T00:00:00Z", "2026-02-11T00:00:00Z")

HOSTS = ["web1", "web2", "db-1", "cache.example", "büro"]
APPS = ["nginx", "api", "worker", "cron"]
LEVELS = ["debug", "info", "warn", "error"]
USERS = ["ann", "bob", "carol", "dave", "Ève", "müller", "用户", "o'brien", "x=y"]
PATHS = ["/", "/index.html", "/api/v1/users", "/api/v1/items/42", "/search?q=a b", "/ä/ö", "/static/app.js"]
WORDS = "error warning failed login user request timeout connection refused closed opened file not found Error ERROR".split()


# Values that are hard to tell apart, or whose kind is open.
EDGES = ["5us", "01.2.3.4", "1.2.3.4", "1.2.3", "256.1.1.1", "inf", "+Inf", "-inf", "NaN", "nan", "+5", "-0", "0", "0x1f", "0b101", "0o17", "1_000", "1e400",
         "1e-7", "1e3", "007", "1.", ".5", "5 s", "1h-5m", "1.5h", "1h5m1s", "10:00", "null", "true", "١٢", "ẞ", "ß", "SS", "İ", "i", "ı", "I", "K", "k",
         "K", "ſ", "s", "Σ", "ς", "é", "e\u0301", "😀", "\u0001ctl", "a\u007fb", "line\u2028sep", "nb\u00a0sp", "</script>&", "2026-01-30",
         "2026-01-30T10:00:00", "2026-01-30T10:00:00Z", "2026-01-30T10:00:00.000Z", "2026-01-30T10:00:00.5Z", "2026-01-30T12:00:00+02:00", "2026-01-30 10:00:00Z",
         "1769767200", "1769767200000", "fe80::1%eth0", "::1", "::ffff:1.2.3.4", "10.0.0.0/8", "1KiB", "1kb", "5K", "12ab", "9007199254740993", "-9007199254740993",
         "-9223372036854775808", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "123456789012345678901234567890",
         "[]", "[1,2]", "[\"a\",\"b c\",null]", "{}", "{\"a\":{\"b\":1}}", "a=b", "a=\"b c\" d", "-", "--", "*", "\\", "\"", "'", "`", "a\\nb", "  ", "a  b"]


def time_text(ns):
    """RFC 3339 with as many digits as are needed, as VictoriaLogs writes it."""
    import datetime

    moment = datetime.datetime.fromtimestamp(ns // 10**9, datetime.timezone.utc)
    fraction = f".{ns % 10**9:09d}".rstrip("0").rstrip(".")
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def message(rng, i):
    """One of some kinds of text, and the kind."""
    ip = f"10.{rng.randrange(3)}.{rng.randrange(4)}.{rng.randrange(1, 255)}"
    user = rng.choice(USERS)
    took = rng.choice(["1.5s", "12ms", "250µs", "1m30s", "3s"])
    uuid = f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-4{rng.getrandbits(12):03x}-a{rng.getrandbits(12):03x}-{rng.getrandbits(48):012x}"
    kind = i % 16
    texts = {
        0: f"{rng.choice(WORDS)} {rng.choice(WORDS)} {rng.choice(WORDS)}",
        1: f"GET {rng.choice(PATHS)} from {ip} took {took}",
        2: f"user={user} ip={ip} took={took} status={rng.choice([200, 301, 404, 500])}",
        3: f'msg="login \\"{user}\\" ok" code={rng.randrange(5)} empty= path="{rng.choice(PATHS)}"',
        4: json.dumps({"user": user, "took": rng.randrange(1000) / 8, "nested": {"a": rng.randrange(3), "b": [1, "x", None]}, "ok": i % 2 == 0, "none": None}, ensure_ascii=i % 3 == 0),
        5: f"request {uuid} of user {rng.randrange(100)} at 2026-01-30T{rng.randrange(24):02d}:15:{rng.randrange(60):02d}.{rng.randrange(1000):03d}Z done",
        6: f"\x1b[1;31mERROR\x1b[0m disk \x1b[32m{rng.choice(HOSTS)}\x1b[m full",
        7: f"line one of {i % 7}\nline two: {rng.choice(WORDS)}\n\tat {rng.choice(APPS)}.main(x.java:{rng.randrange(99)})",
        8: f"Größe {rng.randrange(100)} größer als {rng.randrange(100)}; 用户 {user} ok",
        9: f"<165>1 2026-01-31T0{rng.randrange(10)}:14:15.{rng.randrange(1, 1000):03d}Z {rng.choice(HOSTS[:4])} {rng.choice(APPS)} {rng.randrange(9999)} ID{i % 5} [exampleSDID@32473 iut=\"{i % 4}\" eventID=\"{i % 9}\"] an event {rng.choice(WORDS)}",
        10: f"ip={ip};port={rng.randrange(1, 65535)};user=\"{user}\";",
        11: f"Error: failed to open \"/var/{rng.choice(APPS)}/{rng.randrange(9)}.log\": permission denied",
        12: f"cache hit ratio {rng.randrange(1000) / 10}% size {rng.randrange(50)}KB items {rng.randrange(10000)}",
        13: "",
        14: f"{rng.choice(['foo_bar', 'foo-bar', 'foo.bar', 'foobar', 'FooBar', 'foo bar'])}: {rng.choice(WORDS)},{rng.choice(WORDS)}",
        15: f"[{rng.choice(LEVELS).upper()}] 0x{rng.getrandbits(32):08x} 2026/01/30 12:{rng.randrange(60):02d}:09 {rng.randrange(-50, 50)} done",
    }
    return kind, texts[kind]


def json_records(count=1600):
    """The records that go in as JSON lines, in the order of time."""
    rng = random.Random(20260131)
    records = []
    for i in range(count):
        # The middle day has most of them; fractions of a second have 0 to 9 digits.
        second = START_S + i * 3 * 86400 // count + rng.randrange(60)
        digits = [1, 10**3, 10**6, 10**9][i % 4]
        ns = second * 10**9 + (rng.randrange(10**9) // digits) * digits
        kind, msg = message(rng, i)
        host = HOSTS[i % len(HOSTS)] if kind != 13 else "web1"
        record = {
            "_time": ns,
            "_msg": msg,
            "host": host,
            "app": APPS[(i // 5) % len(APPS)],
            "seq": str(i),
            "kind": f"k{kind}",
        }
        if rng.random() < 0.8:
            record["lvl"] = rng.choice(LEVELS)
        if rng.random() < 0.9:
            record["n"] = rng.choice([rng.randrange(10), rng.randrange(1000), -rng.randrange(100)])
        if rng.random() < 0.7:
            record["x"] = rng.choice([rng.randrange(-4000, 4000) / 16, rng.randrange(100) / 10, 0.5])
        if rng.random() < 0.3:
            record["big"] = rng.choice([2**53 + rng.randrange(100), 2**63 + rng.randrange(9), 10**18 + rng.randrange(9), -(2**40)])
        if rng.random() < 0.6:
            record["dur"] = rng.choice(["1.5s", "10ms", "1h2m", "250µs", "3m", "90s", "1d", "2w", "0s", "-5s", "7ns"])
        if rng.random() < 0.6:
            record["size"] = rng.choice(["10KB", "1.5MiB", "2GB", "512B", "3KiB", "100", "7Ki", "1TB"])
        if rng.random() < 0.7:
            record["ip"] = f"{rng.choice([10, 192, 127])}.{rng.choice([0, 168])}.{rng.randrange(3)}.{rng.randrange(256)}"
        if rng.random() < 0.2:
            record["ip6"] = rng.choice(["fd00::1", "2001:db8::ff", "::ffff:10.0.0.1", "fe80::1:2", "10.1.2.3", "::1"])
        if rng.random() < 0.6:
            record["ts"] = time_text((START_S + rng.randrange(3 * 86400)) * 10**9 + rng.choice([0, 5 * 10**8, 123456789]))
        if rng.random() < 0.4:
            record["tags"] = json.dumps(rng.sample(["prod", "dev", "a b", "ü", "x\"y", 1, 2.5, True, None], rng.randrange(4)), separators=(",", ":"), ensure_ascii=False)
        if rng.random() < 0.5:
            record["user"] = {"name": rng.choice(USERS), "id": rng.randrange(20), "roles": rng.sample(["admin", "dev"], rng.randrange(3))}
        if rng.random() < 0.3:
            record["odd name"] = rng.choice(["a", "b c", "", "ü"])
        if rng.random() < 0.2:
            record["ключ"] = rng.choice(["значение", "другое", "x"])
        if rng.random() < 0.4:
            record["mixed"] = rng.choice(["5", "10", "abc", "1.5", "2s", "1KB", "10.0.0.7", "2026-01-30T10:00:00Z", "-3", "Z", "ünï", "1e3", "0x1f", "1_000"])
        if rng.random() < 0.3:
            record["flag"] = rng.choice([True, False])
        if rng.random() < 0.3:
            record["empty"] = ""
        if rng.random() < 0.3:
            record["text"] = rng.choice(["Hello, World", "hello world", "HELLO", "say \"hi\"", "back\\slash", "tab\there", "two\nlines", " lead", "trail ", "ends with quote\"", "a,b,,c", "€uro", "x*y", "<N>", "é", "e\u0301"])
        if rng.random() < 0.3:
            record["code"] = str(rng.choice([200, 301, 404, 500, 503]))
        if rng.random() < 0.2:
            record["mask"] = f"host-{rng.randrange(4)}.eu-{rng.choice(['west', 'east'])}.example.com"
        record["const"] = "same"
        records.append(record)
    edges = random.Random(52)
    for record in records:
        if edges.random() < 0.4:
            record["edge"] = edges.choice(EDGES)
    used = set()
    for record in records:
        while record["_time"] in used:
            record["_time"] += 1
        used.add(record["_time"])
        record["_time"] = time_text(record["_time"])
    return records


def json_body():
    """The body of `/insert/jsonline`."""
    return "".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in json_records()).encode()


def syslog_lines(count=200):
    """Lines of syslog: most of RFC 5424, some of RFC 3164 with a year in the time."""
    rng = random.Random(3164)
    start_ns = (START_S + 11 * 86400) * 10**9
    lines = []
    for i in range(count):
        ns = start_ns + i * 400 * 10**9 + rng.randrange(1000) * 10**6
        priority = rng.randrange(24) * 8 + rng.randrange(8)
        host, app = rng.choice(["gw1", "gw2"]), rng.choice(["sshd", "kernel", "postfix"])
        pid = rng.choice(["-", "17", "4711"])
        data = rng.choice(["-", '[meta@1 seq="7" lang="de"]', '[a@1 x="1"][b@2 y="q\\"uote"]'])
        text = rng.choice(["session opened for user root", f"port {rng.randrange(65535)} closed", "Größe 12", f"took={rng.randrange(99)}ms ok"])
        lines.append(f"<{priority}>1 {time_text(ns)} {host} {app} {pid} ID{i % 3} {data} {text}")
    return lines
