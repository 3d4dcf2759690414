"""Queries for test-victorialogs.py, drawn from a grammar of LogsQL by a seed.

Each query has one right answer: what the language leaves open (which rows a `limit` without `sort` keeps, which value `any` takes) is
drawn only where all choices give the same answer. The same seed gives the same queries.
"""

import json
import re

FIELDS = ["lvl", "host", "app", "seq", "kind", "n", "x", "big", "dur", "size", "ip", "ip6", "ts", "tags", "user.name", "user.id",
          "user.roles", "odd name", "ключ", "mixed", "edge", "flag", "empty", "text", "code", "mask", "const", "nosuch", "_msg"]
# Fields in whose order both agree: numbers, or texts without digits.
ORDERED = ["n", "x", "seq", "user.id", "code", "lvl", "app", "flag", "ключ", "nosuch"]
GROUPS = ["lvl", "host", "app", "kind", "flag", "code", "user.name", "user.id", "ключ", "mask", "const", "nosuch", "odd name"]
NUMBERS = ["n", "x", "seq", "user.id", "code"]
QUANTITIES = NUMBERS + ["big", "dur", "size", "mixed", "edge", "text", "lvl", "ip", "ts", "nosuch"]
WORDS = ["error", "Error", "ERROR", "login", "failed", "not", "found", "user", "GET", "foo", "foobar", "foo_bar", "größer", "Größe", "用户",
         "line", "done", "took", "api", "web1", "ann", "müller", "Ève", "x", "10", "404", "k5", "prod", "a", "K", "ß", "SS", "ſ", "i", "İ", "é"]
PHRASES = ["failed to open", "error,error", "not found", "foo-bar", "foo.bar", "foo bar", "line two", "hello world", "Hello, World", "a b", "b c",
           "user ann", "ip=10.0", "status=404", "hit ratio", "x*y", "<N>", "€uro", "say \"hi\"", "back\\slash", "tab\there", "two\nlines", " lead",
           "trail ", "größer als", "permission denied", "10.0.", "-bar", "foo-", "", " ", ",", "\"", "/", "1.5", "a,b,,c"]
VALUES = ["error", "warn", "web1", "db-1", "cache.example", "büro", "nginx", "api", "5", "05", "-3", "0.5", ".5", "500", "200", "true", "1.5s", "10ms",
          "90s", "10KB", "1.5MiB", "100", "10.0.0.7", "2026-01-30T10:00:00Z", "1e3", "0x1f", "1_000", "2s", "1KB", "Z", "ünï", "same", "x", "k3", "",
          "9007199254740993", "9007199254740992", "1000000000000000003", "-1099511627776", "ann", "用户", "o'brien", "x=y", "Hello, World", "hello world",
          "two\nlines", " lead", "fd00::1", "::1", "[]", "[\"admin\"]", "01.2.3.4", "inf", "NaN", "a"]
TEXTS = [value for value in VALUES if value not in ("01.2.3.4", "NaN", "inf")]
BOUNDS = ["0", "1", "5", "10", "-3", "100", "0.5", "-1.5", "500", "999", "1.5s", "10ms", "1m", "1h2m", "-5s", "1d", "10KB", "1MiB", "1.5MiB", "512B", "2GB",
          "10.0.0.7", "10.0.1.0", "192.168.0.1", "9007199254740992", "9007199254740993", "1000000000000000003", "error", "web1", "a", "Z", "b", "inf", "-inf",
          "2026-01-30T10:00:00Z", "2026-01-31", "0x10", "1_000", "1w"]
# What stands in ranges.
NUMERIC = ["0", "1", "5", "10", "-3", "100", "0.5", "-1.5", "500", "999", "1.5s", "10ms", "1m", "-5s", "1d", "10KB", "1.5MiB", "512B", "10.0.0.7", "10.0.1.0", "9007199254740992",
           "9007199254740993", "1000000000000000003", "inf", "-inf", "0x10", "1w", "\"7\""]
