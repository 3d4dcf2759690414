"""Queries against lines that are huge, many or wide: every pipe, stats function and endpoint over each of them.

What they must give: an answer, or an error that says why, below the ceiling of memory. Names of pipes and functions are
asked of the server itself, so that a new one without a case fails.
"""

import json
import threading
import time

from harness import expect, gzipped

LINE_BYTES = 8 << 20
DISTINCT = 1_000_000
DISTINCT_FAST = 20_000
FIELDS = 900

# query.memory_bytes_max, and what may be held beside it: units that are looked at, what vectors and tables have room for
# beyond what is counted, the answer on its way, and the lines of honest senders.
LIMIT_BYTES = 512 << 20
SLACK_BYTES = 512 << 20

# An answer, or an error of the client's making, or one that says that a limit was passed.
DECIDED = (200, 400, 422, 429, 503)


def prepare(distinct):
    """Lines that the queries are about."""

    def load(server):
        text = ("huge " + "x" * 90 + " ") * (LINE_BYTES // 96)
        lines = [json.dumps({"_msg": text[: LINE_BYTES - 100], "set": "huge", "n": "1"})]
        # Each byte of it takes six in JSON.
        lines.append("set=control " + "\x01" * (2 << 20))
        lines.append(json.dumps({"_msg": "wide", "set": "wide", **{f"field_{i:04}": f"v{i}" * 40 for i in range(FIELDS)}}))
        lines.append(json.dumps({"_msg": "array", "set": "array", "items": json.dumps(["item %d" % i for i in range(300_000)])}))
        body = "\n".join(lines).encode()
        answer = server.post("/insert/jsonline", body)
        expect(answer.status == 200, f"the lines are not taken: {answer}")
        piece = 50_000
        for begin in range(0, distinct, piece):
            many = "\n".join(
                json.dumps({"_msg": f"many {i}", "set": "many", "host": f"host-{i:08}", "n": i})
                for i in range(begin, min(begin + piece, distinct))
            )
            answer = server.post("/insert/jsonline", gzipped(many.encode(), 1), {"Content-Encoding": "gzip"})
            expect(answer.status == 200, f"the lines are not taken: {answer}")
        server.wait_for("all is found", lambda: server.count("set:many") == distinct)

    return load


def bounded(run):
    """The same, and the process grows by no more than the limit of a query and the slack."""

    def work(server):
        server.reset_peak()
        before, _ = server.memory()
        run(server)
        _, peak = server.memory()
        expect(peak - before <= LIMIT_BYTES + SLACK_BYTES, f"it takes {(peak - before) >> 20} MiB")

    return work


def decided(answer, names=("error",)):
    """It was answered, and where it was refused it says why."""
    expect(answer.status in DECIDED, f"status {answer}")
    if answer.status != 200:
        found = answer.json()
        expect(any(found.get(name) for name in names), f"no reason: {answer}")


def query(text, **params):
    return bounded(lambda server: decided(server.form("/select/logsql/query", query=text, **params)))


# Processor time that a query with a time limit of a second may take, with what honest senders cost beside it: a query
# uses several threads, and looks at its limit between pieces of work.
CPU_MAX_S = 20


def ended(text):
    """It ends soon after its time limit, in processor time: a busy machine makes no difference."""

    def run(server):
        before = server.cpu_s()
        decided(server.form("/select/logsql/query", query=text, timeout="1s"))
        taken = server.cpu_s() - before
        expect(taken <= CPU_MAX_S, f"it takes {taken:.1f} s of processor time")

    return bounded(run)


# What can be done for long to one value.
HOLDING = {
    "a filter": "~\"(hug[a-z] |x+ ){1,1000}z\"",
    "a filter in any case": "~\"(?i)(HUGE |x+ ){1,500}z\"",
    "extract_regexp": "| extract_regexp \"(?P<a>(huge |x+ ){1,1000}z)\"",
    "replace_regexp": "| replace_regexp (\"(huge |x+ ){1,1000}z\", \"\") at _msg",
    "a condition": "| format if (_msg:~\"(huge |x+ ){1,1000}z\") \"y\" as y",
    "a function": "| stats count() if (_msg:~\"(huge |x+ ){1,1000}z\") n",
}


def repeated(name, count):
    return ", ".join([name] * count)


def copies(count, name="_msg"):
    return "copy " + ", ".join(f"{name} as c{i}" for i in range(count))


def names(count):
    return ", ".join(f"c{i}" for i in range(count))


# What stands behind `|` for each pipe, over lines with the field {f}.
PIPES = {
    "fields": "fields {f}, {f}, {f}",
    "delete": "delete {f}",
    "rename": "rename {f} as other",
    "copy": "copy {f} as a1, {f} as a2, {f} as a3 | sort by (a1)",
    "filter": "filter {f}:~\"x+\" | fields _time",
    "limit": "limit 1",
    "offset": "offset 1",
    "sort": "sort by ({f}, {f} desc, {f})",
    "first": "first 5 by ({f})",
    "last": "last 5 by ({f})",
    "uniq": "uniq by ({f}, {f}) with hits",
    "deduplicate": "deduplicate by ({f}, {f})",
    "top": "top 1000000 by ({f}, {f})",
    "stats": "stats by ({f}) count() n",
    "running_stats": "running_stats by ({f}) count() n, first({f}) a, last({f}) b, min({f}) c, max({f}) d",
    "total_stats": "total_stats by ({f}) count() n, max({f}) m",
    "field_names": "field_names",
    "field_values": "field_values {f}",
    "anomalies": "anomalies by ({f}) {f} step 1",
    "patterns": "patterns 10000000 of {f} by ({f})",
    "differences": "differences 10000000 where ({f}:~\"x+\") scale 0.5",
    "facets": "facets 10000000 max_values_per_field 10000000 max_value_len 100000000",
    "extract": "extract \"<a> <b> <c>\" from {f}",
    "extract_regexp": "extract_regexp \"(?P<a>.+)(?P<b>.*)\" from {f}",
    "unpack_json": "pack_json as p | unpack_json from p result_prefix \"u.\"",
    "unpack_logfmt": "pack_logfmt as p | unpack_logfmt from p result_prefix \"u.\"",
    "unpack_syslog": "unpack_syslog from {f} result_prefix \"s.\"",
    "unpack_words": "unpack_words from {f} as w",
    "split": "split \"x\" from {f} as parts",
    "unroll": "split \"x\" from {f} as parts | unroll by (parts) | stats count() n, sum_len(parts) s",
    "join": "join by (set) (set:huge or set:wide | fields set, {f}) prefix \"j.\"",
    "union": "union (set:huge) | union (set:huge) | union (set:wide)",
    "stream_context": "stream_context before 100 after 100",
    "math": "math {f} + 1 as m",
    "format": "format \"<{f}><{f}>\" as doubled",
    "replace": "replace (\"x\", \"yyyyyyyyyyyyyyyy\") at {f}",
    "replace_regexp": "replace_regexp (\"x\", \"$0$0$0$0\") at {f}",
    "collapse_nums": "collapse_nums at {f} prettify",
    "decolorize": "decolorize {f}",
    "pack_json": "pack_json as p | pack_json as q",
    "pack_logfmt": "pack_logfmt as p | pack_logfmt as q",
    "len": "len({f}) as l",
    "json_array_len": "json_array_len({f}) as l",
    "hash": "hash({f}) as h",
    "time_add": "time_add 1h",
    "set_stream_fields": "set_stream_fields {f}",
    "sample": "sample 2",
    "drop_empty_fields": "drop_empty_fields",
    "blocks_count": "blocks_count",
    "coalesce": "coalesce({f}, {f}) default \"{f}\" as c | sort by (c)",
    "lookup": "lookup hostile on ({f}) prefix \"t.\" | lookup hostile on ({f}) as (key) prefix \"u.\" | stats count() n, sum_len(t.value, u.value) s",
    "json_array_concat": "split \"x\" from {f} as parts | json_array_concat \"yyyyyyyyyyyyyyyy\" from parts as joined",
    "generate_sequence": "generate_sequence 10000000 | sort by (_msg)",
}

# The arguments of each stats function.
FUNCTIONS = {
    name: "{f}, {f}, {f}"
    for name in (
        "count", "count_empty", "count_uniq", "count_uniq_hash", "sum", "sum_len", "avg", "stddev", "min", "max",
        "median", "rate_sum", "any", "values", "uniq_values", "row_any", "row_min", "row_max", "json_values",
    )
} | {
    "quantile": "0.9, {f}, {f}", "sketch": "{f}, {f}", "sketch_quantile": "0.9, {f}, {f}", "histogram": "{f}", "rate": "", "field_min": "{f}, {f}", "field_max": "{f}, {f}",
    "range": "{f}, {f}",
}

SETS = {"huge": "_msg", "many": "host", "wide": "field_0001"}

ENDPOINTS = {
    "query": {},
    "hits": {"field": "{f}", "step": "auto"},
    "facets": {"max_values_per_field": "100000000", "max_value_len": "100000000", "limit": "100000000"},
    "field_names": {},
    "field_values": {"field": "{f}"},
    "streams": {},
    "stats_query": {"query": "{q} | stats by ({f}) count() n, max({f}) m"},
    "stats_query_range": {"query": "{q} | stats by ({f}) count() n, max({f}) m", "step": "1h"},
}


def covered(server):
    """No pipe and no function is left out."""
    for text, known, none in (("* | ", PIPES, "a pipe is missing"), ("* | stats ", FUNCTIONS, "stats function")):
        answer = server.get("/select/logsql/query", query=text)
        expect(answer.status == 400 and none in answer.text(), f"{text}: {answer}")
        missing = [name for name in answer.json()["expected"] if name not in known and not name.startswith('"')]
        # What else may stand there are filters, and the words before functions.
        missing = [name for name in missing if name.isidentifier() and name not in ("by", "if")]
        expect(not missing, f"no case for {missing}")


def endpoint(path, params):
    return bounded(lambda server: decided(server.form(f"/select/logsql/{path}", **params)))


def at_once(texts):
    """Several queries at a time: each is answered, or refused with a reason."""

    def work(server):
        failures = []

        def ask(text):
            try:
                decided(server.form("/select/logsql/query", query=text))
            except Exception as error:
                failures.append(str(error))

        threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(not failures, "; ".join(failures[:3]))

    return work


def status_says(server):
    memory = server.get("/api/v1/status").json()["memory"]
    expect(memory["bytes"] <= memory["peak_bytes"] <= memory["bytes_max"], str(memory))
    text = server.get("/metrics").text()
    for name in ("loginson_memory_bytes_max", "loginson_memory_peak_bytes", 'loginson_memory_bytes{purpose="query"}'):
        expect(name in text, f"{name} is missing")
    # What has ended has given its memory back.
    server.wait_for("it is given back", lambda: server.get("/api/v1/status").json()["memory"]["by_purpose"]["query"] < 64 << 20)


def slow_reader(path, params, count):
    """Clients that read nothing of a large answer."""

    def work(server):
        import socket
        import urllib.parse

        connections = []
        head = f"GET {path}?{urllib.parse.urlencode(params)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        for _ in range(count):
            connection = socket.create_connection(server.http, 10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head)
            connections.append(connection)
        deadline = time.time() + 8
        line = b"slow " + b"y" * (1 << 20)
        while time.time() < deadline:
            server.post("/insert/lines", line)
        for connection in connections:
            connection.close()

    return work


def error_says(status, part, text, path="query", **params):
    def work(server):
        answer = server.form(f"/select/logsql/{path}", query=text, **params)
        expect(answer.status == status and part in answer.text(), f"wanted {status} and {part!r}: {answer}")

    return work


def broken_off(part, text, **params):
    """An error that names its remedy: as the status, or as the last line where rows came before."""

    @bounded
    def work(server):
        answer = server.form("/select/logsql/query", query=text, **params)
        expect(answer.status in (200, 503) and part in answer.text()[-2000:], f"wanted {part!r}: {answer.status} {answer.text()[-300:]}")

    return work


def job(text):
    """A background query: it ends, done or failed with a reason."""

    def work(server):
        answer = server.form("/api/v1/queries", query=text)
        expect(answer.status in (200, 201, 202), str(answer))
        number = answer.json()["id"]

        def over():
            entry = server.get(f"/api/v1/queries/{number}").json()
            return entry if entry["state"] not in ("waiting", "running") else None

        entry = server.wait_for("it ends", over, 120)
        expect(entry["state"] == "done" or entry["error"], str(entry))
        server.request("DELETE", f"/api/v1/queries/{number}")

    return work


def around_huge(server):
    """The lines around one, where each is large."""
    for number in range(600):
        expect(server.post("/insert/lines?type=around", b"around %d " % number + b"a" * (1 << 20)).status == 200, "insert")
    row = server.wait_for("it is found", lambda: server.form("/select/logsql/query", query='"around 300"', include="_line_id").rows())[0]
    decided(server.get("/api/v1/context", id=row["_line_id"], before="1000", after="1000"))


def cases(corpus):
    fast_pipes = {"sort", "uniq", "stats", "format", "facets", "join", "unroll", "pack_json", "running_stats", "patterns", "differences", "anomalies", "lookup"}
    fast_functions = {"count_uniq", "row_any", "json_values", "values", "row_max"}
    corpus.add("coverage: every pipe and function has a case", covered, fast=True)
    for kind, field in SETS.items():
        for name, template in PIPES.items():
            text = f"set:{kind} | " + template.replace("{f}", field)
            corpus.add(f"pipe {name} over {kind}", query(text), fast=name in fast_pipes and kind != "many")
        for name, arguments in FUNCTIONS.items():
            call = f"{name}({arguments.replace('{f}', field)}) x"
            text = f"set:{kind} | stats {call}"
            corpus.add(f"function {name} over {kind}", query(text), fast=name in fast_functions and kind == "huge")
            if kind == "many":
                corpus.add(f"function {name} of each of many hosts", query(f"set:many | stats by (host) {call}"))
        for name, params in ENDPOINTS.items():
            made = {key: value.replace("{f}", field).replace("{q}", f"set:{kind}") for key, value in params.items()}
            made = {"query": f"set:{kind}", **made}
            corpus.add(f"endpoint {name} over {kind}", endpoint(name, made), fast=kind == "huge")

    for name, text in HOLDING.items():
        corpus.add(f"a counted group over one line of 8 MiB: {name}", ended(f"set:huge {text}"), fast=True)

    # Many copies of one huge value, and what is like them.
    corpus.add("hits by 400 times the same field", endpoint("hits", {"query": "set:huge", "field": ["_msg"] * 400}), fast=True)
    corpus.add("hits by 101 fields", error_says(400, "different fields", "*", "hits", field=[f"f{i}" for i in range(101)]), fast=True)
    corpus.add("sort by 250 times the same field", query(f"set:huge | sort by ({repeated('_msg', 250)})"), fast=True)
    corpus.add("sort by 250 copies", broken_off("memory", f"set:huge | {copies(250)} | sort by ({names(250)})"), fast=True)
    corpus.add("uniq by 250 copies", broken_off("memory", f"set:huge | {copies(250)} | uniq by ({names(250)})"), fast=True)
    corpus.add("top by 250 copies", broken_off("memory", f"set:huge | {copies(250)} | top by ({names(250)})"))
    corpus.add("stats by 250 copies", broken_off("memory", f"set:huge | {copies(250)} | stats by ({names(250)}) count() n"), fast=True)
    corpus.add("join by 250 copies", broken_off("memory", f"set:huge | {copies(250)} | join by ({names(250)}) (set:wide)"))
    corpus.add("running_stats by 250 copies", broken_off("memory", f"set:huge | {copies(250)} | running_stats by ({names(250)}) count() n"))
    corpus.add("partition by 250 copies", broken_off("memory", f"set:huge | {copies(250)} | sort by (_time) partition by ({names(250)})"))
    for function in ("count_uniq", "count_uniq_hash", "row_any", "json_values", "row_max"):
        first = "_time, " if function == "row_max" else ""
        corpus.add(f"{function} of 250 copies", broken_off("", f"set:huge | {copies(250)} | stats {function}({first}{names(250)}) x"), fast=True)
        corpus.add(f"{function} of copies by their beginning", broken_off("", f"set:huge | {copies(250)} | stats {function}({first}c*) x"))
    for function in ("values", "uniq_values", "min", "max", "any", "sum_len", "count", "quantile"):
        first = "0.5, " if function == "quantile" else ""
        corpus.add(f"{function} of 250 copies", broken_off("", f"set:huge | {copies(250)} | stats {function}({first}{names(250)}) x"))
    corpus.add("250 functions of one huge field", broken_off("memory", "set:huge | stats " + ", ".join(f"row_any(_msg) r{i}" for i in range(250))), fast=True)
    corpus.add("250 functions max of one huge field", broken_off("memory", "set:huge | stats " + ", ".join(f"max(_msg) r{i}" for i in range(250))))
    corpus.add("250 copies shown", broken_off("memory", f"set:huge | {copies(250)}"), fast=True)
    corpus.add("250 copies of control bytes shown", broken_off("memory", f"control | {copies(250)}"))
    corpus.add("250 copies with a limit", broken_off("memory", f"set:huge | {copies(250)}", limit="10"), fast=True)
    corpus.add("250 copies packed", broken_off("longer than", f"set:huge | {copies(250)} | pack_json as p"))
    corpus.add("250 copies exported as csv", lambda server: tolerate(server, "csv", f"set:huge | {copies(250)}"))
    corpus.add("250 copies exported as parquet", lambda server: tolerate(server, "parquet", f"set:huge | {copies(250)}"))
    corpus.add("250 copies exported as jsonl", lambda server: tolerate(server, "jsonl", f"set:huge | {copies(250)}"))
    corpus.add("250 copies exported with cursors", lambda server: tolerate(server, "jsonl", f"set:huge | {copies(250)}", cursors="1"))
    corpus.add("250 copies in a background query", job(f"set:huge | {copies(250)}"), fast=True)
    corpus.add("fields doubled 25 times", error_says(503, "fields", "set:wide" + "".join(f" | copy field_* as field_{i}_*" for i in range(25))), fast=True)
    corpus.add("fields doubled in one pipe", error_says(503, "fields", "set:wide | copy " + ", ".join(f"field_* as field_{i}_*" for i in range(25))), fast=True)
    corpus.add("long names of copies", error_says(503, "fields", "set:wide | " + " | ".join(f"copy field_* as {'n' * 20000}{i}*" for i in range(8))))
    corpus.add("values doubled 30 times", broken_off("longer than", "set:huge | " + " | ".join(["format '<_msg><_msg>'"] * 30)), fast=True)
    corpus.add("rows multiplied by join", query("set:many | join by (set) (set:many | fields set, host | limit 1000) | stats count() n", timeout="5s"))
    corpus.add("rows multiplied by join of huge", query("set:huge or set:wide | fields set, _msg | copy set as k | fields k, _msg | format 'x' as j | join by (j) (* | limit 1000 | format 'x' as j) | stats count() n"))
    corpus.add("rows multiplied by unroll", query("set:array | unroll by (items) | stats count() n"), fast=True)
    corpus.add("rows multiplied by unroll after sort", query("set:array | format 'x' as f | sort by (f) | unroll by (items) | stats count() n, sum_len(_msg) s"))
    corpus.add("huge rows multiplied by unroll", query("set:huge | format '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]' as a | sort by (_time) | unroll by (a) | unroll by (a) | stats count() n, sum_len(_msg) s"), fast=True)
    corpus.add("sort of many rows", query("set:many | sort by (host desc)", limit="10"))
    corpus.add("stats of each of many, as values", broken_off("", "set:many | stats values(host) v, uniq_values(host) u, json_values(host) j"))
    corpus.add("a million series of hits", endpoint("hits", {"query": "set:many", "field": "host", "step": "1h"}))
    corpus.add("a million series of hits, few shown", endpoint("hits", {"query": "set:many", "field": "host", "step": "1h", "fields_limit": "5"}), fast=True)
    corpus.add("loki: series of everything", lambda server: decided_loki(server.get("/loki/api/v1/series", **{"match[]": '{type=~".+"}'})), fast=True)
    corpus.add("loki: huge lines", lambda server: decided_loki(server.get("/loki/api/v1/query_range", query='{type=~".+"} |= "huge"', limit="5000")), fast=True)
    corpus.add("loki: line_format doubles", lambda server: decided_loki(server.get("/loki/api/v1/query_range", query='{type=~".+"} |= "huge"' + ' | line_format "{{__line__}}{{__line__}}"' * 8)), fast=True)
    corpus.add("loki: count by many labels", lambda server: decided_loki(server.get("/loki/api/v1/query", query='sum by (host) (count_over_time({type=~".+"} | json [1h]))')))
    corpus.add("loki: unwrap of many", lambda server: decided_loki(server.get("/loki/api/v1/query", query='quantile_over_time(0.9, {type=~".+"} | json | unwrap n [1h]) by (host)')))
    heavy = ["set:many | sort by (host)", f"set:huge | {copies(60)} | sort by ({names(60)})", "set:many | uniq by (host, n)", "* | stats by (_msg) row_any() r"]
    corpus.add("four heavy queries at a time", at_once(heavy), fast=True)
    corpus.add("forty heavy queries at a time", at_once([f"set:huge | {copies(30)} | sort by ({names(30)})"] * 40))
    corpus.add("2,000 lines of 1 MiB around one", around_huge)
    corpus.add("tails that read nothing", slow_reader("/select/logsql/tail", {"query": "*"}, 20), fast=True)
    corpus.add("tails of copies that read nothing", slow_reader("/select/logsql/tail", {"query": f"slow | {copies(20)}"}, 8))
    corpus.add("queries whose clients read nothing", slow_reader("/select/logsql/query", {"query": "set:huge or set:many"}, 8))
    corpus.add("exports whose clients read nothing", slow_reader("/api/v1/export", {"format": "jsonl"}, 8))
    corpus.add("hits whose clients read nothing", slow_reader("/select/logsql/hits", {"query": "set:many", "field": "host"}, 8))
    corpus.add("status and metrics tell of the memory", status_says, fast=True)


def decided_loki(answer):
    expect(answer.status in (200, 400, 422, 429, 500, 503), f"status {answer}")
    expect(answer.status == 200 or len(answer.text()) > 10, f"no reason: {answer}")


def tolerate(server, format, text, **params):
    """An export that cannot be written breaks off, or is refused with a reason."""
    import http.client

    try:
        decided(server.form("/api/v1/export", format=format, query=text, **params))
    except (http.client.IncompleteRead, ConnectionError):
        pass
