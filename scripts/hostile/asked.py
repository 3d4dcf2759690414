"""Requests that are broken, strange or meant to harm: heads, parameters, languages, other web pages, WebSockets."""

import socket
import time
import urllib.parse

from harness import basic, exchange, expect, status_of


def refused(status, part, method, path, headers=None, body=None):
    """That status (or one of several), and a text with that part."""
    wanted = status if isinstance(status, tuple) else (status,)

    def work(server):
        answer = server.request(method, path, body=body, headers=headers)
        expect(answer.status in wanted and part in answer.text(), f"wanted {wanted} with {part!r}: {answer}")

    return work


def closed_or(statuses, data, half_close=False):
    """The connection is closed without an answer, or one of these statuses comes."""

    def work(server):
        found, has_ended = server.raw(data, half_close)
        status = status_of(found)
        expect(status in statuses or status is None and has_ended, f"status {status}, closed: {has_ended}")

    return work


def params_say(statuses, path, part="", **params):
    def work(server):
        answer = server.form(path, **params)
        expect(answer.status in statuses and part in answer.text(), f"wanted {statuses} with {part!r}: {answer}")

    return work


def held_open(count, data, answered=True):
    """So many connections that say `data` and nothing more; the server still answers others."""

    def work(server):
        connections = []
        try:
            for _ in range(count):
                try:
                    connection = socket.create_connection(server.http, 5)
                    connection.sendall(data)
                    connections.append(connection)
                except OSError:
                    break
            for _ in range(3):
                expect(server.get("/health", timeout=30).status == 200, "/health")
                time.sleep(0.2)
        finally:
            for connection in connections:
                connection.close()

    return work