REGEXES = ["err", "(?i)err", "^e", "r$", "error|warn", "^(error|warn)$", "[0-9]+", "\\d+ms", "^$", "^.*$", "^.+$", "web[12]", "\\.", "\\s", "\"", "ü", "[A-Z]{2,}", "(?i)größe",
           "foo.bar", "\\bfoo\\b", "one.*two", "^-", "\\pL", "^[0-9]+$", "a|b", "(ann|bob)", ".", "^h", "[^a-z]", "(?i)K"]
PATTERNS = ["<N>", "took <N>ms", "user=<W>", "<IP4>", "<UUID>", "<DATE>", "<TIME>", "<DATETIME>", "line one of <N>", "items <N>", "<W>: <W>", "size <N>KB", "0x<N>", "<N>.<N>"]
ITEMS = ["prod", "dev", "a b", "ü", "1", "2.5", "true", "null", "x\"y", "admin", ""]
NAMES = ["Error", "Hello", "FooBar", "Hello World", "Web1", "Ann", "Größe", "Hello, World"]
EXTRACTS = ["user=<u> ip=<i>", "took <t>", "<a>:<b>", "ip=<i>;port=<p>;", "<a>-<b>", "[<l>] <rest>", "<w> ", "code=<c> ", "\"<q>\""]
GROUPED = ["user=(?P<u>[a-z]+)", "(?P<d>[0-9]+)", "(?P<a>[a-z]+)[-.](?P<b>[a-z]+)", "(?i)(?P<e>error)"]
OLD = ["o", "error", " ", "10", "ü", "/", "\""]
OLD_REGEXES = ["o+", "[0-9]+", "(\\w+)@", "^.", "e|r", "(a)(b)?", "\\s+"]
NEW = ["", "X", "$1", "<$0>", "${1}x"]
STREAM_REGEXES = ["web.*", "web1|db-1", "", ".+", "a", "api", ".*e.*"]
STREAM_TESTS = [" in (web1, \"db-1\", api)", " not_in (web1, nginx)"]
# Values that are worth a look by themselves, beside those above.
ODD = ["-0", "007", "1.", "+5", "1e400", "1h-5m", "10:00", "5 s", "1.2.3", "256.1.1.1", "0b11", "1.5.", "null", "--1", "1,5", "0.1", "1e-7", "123456789012345678901234567890",
       "{\"a\":1,\"b\":{\"c\":[1,\"x\"],\"d\":null,\"e\":\"\"}}", "[1,\"a\",null,{\"b\":2}]", "a=1 b=\"x y\" c= d", "Straße", "1700000000", "1700000000123", "\u0001ctl\u007f", "\u2028", "😀 x", "</script>&"]
USES = ["math v + 0 as w", "math v * 2 as w, v default 7 as z", "format \"<q:v>|<uc:v>|<lc:v>|<hexencode:v>|<urlencode:v>\" as w", "pack_json fields (v, seq) as w", "len(v) as w", "unpack_words from v as w",
        "format \"<time:v>\" as w", "format \"<duration:v>\" as w", "format \"<duration_seconds:v>\" as w", "format \"<ipv4:v>\" as w", "format \"<base64encode:v>\" as w", "format \"<hexnumencode:v>\" as w",
        "collapse_nums at v", "collapse_nums at v prettify", "unpack_json from v", "unpack_logfmt from v", "json_array_len(v) as w", "unroll by (v)", "json_array_concat \"-\" from v as w", "copy v as w", "hash(v) as w",
        "split \",\" from v as w", "pack_logfmt fields (v) as w"]
RESULTS = ["filter r0:>2", "math r0 * 2 as m", "filter r0:*", "sort by (r0 desc)", "stats count() k, sum(r0) s, count_uniq(r0) m", "format \"<r0>\" as f"]
JOINED = ["union rows({\"seq\":\"a\",\"lvl\":\"\"} {host=\"b\"})", "join by (lvl) rows({\"lvl\":\"error\",\"k\":\"1\"}, {\"lvl\":\"warn\",\"k\":\"2\"})"]
# Spans and ends within the days of the records.
TIMES = ["2026-01-30", "2026-01-31", "2026-02-01", "2026-01", "2026", "2026-01-31T12", "2026-01-31T12:30", "2026-01-31T12:30:15Z", "2026-01-30T06:00:00.000Z", "2026-01-31T10:00:00.5Z",
         "2026-01-31T12:00+02:00", "2026-01-31T12:00:00-05:30", "2026-01-30T00:00:00.000Z"]