def upgrade(path, headers, key=None):
    lines = [f"GET {path} HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    lines.append(f"Sec-WebSocket-Key: {key or basic(7)}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def socket_says(statuses, headers, then=b"", path=None):
    """The answer to an upgrade."""

    def work(server):
        query = urllib.parse.quote('{type=~".+"}')
        target = path or f"/loki/api/v1/tail?query={query}"
        host = f"{server.http[0]}:{server.http[1]}"
        given = {name: value.replace("{host}", host) for name, value in headers.items()}
        given.setdefault("Host", host)
        status = status_of(exchange(server.http, upgrade(target, given) + then)[0])
        expect(status in statuses, f"wanted {statuses}: {status}")

    return work


def chain(operator, operand, count):
    return operator.join([operand] * count)


def cases(corpus):
    add = corpus.add
    # Heads.
    for name, data, statuses in [
        ("no head at all", b"\r\n\r\n\r\n", (400,)),
        ("random bytes", bytes(range(256)) * 400, (400,)),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500, (400,)),
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 64, (400, 505)),
        ("HTTP/0.9", b"GET /\r\n", (400, 408)),
        ("HTTP/9.9", b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", (400, 505)),
        ("a method of 1 MiB", b"G" * (1 << 20) + b" / HTTP/1.1\r\n\r\n", (400, 414, 431)),
        ("a path of 1 MiB", b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400, 414, 431)),
        ("a header of 1 MiB", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n", (400, 431)),
        ("10,000 headers", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", (400, 431)),
        ("a header without a colon", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nnonsense\r\n\r\n", (400,)),
        ("a header with NUL", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n", (400,)),
        ("no Host", b"GET /health HTTP/1.1\r\n\r\n", (200, 400, 403)),
        ("two Hosts", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", (200, 400, 403)),
        ("a negative length", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\nx", (400,)),
        ("a length of 2^64", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 18446744073709551616\r\n\r\nx", (400, 413)),
        ("two lengths", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", (400,)),
        ("length and chunks", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", (200, 400)),
        ("a chunk of 2^63", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nx", (400, 408)),
        ("a chunk that is no number", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n", (400,)),
        ("chunk extensions of 1 MiB", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * (1 << 20) + b"\r\nx\r\n0\r\n\r\n", (200, 400)),
        ("trailers of 1 MiB", b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + b"X: y\r\n" * 180_000 + b"\r\n", (200, 400, 431)),
        ("CONNECT", b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", (400, 403, 404, 405)),
        ("TRACE", b"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400, 403, 404, 405)),
        ("an absolute address", b"GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n", (400, 403)),
        ("a path out of the tree", b"GET /../../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400, 404, 200)),
        ("a path out of the tree, encoded", b"GET /assets/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400, 404, 200)),
        ("a fragment of a UTF-8 character", b"GET /select/logsql/query?query=%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (200, 400)),
        ("100 requests at once", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100, (200,)),
        ("a broken percent sign", b"GET /select/logsql/query?query=%&%=%zz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (200, 400)),
    ]:
        add(f"head: {name}", closed_or(statuses, data, half_close=name.startswith(("a chunk", "a length", "HTTP/0.9"))), fast=True)
    add("head: 500 connections that send nothing", held_open(500, b""), fast=True)
    add("head: 2,200 connections of one address", held_open(2_200, b""))
    add("head: 300 heads that never end", held_open(300, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "), fast=True)
    add("head: 300 heads with 64 KiB", held_open(300, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * (64 << 10)))
    add("body: 200 bodies that never come", held_open(200, b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nx"))
    add("body: 200 forms that never come", held_open(200, b"POST /select/logsql/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\nquery="))

    # Parameters.
    q = "/select/logsql/query"
    for name, path, params in [
        ("no query", q, {}),
        ("a form of 2 MiB", q, {"query": "x" * (2 << 20)}),
        ("a limit that is no number", q, {"query": "*", "limit": "many"}),
        ("a negative limit", q, {"query": "*", "limit": "-1"}),
        ("a limit of 2^70", q, {"query": "*", "limit": str(1 << 70)}),
        ("a time that is none", q, {"query": "*", "start": "yesterday-ish"}),
        ("a timeout that is none", q, {"query": "*", "timeout": "soon"}),
        ("a wrong field to include", q, {"query": "*", "include": "_secret"}),
        ("a wrong format", q, {"query": "*", "format": "exe"}),
        ("a step of zero", "/select/logsql/hits", {"query": "*", "step": "0"}),
        ("a negative step", "/select/logsql/hits", {"query": "*", "step": "-1h"}),
        ("stats without stats", "/select/logsql/stats_query", {"query": "*"}),
        ("values of no field", "/select/logsql/field_values", {"query": "*"}),
        ("an export of no format", "/api/v1/export", {}),
        ("an export with a forged cursor", "/api/v1/export", {"format": "jsonl", "cursor": "A" * 10_000}),
        ("a line that is none", "/api/v1/context", {"id": "x"}),
        ("10,000 parameters", q, {f"p{i}": "x" for i in range(10_000)}),
        ("an account that is not 0", q, {"query": "*", "AccountID": "7"}),
    ]:
        # The call for lines around one takes no form.
        if path == "/api/v1/context":
            add(f"parameter: {name}", refused(400, "error", "GET", path + "?id=x"), fast=True)
        else:
            add(f"parameter: {name}", params_say((400, 413), path, "error", **params), fast=True)
    add("parameter: an offset of 2^63", params_say((200, 400), q, query="*", offset=str(1 << 63), limit="1"), fast=True)
    add("parameter: a limit of 2^63", params_say((200, 400), q, query="*", limit=str((1 << 63) - 1), timeout="20s"))
    add("parameter: all of time", params_say((200,), q, query="*", start="0001-01-01T00:00:00Z", end="9999-12-31T00:00:00Z", limit="1"), fast=True)
    add("parameter: steps of a nanosecond", params_say((200, 400, 503), "/select/logsql/hits", query="*", step="1ns"))
    add("parameter: a step of 292 years", params_say((200, 400), "/select/logsql/hits", query="*", step="9223372036s"), fast=True)
    add("parameter: series of a nanosecond", params_say((200, 400, 503), "/select/logsql/stats_query_range", query="* | stats count() n", step="1ns"))

    # LogsQL.
    for name, text in [
        ("parentheses 20,000 deep", "(" * 20_000 + "a" + ")" * 20_000),
        ("not 60,000 deep", "!" * 60_000 + "a"),
        ("unions 1,000 deep", "*" + " | union (*" * 1_000 + ")" * 1_000),
        ("subqueries 1,000 deep", "a:in(" * 1_000 + "*" + ")" * 1_000),
        ("conditions 1,000 deep", "* | format if (" * 1_000 + "a"),
        ("an expression 20,000 deep", "* | math " + "(" * 20_000 + "a" + ")" * 20_000 + " as x"),
        ("minus 50,000 deep", "* | math " + "-" * 50_000 + "a as x"),
        ("101 pipes", "*" + " | limit 1" * 101),
        ("300 KiB of query", "a " * 150_000),
        ("a regular expression that explodes", '~"' + "(a{1000}){1000}" + '"'),
        ("nested repetitions", '~"' + "(" * 200 + "a" + "*)" * 200 + '"'),
        ("500 regular expressions", " or ".join(f'~"[a-z]{{1,200}}{i}.*"' for i in range(500))),
        ("an open quote", '"abc'),
        ("an open parenthesis", "(abc"),
        ("a pipe that is none", "* | explode"),
        ("a function that is none", "* | stats explode(a)"),
        ("a time that is none", "_time:never-ever"),
        ("a quantile of 2", "* | stats quantile(2, a) x"),
        ("a NUL", "\x00 |"),
    ]:
        statuses = (200, 400, 413) if name in ("nested repetitions", "a NUL", "minus 50,000 deep", "not 60,000 deep") else (400, 413)
        add(f"LogsQL: {name}", params_say(statuses, q, query=text), fast=True)
    for name, text in [
        ("a chain of 20,000 or", chain(" or ", "a", 20_000)),
        ("a chain of 20,000 and", chain(" ", "a", 20_000)),
        ("a list of 30,000 values", "a:in(" + ",".join(str(i) for i in range(30_000)) + ")"),
        ("a sum of 20,000", "* | math " + chain("+", "1", 20_000) + " as x | limit 1"),
        ("a chain of 5,000 powers", "* | math " + chain("^", "1", 5_000) + " as x | limit 1"),
        ("a pattern of 5,000 parts", "* | extract \"" + "<a> " * 5_000 + "\" | limit 1"),
        ("2,000 functions", "* | stats " + ", ".join(f"count() c{i}" for i in range(2_000))),
        ("5,000 fields", "* | fields " + ", ".join(f"f{i}" for i in range(5_000)) + " | limit 1"),
    ]:
        add(f"LogsQL: {name}", params_say((200, 400, 413, 503), q, query=text, timeout="20s"), fast=True)

    # What nodes ask each other.
    for name, path in [("a share", "/api/v1/shares"), ("frames", "/api/v1/frames/0000000a/1/2")]:
        body = b"\x00" * 1000
        add(f"{name} that is none", refused((400, 403, 404, 415), "", "POST", path, body=body), fast=True)

    # LogQL.
    loki = "/loki/api/v1/query"
    for name, text in [
        ("a sum of 6,000 numbers", chain("+", "1", 6_000)),
        ("a sum of 4,000 vectors", chain("+", "vector(1)", 4_000)),
        ("a chain of 6,000 comparisons", chain(">", "1", 6_000)),
        ("a chain of 6,000 powers", chain("^", "1", 6_000)),
        ("a chain of 6,000 or", chain(" or ", "vector(1)", 6_000)),
        ("6,000 parentheses", "(" * 6_000 + "1" + ")" * 6_000),
        ("6,000 functions", "abs(" * 6_000 + "1" + ")" * 6_000),
        ("6,000 aggregations", "sum(" * 6_000 + "vector(1)" + ")" * 6_000),
        ("a filter of 6,000 parentheses", '{a="b"} | ' + "(" * 6_000 + 'c="d"' + ")" * 6_000),
        ("a filter of 6,000 or", '{a="b"} | ' + chain(" or ", 'c="d"', 6_000)),
        ("a chain of 6,000 line filters", '{a="b"}' + ' |= "x"' * 6_000),
        ("a template 6,000 deep", '{a="b"} | line_format "' + "{{if .a}}" * 6_000 + "x" + "{{end}}" * 6_000 + '"'),
        ("a matcher that explodes", '{a=~"(a{1000}){1000}"}'),
        ("an open brace", "{"),
        ("minus 6,000 times", "-" * 6_000 + "1"),
        ("a range of 290 years", 'rate({a="b"}[2500000h])'),
    ]:
        add(f"LogQL: {name}", params_say((200, 400, 413, 422, 500, 503), loki, query=text), fast=True)
        add(f"LogQL formatted: {name}", params_say((200, 400, 413, 422, 500, 503), "/loki/api/v1/format_query", query=text), fast=True)
    add("LogQL by GET: a sum of 6,000 numbers", refused((200, 400, 414, 431), "", "GET", "/loki/api/v1/format_query?query=" + "%2B".join(["1"] * 6_000)), fast=True)
    add("LogQL: 10 million points", params_say((400, 422), "/loki/api/v1/query_range", query="vector(1)", start="0", end="10000000", step="1"), fast=True)
    add("LogQL: a step of zero", params_say((400, 422), "/loki/api/v1/query_range", query="vector(1)", start="0", end="10", step="0"), fast=True)

    # Other web pages, and names that point here.
    cross = {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}
    for name, method, path, headers in [
        ("a page posts lines", "POST", "/insert/lines", cross),
        ("a page deletes a query", "DELETE", "/api/v1/queries/1", cross),
        ("a page begins a deletion", "POST", "/api/v1/deletions?filter=*", cross),
        ("a page begins a backup", "POST", "/api/v1/backups", cross),
        ("a page pushes to loki", "POST", "/loki/api/v1/push", cross),
        ("a page reads a query", "GET", "/select/logsql/query?query=*", cross),
        ("a page reads an export", "GET", "/api/v1/export?format=raw", cross),
        ("a page formats a query as an image", "GET", "/loki/api/v1/format_query?query=1", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}),
        ("another host name reads a query", "GET", "/select/logsql/query?query=*", {"Host": "evil.example"}),
        ("another host name reads the status", "GET", "/api/v1/status", {"Host": "evil.example:9514"}),
        ("another host name posts lines", "POST", "/insert/lines", {"Host": "evil.example"}),
        ("an origin of null posts lines", "POST", "/insert/lines", {"Origin": "null"}),
        ("an origin of another port posts lines", "POST", "/insert/lines", {"Origin": "http://127.0.0.1:1"}),
    ]:
        body = b"forged" if method == "POST" else None
        add(f"cross-origin: {name}", refused((400, 403, 421), "", method, path, headers, body), fast=True)

    # WebSockets.
    add("WebSocket: from this server", socket_says((101,), {"Origin": "http://{host}"}), fast=True)
    add("WebSocket: from another page", socket_says((403,), {"Origin": "http://evil.example"}), fast=True)
    add("WebSocket: from a page of no origin", socket_says((403,), {"Origin": "null"}), fast=True)
    add("WebSocket: of another host name", socket_says((400, 403, 421), {"Host": "evil.example", "Origin": "http://evil.example"}), fast=True)
    add("WebSocket: cross-site", socket_says((403,), {"Sec-Fetch-Site": "cross-site"}), fast=True)
    add("WebSocket: a frame of 2^63 bytes", socket_says((101,), {}, b"\x82\xff\x7f" + b"\xff" * 7 + b"\x00" * 4), fast=True)
    add("WebSocket: a frame of 64 MiB", socket_says((101,), {}, b"\x82\xff" + (64 << 20).to_bytes(8, "big") + b"\x00" * (1 << 20)), fast=True)
    add("WebSocket: frames without a mask", socket_says((101,), {}, b"\x82\x05hello" * 1_000), fast=True)
    add("WebSocket: reserved bits", socket_says((101,), {}, b"\xff\x85" + b"\x00" * 64), fast=True)
    add("WebSocket: a fragment that never ends", socket_says((101,), {}, b"\x02\x85\x00\x00\x00\x00hello" + b"\x00\x85\x00\x00\x00\x00hello" * 10_000), fast=True)
    add("WebSocket: 10,000 pings", socket_says((101,), {}, b"\x89\x84\x00\x00\x00\x00ping" * 10_000), fast=True)
    add("WebSocket: random bytes", socket_says((101,), {}, bytes(range(256)) * 64), fast=True)
    add("WebSocket: no key", closed_or((400, 403, 426), b"GET /loki/api/v1/tail?query=%7Ba%3D%22b%22%7D HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"), fast=True)
    add("WebSocket: a wrong query", socket_says((400, 403), {}, path="/loki/api/v1/tail?query=%7B"), fast=True)