def quoted(text, rng=None):
    """The text as a string of LogsQL; sometimes in other quotes."""
    if rng is not None and "`" not in text and "\n" not in text and rng.random() < 0.15:
        return f"`{text}`"
    if rng is not None and "'" not in text and "\\" not in text and "\n" not in text and "\t" not in text and rng.random() < 0.15:
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False)


def name(field):
    return field if field.replace(".", "").replace("_", "").isalnum() else quoted(field)


class Grammar:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, choices):
        return self.rng.choice(choices)

    def chance(self, p):
        return self.rng.random() < p

    def several(self, choices, most):
        return self.rng.sample(choices, self.rng.randint(1, min(most, len(choices))))

    def word(self, value):
        """A value bare, where that is possible, or quoted."""
        if value and value.isalnum() and len(value) > 1 and self.chance(0.6) and value.lower() not in ("and", "or", "not"):
            return value
        return quoted(value, self.rng)

    # ---- filters

    def field(self):
        return self.pick(FIELDS)

    def test(self):
        """What stands behind `field:`."""
        r = self.rng
        kind = r.randrange(30)
        value, phrase = self.pick(VALUES), self.pick(PHRASES + WORDS)
        if kind < 2:
            return self.word(self.pick(WORDS))
        if kind == 2:
            return quoted(phrase, r)
        if kind == 3:
            return quoted(phrase, r) + "*" if phrase else "*"
        if kind == 4:
            return "*" + quoted(phrase, r) + "*"
        if kind < 7:
            return "=" + self.word(value)
        if kind == 7:
            return "=" + quoted(value) + "*"
        if kind == 8:
            return f"!={quoted(value)}"
        if kind == 9:
            return "~" + quoted(self.pick(REGEXES))
        if kind == 10:
            return "!~" + quoted(self.pick(REGEXES))
        if kind == 11:
            return f"i({quoted(phrase)}{self.pick(['', '*'])})" if phrase else "i(\"\")"
        if kind < 15:
            return self.pick([">", ">=", "<", "<="]) + self.bound()
        if kind == 15:
            a, b = self.pick(NUMERIC), self.pick(NUMERIC)
            return f"range{self.pick('([')}{a}, {b}{self.pick(')]')}"
        if kind == 16:
            return f"in({', '.join(quoted(v) for v in self.several(VALUES, 4))})"
        if kind == 17:
            return f"contains_all({', '.join(quoted(v) for v in self.several(WORDS + PHRASES, 3))})"
        if kind == 18:
            return f"contains_any({', '.join(quoted(v) for v in self.several(WORDS + PHRASES, 3))})"
        if kind == 19:
            return f"seq({', '.join(quoted(v) for v in self.several(WORDS, 3))})"
        if kind == 20:
            return self.pick(["len_range(0, 5)", "len_range(5, 10)", "len_range(20, inf)", "len_range(3, 3)"])
        if kind == 21:
            a, b = sorted(self.rng.sample(["", "a", "b", "error", "host", "warn", "x", "Z", "nginx", "ü", "true", "büro"], 2))
            return f"string_range({quoted(a)}, {quoted(b)})"
        if kind == 22:
            return self.pick(["ipv4_range(10.0.0.0/8)", "ipv4_range(10.0.0.5, 10.0.1.77)", "ipv4_range(192.168.1.0/24)", "ipv4_range(0.0.0.0/0)", "ipv4_range(10.0.0.7)",
                              "ipv6_range(fd00::/8)", "ipv6_range(::1)", "ipv6_range(\"::/0\")", "ipv6_range(2001:db8::1, 2001:db8::ffff)"])
        if kind == 23:
            return f"{self.pick(['pattern_match', 'pattern_match_full', 'pattern_match_prefix', 'pattern_match_suffix'])}({quoted(self.pick(PATTERNS))})"
        if kind == 24:
            return f"eq_field({name(self.pick(FIELDS))})"
        if kind == 25:
            return f"json_array_contains_any({', '.join(quoted(v) for v in self.several(ITEMS, 3))})"
        if kind == 26:
            return self.pick(["contains_common_case", "equals_common_case"]) + f"({quoted(self.pick(NAMES))})"
        if kind == 27:
            return "*"
        if kind == 28:
            return "\"\""
        return f"({self.test()} {self.pick(['or', 'and', ''])} {self.test()})"

    def bound(self):
        return self.pick(BOUNDS) if self.chance(0.8) else quoted(self.pick(BOUNDS + TEXTS))

    def time(self):
        t = lambda: self.pick(TIMES)
        return "_time:" + self.pick([
            t(), t(), f"[{t()}, {t()}]", f"[{t()}, {t()})", f"({t()}, {t()}]", f"({t()}, {t()})", f">{t()}", f">={t()}", f"<{t()}", f"<={t()}",
            "day_range[08:00, 18:00)", "day_range(10:15, 12:30] offset 2h", "day_range[00:00, 23:59]", "week_range[Mon, Fri]", "week_range[Sat, Sat]", "week_range(Fri, Sun) offset 3h"]) \
            + (self.pick(["", "", "", " offset 1h", " offset -90m"]) if self.chance(0.1) else "")

    def stream(self):
        label = self.pick(["host", "app"])
        value = self.pick(["web1", "web2", "db-1", "büro", "nginx", "api", "nothing", ""])
        test = self.pick([f"={quoted(value)}", f"!={quoted(value)}", f"=~{quoted(self.pick(STREAM_REGEXES))}", f"!~{quoted(self.pick(STREAM_REGEXES[:2]))}",
                          *STREAM_TESTS])
        other = f"{self.pick([',', ' or '])}{self.pick(['app', 'host'])}{self.pick(['=', '!='])}{self.pick(['api', 'web2', 'cron'])}" if self.chance(0.3) else ""
        return f"{{{label}{test}{other}}}"

    def filter(self, depth=0):
        r = self.rng.random()
        if depth < 2 and r < 0.3:
            parts = [self.filter(depth + 1) for _ in range(self.rng.randint(2, 3))]
            return self.pick([" ", " and ", " or ", " OR "]).join(f"({part})" if " or " in part or " OR " in part or self.chance(0.2) else part for part in parts)
        if r < 0.42:
            return f"{self.pick(['!', '-', 'not ', 'NOT '])}{self.group(depth)}"
        if r < 0.5:
            return self.time()
        if r < 0.56:
            return self.stream()
        if r < 0.6:
            return self.subquery()
        if r < 0.63:
            return "*"
        if r < 0.68:
            return self.pick([self.word(self.pick(WORDS)), quoted(self.pick(PHRASES)), self.test_of_message()])
        if r < 0.7:
            a, b = self.rng.sample(NUMBERS, 2)
            return f"{a}:{self.pick(['lt_field', 'le_field'])}({b})"
        if r < 0.74:
            # No values of fields that one of the stores adds.
            return self.pick([f"user.*:{self.test()}", f"*:={self.word(self.pick(['web1', 'ann', 'same', 'k3', 'b c', 'büro', '0.5', 'nothing']))}",
                              f"*:{self.word(self.pick(['foobar', 'ann', 'größer', 'nothing', 'Hello']))}", f"*:contains_any({self.pick(['ann, bob', 'foobar', 'web1'])})"])
        field, test = self.field(), self.test()
        # How the values of `edge` compare is in the list of differences, with a query for each of them.
        while field == "edge" and re.search(r"[<>]|range", test):
            test = self.test()
        return f"{name(field)}:{test}"

    def test_of_message(self):
        while True:
            test = self.test()
            # `!x` without a field is a negation, and `*` everything.
            if not test.startswith(("!", "*", "\"\"")):
                return test

    def group(self, depth):
        inner = self.filter(depth + 1)
        return inner if inner.count(" ") == 0 and not inner.startswith(("!", "-")) else f"({inner})"

    def subquery(self):
        field = self.pick(["host", "lvl", "app", "n", "user.name", "seq"])
        inner = f"{name(self.pick(GROUPS))}:{self.test()}"
        tail = self.pick([f"fields {field}", f"uniq by ({field})", f"stats by ({field}) count() hits | fields {field}"])
        return f"{field}:{self.pick(['in', 'contains_any'])}({inner} | {tail})"

    def narrow(self):
        """A filter of few rows, of whose order nothing is said."""
        low = self.rng.randrange(1500)
        return self.pick([f"seq:range[{low}, {low + self.rng.randint(1, 60)}]", f"seq:<{self.rng.randint(3, 80)}", f"seq:={low}", f"seq:>{1599 - self.rng.randint(3, 80)}"])

    # ---- pipes that change each row by itself; they give the names that they make

    def literal(self):
        """A pipe that makes a field of a given value."""
        value = self.pick(VALUES + PHRASES + BOUNDS + ODD)
        return f"format {quoted(value.replace('<', '&lt;'))} as v", ["v"]

    def row_pipe(self):
        r = self.rng
        field = name(self.pick(FIELDS))
        choice = r.randrange(27)
        if choice == 0:
            return f"extract {quoted(self.pick(EXTRACTS))} from {self.pick(['_msg', '_msg', 'mask', 'text', 'ts'])}" + self.keep(), ["u", "i", "t", "a", "b", "p", "l", "rest", "w", "c", "q"]
        if choice == 1:
            return f"extract_regexp {quoted(self.pick(GROUPED))} from {self.pick(['_msg', 'text', 'mask'])}" + self.keep(), ["u", "d", "a", "b", "e"]
        if choice == 2:
            return f"format {quoted(self.format())} as v" + self.keep(), ["v"]
        if choice == 3:
            return f"math {self.math()} as v", ["v"]
        if choice == 4:
            return f"math round({self.math()}, {self.pick(['0.5', '0.25', '5', '1'])}) as v, v + 1 as w", ["v", "w"]
        if choice == 5:
            return f"len({field}) as v", ["v"]
        if choice == 6:
            return f"replace ({quoted(self.pick(OLD))}, {quoted(self.pick(['', 'X', '<>', 'o']))}) at {field}" + self.pick(["", " limit 1"]), [field]
        if choice == 7:
            return f"replace_regexp ({quoted(self.pick(OLD_REGEXES))}, {quoted(self.pick(NEW))}) at {field}" + self.pick(["", " limit 2"]), [field]
        if choice == 8:
            return f"unpack_json from {self.pick(['_msg', 'tags', 'text'])}{self.pick(['', ' fields (user, nested.a)', ' result_prefix j_'])}" + self.keep(), ["user", "took", "nested.a", "nested.b", "ok", "none", "j_user", "j_nested.a"]
        if choice == 9:
            return f"unpack_logfmt from _msg{self.pick(['', ' fields (user, code)', ' result_prefix l_'])}" + self.keep(), ["user", "ip", "took", "status", "msg", "code", "path", "l_user", "l_code"]
        if choice == 10:
            return f"unpack_words from {field} as v{self.pick(['', ' drop_duplicates'])}", ["v"]
        if choice == 11:
            return f"split {quoted(self.pick([',', ' ', '.', '-', 'o']))} from {field} as v", ["v"]
        if choice == 12:
            return f"copy {field} as v", ["v", field]
        if choice == 13:
            return f"rename {field} as v", ["v"]
        if choice == 14:
            return f"coalesce({', '.join(name(f) for f in self.several(FIELDS, 3))}){self.pick(['', ' default zzz'])} as v", ["v"]
        if choice == 15:
            return f"pack_json fields ({', '.join(name(f) for f in self.several(FIELDS[:-3], 4))}) as v", ["v"]
        if choice == 16:
            return f"pack_logfmt fields ({', '.join(name(f) for f in self.several(['lvl', 'host', 'text', 'const', 'seq', 'kind'], 1))}) as v", ["v"]
        if choice == 17:
            return f"collapse_nums at {self.pick(['_msg', 'text', 'ip', 'ts', 'mask'])}{self.pick(['', ' prettify'])}", ["_msg", "text", "ip", "ts", "mask"]
        if choice == 18:
            return f"decolorize {field}", [field]
        if choice == 19:
            return f"hash({field}) as v", ["v"]
        if choice == 20:
            return f"json_array_len({self.pick(['tags', 'user.roles', 'text', 'lvl'])}) as v", ["v"]
        if choice == 26:
            return self.pick(["extract_regexp if (kind:k2) \"status=(?P<s>[0-9]+)\"", "extract \"<plain:p> <q>\" from _msg", "extract if (kind:k10) \"ip=<i>;\" from _msg", "unpack_syslog from _msg result_prefix y. keep_original_fields",
                              "format \"<time:seq>\" as v", "format \"<hexencode:host>\" as h | format \"<hexdecode:h>\" as v", "format \"<base64encode:host>\" as h | format \"<base64decode:h>\" as v",
                              "format \"<urlencode:text>\" as h | format \"<urldecode:h>\" as v", "json_array_concat \"; \" from tags as v", "replace_regexp if (lvl:*) (\"(r+)\", \"<$1>\") at lvl", "unroll if (lvl:error) by (tags)"]), ["s", "p", "q", "i", "y.hostname", "y.message", "h", "v", "lvl", "tags"]
        if choice == 21:
            return f"time_add {self.pick(['1h', '-1d', '1.5s', '250ms'])}{self.pick([' at ts', ' at ts', ' at lvl'])}", ["ts", "lvl"]
        if choice == 22:
            return f"unroll by ({self.pick(['tags', 'user.roles', 'tags, user.roles', 'lvl'])})", ["tags", "user.roles", "lvl"]
        if choice == 23:
            return f"filter {self.filter(1)}", []
        if choice == 24:
            literal, fields = self.literal()
            pipe = self.pick(USES) if self.chance(0.8) else f"filter v:{self.test()}"
            return f"{literal} | {pipe}", ["v", "w", "z", "a", "b.c", "b.d", "b.e", "b", "c", "d"]
        condition = f"{name(self.pick(GROUPS))}:{self.test()}"
        return self.pick([f"format if ({condition}) {quoted(self.format())} as v", f"replace if ({condition}) (\"o\", \"0\") at {field}"]), ["v", field]

    def keep(self):
        return self.pick(["", "", "", " keep_original_fields", " skip_empty_results"])

    def format(self):
        parts = []
        for _ in range(self.rng.randint(1, 3)):
            field = self.pick([f for f in FIELDS if ">" not in f])
            option = self.pick(["", "", "", "q:", "uc:", "lc:", "urlencode:", "hexencode:", "base64encode:", "duration_seconds:", "duration:", "hexnumencode:", "ipv4:"])
            parts.append(f"<{option}{field}>")
        return self.pick([" ", "-", ", ", "x"]).join(parts)

    def math(self, depth=0):
        if depth > 1 or self.chance(0.35):
            return self.pick([self.pick(NUMBERS + ["n", "x", "dur", "size"]), str(self.rng.randrange(20)), "0.5", "1KB", "1s"])
        kind = self.rng.randrange(7)
        a, b = self.math(depth + 1), self.math(depth + 1)
        if kind == 6:
            return self.pick([f"exp({a} / 1000)", f"ln(abs({a}) + 1)", f"({a} ^ 2)", f"round({a})", f"(abs(floor({a})) & 7)", f"(seq or {self.rng.randrange(9)})", f"(seq xor {self.rng.randrange(9)})", f"max({a}, {b}, 3)"])
        if kind < 4:
            return f"({a} {self.pick(['+', '-', '*', '/', '%', '+', '-', '*'])} {b})"
        if kind == 4:
            return f"{self.pick(['min', 'max'])}({a}, {b})"
        return self.pick([f"abs({a})", f"floor({a})", f"ceil({a})", f"({a} default {b})"])

    # ---- stats

    def function(self, number):
        """A function whose result does not depend on the order of rows, and its name."""
        q = name(self.pick(QUANTITIES))
        numeric, ordered = name(self.pick(NUMBERS)), self.pick(ORDERED)
        whole = self.pick(["n", "seq", "user.id", "code"])
        g = name(self.pick(GROUPS))
        text = self.pick([
            "count()", "count()", f"count({g})", f"count({g}, {q})", f"count_empty({g})", f"count_empty({g}, {q})", f"count_uniq({g})", f"count_uniq({g}, {q})", f"count_uniq_hash({g})",
            f"sum({numeric})", f"avg({numeric})", f"max({ordered})", f"max({numeric})", f"min({numeric})", f"sum({numeric}, x)", f"sum_len({g})", f"median({whole})", f"quantile({self.pick(['0.1', '0.5', '0.9', '0.99', '0', '1'])}, {whole})",
            f"stddev({numeric})", f"uniq_values({ordered})", f"histogram({numeric})", "row_min(seq, seq, lvl)", "row_max(seq, seq)", f"field_min(seq, {g})", f"field_max(seq, {g})", f"field_max(_time, {g})", "json_values(seq, lvl) sort by (seq) limit 3",
            f"rate_sum({numeric})", "rate()"])
        condition = f" if ({name(self.pick(GROUPS))}:{self.test()})" if self.chance(0.2) else ""
        if found := re.match(r"(?:min|median|quantile|stddev)\((?:[0-9.]+, )?(.*)\)$", text):
            # What these make of missing values is in the list of differences.
            condition, self.guards = "", self.guards | {found[1]}
        if not condition and text == "count()" and self.chance(0.3):
            return f"count() switch(case ({name(self.pick(GROUPS))}:{self.test()}) as r{number}, case ({name(self.pick(GROUPS))}:{self.test()}) as s{number}, default as t{number})"
        return f"{text}{condition} r{number}"

    def by(self):
        if self.chance(0.25):
            return ""
        keys = [name(g) for g in self.several([g for g in GROUPS if g not in ("code", "user.id")], 2)]
        if self.chance(0.35):
            keys.append(self.pick(["_time:1h", "_time:6h", "_time:1d", "_time:1d offset 2h", "_time:5m", "_time:week", "_time:hour", "n:10", "n:100", "code:100", "user.id:5", "ip:/24", "ip:/16", "seq:100", "dur:1s", "x:1"]))
        return f" by ({', '.join(keys)})"

    def stats(self, filter):
        """A filter and `stats`."""
        self.guards = set()
        functions = [self.function(i) for i in range(self.rng.randint(1, 3))]
        return self.guarded(filter) + f" | stats{self.by()} {', '.join(functions)}"

    def guarded(self, filter):
        """The filter, and that the fields of `guards` are there."""
        return " ".join([f"{field}:*" for field in sorted(self.guards)] + ([f"({filter})"] if self.guards else [filter]))

    # ---- whole queries

    def query(self):
        """A query of `/select/logsql/query`, and how its answers are compared."""
        shape = self.rng.randrange(21)
        if shape < 7:
            return "set", f"{self.filter()} | fields seq"
        if shape < 10:
            return "set", self.stats(self.filter())
        if shape < 14:
            pipe, made = self.row_pipe()
            pipes, fields = [pipe], list(made)
            if self.chance(0.2):
                pipe, made = self.row_pipe()
                pipes.append(pipe)
                fields += made
            kept = ", ".join(dict.fromkeys(["seq", *(f if f.startswith("\"") else name(f) for f in fields)]))
            return "set", f"{self.narrow()} | {' | '.join(pipes)} | fields {kept}"
        if shape == 14:
            keys = ", ".join(f"{name(f)}{self.pick(['', ' desc'])}" for f in self.several(["lvl", "host", "app", "n", "x", "code", "user.name", "user.id"], 2))
            partition = f" partition by ({self.pick(['lvl', 'app'])})" if self.chance(0.2) else ""
            return "set" if partition else "ordered", f"{self.filter()} | sort by ({keys}, _time) {self.pick(['', 'desc'])}{partition} offset {self.rng.randrange(5)} limit {self.rng.randint(1, 40)}{self.pick(['', ' rank as r'])} | fields seq, r"
        if shape == 15:
            fields = ", ".join(name(f) for f in self.several(GROUPS, 2))
            return "set", f"{self.filter()} | " + self.pick([f"uniq by ({fields}) with hits", f"uniq by ({fields})", f"top 1000 by ({fields})", f"stats by ({fields}) count() hits | sort by (hits desc, {fields})", f"field_values {fields.split(', ')[0]}"])
        if shape == 16:
            f = self.pick(["sum", "max", "count"])
            return "set", f"{self.filter()} | sort by (_time) | {self.pick(['running_stats', 'total_stats'])}{self.pick(['', ' by (lvl)', ' by (host, app)'])} {f}({self.pick(['n', 'x', 'seq'])}) r, count() c, first(seq) a, last(seq) b | fields seq, r, c, a, b"
        if shape == 17:
            inner = f"{name(self.pick(GROUPS))}:{self.test()}"
            return "set", f"{self.narrow()} | fields seq, lvl, host | " + self.pick([
                f"union ({inner} {self.narrow()} | fields seq, app)", f"join by (lvl) ({inner} | stats by (lvl) count() k){self.pick(['', ' inner', ' prefix j.'])}", f"join by (host, lvl) ({inner} | stats by (host, lvl) max(seq) k)", *JOINED])
        if shape == 18:
            return "set", f"{self.stats(self.filter())} | {self.pick(RESULTS)}"
        if shape == 20:
            field, number = name(self.pick(GROUPS)), self.rng.randint(1, 30)
            return "ordered", f"{self.filter()} | " + self.pick([f"first {number} by (seq) | fields seq, lvl", f"last {number} by (_time) | fields seq", f"sort by (seq desc) | limit {number} | fields seq", f"sort by (_time) | offset {number} | fields seq",
                                                                 f"sort by (seq) rank as r | filter r:<={number} | fields seq, r", f"stats by ({field}) count() c, max(seq) m | sort by (c desc, m) limit {number}",
                                                                 f"stats by (_time:1h, {field}) count() c | stats by (_time) max(c) m, sum(c) s | sort by (_time)", f"uniq by ({field}) with hits | sort by (hits desc, {field})",
                                                                 f"sort by (_time) | fields _time, seq | time_add 90m | limit {number}", f"sort by (seq) | fields seq | limit {number} | union rows({{seq=a}})"])
        return "set", f"{self.filter()} | " + self.pick(["drop_empty_fields | fields seq, lvl, empty, n", "fields user.*, seq", "delete _msg, _time, _stream, user.*, _stream_id", "rename user.* as u_* | fields u_*, seq", "copy user.* as u.* | fields u.*, seq, user.*",
                                                         "set_stream_fields lvl, code | fields _stream, seq", "facets 3 | fields field_name | uniq by (field_name) | filter field_name:!in(_time, _stream)", "unpack_syslog from _msg | fields seq, hostname, app_name, message", "stats by (_time:1h) count() c | sort by (_time)"])

    def case(self):
        """Endpoint, parameters, mode and query."""
        if self.chance(0.86):
            mode, query = self.query()
            extra = self.filter()
            # VictoriaLogs takes all memory for a query inside of these filters.
            parameters = [("extra_filters", extra)] if self.chance(0.05) and " | " not in extra else []
            return "query", parameters, mode, query
        filter = self.filter()
        r = self.rng.randrange(9)
        if r < 2:
            field = [("field", self.pick(["lvl", "host", "code", "nosuch"]))] if self.chance(0.5) else []
            return "hits", [("step", self.pick(["1h", "6h", "1d", "30m"])), *([("offset", "2h")] if self.chance(0.2) else []), *field], "set", filter
        if r < 4:
            return "stats_query", [("time", "2026-02-02T00:00:00Z")], "set", self.stats(filter)
        if r < 6:
            self.guards = set()
            function = self.function(1)
            return "stats_query_range", [("step", self.pick(["1h", "6h", "1d"]))], "set", f"{self.guarded(filter)} | stats{self.pick([' by (lvl)', ' by (host, app)', '', ' by (nosuch)'])} count() n, {function}"
        if r == 6:
            return "field_values", [("field", self.pick(["lvl", "host", "user.name", "n", "text", "nosuch"]))], "set", filter
        if r == 7:
            endpoint = self.pick(["streams", "stream_ids", "stream_field_names"])
            return endpoint, [], "rows" if endpoint == "stream_ids" else "nohits", filter
        return "stream_field_values", [("field", self.pick(["host", "app", "nosuch"]))], "set", filter


def cases(rng, count):
    """So many different queries."""
    grammar, seen = Grammar(rng), set()
    while len(seen) < count:
        case = grammar.case()
        key = json.dumps(case[:2] + case[3:])
        if key not in seen:
            seen.add(key)
            yield case
