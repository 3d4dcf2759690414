"""Bodies, datagrams and streams that are broken, huge or forged: HTTP inserts, syslog, the port of collectors."""

import gzip
import json
import os
import random
import socket
import struct
import threading
import time
import urllib.parse
import zlib

from harness import exchange, expect, gzipped, status_of

RANDOM = random.Random(25)


def noise(count):
    return RANDOM.randbytes(count)


def posted(statuses, path, body, headers=None, part="", lines=None):
    """One of these statuses, a text with that part, and so many lines kept."""

    def work(server):
        answer = server.post(path, body() if callable(body) else body, headers)
        expect(answer.status in statuses and part in answer.text(), f"wanted {statuses} with {part!r}: {answer}")
        if lines is not None:
            expect(answer.json()["lines"] == lines, f"wanted {lines} lines: {answer}")

    return work


def found(path, line, query, count=1, headers=None):
    """The line is taken and is found."""

    def work(server):
        answer = server.post(path, line, headers)
        expect(answer.status == 200, str(answer))
        server.wait_for("it is found", lambda: server.count(query) == count)

    return work


def nested(open_with, close_with, depth, inner="1"):
    return open_with * depth + inner + close_with * depth


def bomb(size, kind):
    data = b"\x00" * (1 << 20)
    if kind == "gzip":
        made = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(made.compress(data) for _ in range(size >> 20)) + made.flush()
    made = zlib.compressobj(9)
    return b"".join(made.compress(data) for _ in range(size >> 20)) + made.flush()


def zstd_raw(window_log, blocks):
    """A zstd frame made by hand, of blocks that repeat a byte: no library for it is in the standard one."""
    descriptor = (window_log - 10) << 3
    head = b"\x28\xb5\x2f\xfd" + bytes([0x00, descriptor])
    body = b""
    for number in range(blocks):
        size = 128 << 10
        last = number == blocks - 1
        body += struct.pack("<I", (size << 3) | (1 << 1) | last)[:3] + b"x"
    return head + body


def slow(path, count, headers=b"", seconds=8, piece=b"x"):
    """Bodies that come byte by byte. Others are still served, sooner or later."""

    def work(server):
        connections = []
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n".encode() + headers + b"\r\n"
        for _ in range(count):
            try:
                connection = socket.create_connection(server.http, 5)
                connection.sendall(head)
                connections.append(connection)
            except OSError:
                break
        deadline = time.time() + seconds
        while time.time() < deadline:
            for connection in connections:
                try:
                    connection.send(piece)
                except OSError:
                    pass
            time.sleep(1)
        taken = server.wait_for("a line is taken beside them", lambda: server.post("/insert/lines", b"beside slow bodies", timeout=60).status in (200,), 90)
        expect(taken, "no line is taken")
        for connection in connections:
            connection.close()

    return work


def many_bodies(count, bytes_each, headers=b""):
    """Bodies with one long line that does not end, all held at a time."""

    def work(server):
        connections = []
        head = f"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {bytes_each + 10}\r\n".encode() + headers + b"\r\n"
        piece = b"y" * (1 << 20)

        def send():
            try:
                with socket.create_connection(server.http, 30) as connection:
                    connection.settimeout(20)
                    connection.sendall(head)
                    for _ in range(bytes_each >> 20):
                        connection.sendall(piece)
                    time.sleep(5)
            except OSError:
                pass

        threads = [threading.Thread(target=send, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    return work


def tcp(data, query=None, count=None):
    """A stream of syslog that ends. Then the server ends it, too, and what can be understood of it is found."""

    def work(server):
        answer, has_ended = exchange(server.address("syslog_tcp"), data, half_close=True)
        # A browser is told its mistake.
        expect(has_ended or status_of(answer) == 400, "the connection stays open")
        if query:
            server.wait_for(f"{query} is found {count} times", lambda: server.count(query) == count)

    return work


def tcp_many(count, data, seconds=3):
    def work(server):
        connections = []
        for _ in range(count):
            try:
                connection = socket.create_connection(server.address("syslog_tcp"), 5)
                connection.settimeout(5)
                connection.sendall(data)
                connections.append(connection)
            except OSError:
                break
        time.sleep(seconds)
        for connection in connections:
            connection.close()

    return work


def udp(datagrams, query=None, count=None):
    def work(server):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number, datagram in enumerate(datagrams):
                sender.sendto(datagram, server.address("syslog_udp"))
                if number % 50 == 49:
                    time.sleep(0.02)
        if query:
            server.wait_for(f"{query} is found {count} times", lambda: server.count(query) == count)

    return work


def node(data, half_close=False, count=1, seconds=1):
    """What is no collector gets no answer that helps it, and holds nothing."""

    def work(server):
        address = server.address("nodes" if "nodes" in server.addresses else "node")
        connections = []
        for _ in range(count):
            try:
                connection = socket.create_connection(address, 5)
            except OSError:
                continue
            connections.append(connection)
            try:
                connection.sendall(data)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # It was closed before all was sent.
        time.sleep(seconds)
        for connection in connections:
            connection.close()
        expect(connections, "no connection was made")
        # The port still answers: what is no collector is turned away.
        _, has_ended = exchange(address, b"\xff" * 64)
        expect(has_ended, "a connection behind them stays open")
        # No line came of it.
        expect(server.count('"forged by a node"') == 0, "a forged line is kept")

    return work


def protobuf_push(labels, lines):
    """A push of Loki, as snappy of literals."""

    def field(number, payload):
        return varint(number << 3 | 2) + varint(len(payload)) + payload

    stream = field(1, labels) + b"".join(field(2, field(1, b"\x08\x01") + field(2, line)) for line in lines)
    return snappy(field(1, stream))


def varint(number):
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def snappy(data, claimed=None):
    made = varint(len(data) if claimed is None else claimed)
    for begin in range(0, len(data), 60):
        piece = data[begin : begin + 60]
        made += bytes([(len(piece) - 1) << 2]) + piece
    return made


def loki_json(labels, entries):
    return json.dumps({"streams": [{"stream": labels, "values": entries}]}).encode()


def cases(corpus):
    add = corpus.add
    js, li = "/insert/jsonline", "/insert/lines"
    gz = {"Content-Encoding": "gzip"}
    zs = {"Content-Encoding": "zstd"}

    # JSON: depth, width, numbers, names, text.
    for name, text in [
        ("objects 100,000 deep", nested('{"a":', "}", 100_000)),
        ("arrays 1,000,000 deep", '{"a":' + nested("[", "]", 1_000_000) + "}"),
        ("objects 1,000,000 deep, never closed", '{"a":' * 1_000_000),
        ("arrays of objects 50,000 deep", '{"a":' + nested('[{"b":', "}]", 50_000) + "}"),
        ("200,000 fields", json.dumps({f"k{i}": i for i in range(200_000)})),
        ("one field 200,000 times", "{" + ",".join(f'"a":{i}' for i in range(200_000)) + "}"),
        ("a name of 1 MiB with 900 fields within", json.dumps({"n" * (1 << 20): {f"k{i}": i for i in range(900)}})),
        ("names of 7 KiB with 1,000 fields within", json.dumps({"n" * 7_000 + str(j): {f"k{i}": i for i in range(100)} for j in range(10)})),
        ("a name of 8 MiB", json.dumps({"n" * ((8 << 20) - 100): 1})),
        ("names of escapes", '{"' + "\\u0000" * 100_000 + '":1}'),
        ("an empty name", '{"":"x","_msg":"empty name"}'),
        ("names of our own fields", json.dumps({"_id": "1-1", "_raw": "r", "_stream": "{}", "_stream_id": "s", "_received": "x", "_error": "e", "_skipped": "9", "_note": "n", "_msg": "own names"})),
        ("numbers without end", '{"_msg":"numbers","n":' + "9" * 1_000_000 + "}"),
        ("exponents", '{"_msg":"exponents","n":1e999999999,"m":-1e-999999999}'),
        ("a number of no digits", '{"n":-}'),
        ("surrogates alone", '{"_msg":"\\ud800 \\udfff"}'),
        ("bytes that are no UTF-8", b'{"_msg":"caf\xe9","good":"kept"}'),
        ("a BOM", b'\xef\xbb\xbf{"_msg":"behind a BOM"}'),
        ("UTF-16", '{"_msg":"utf16"}'.encode("utf-16")),
        ("NUL bytes", b'{"_msg":"a\x00b"}'),
        ("only NUL bytes", b"\x00" * 100_000),
        ("a top-level array", "[1,2,3]"),
        ("a text that never ends", '{"_msg":"' + "x" * 1_000_000),
        ("a value of 8 MiB of escapes", '{"_msg":"' + "\\u0001" * ((8 << 20) // 6 - 100) + '"}'),
        ("times beyond all", '{"_time":"99999-01-01T00:00:00Z","_msg":"late"}'),
        ("a time of -2^63", '{"_time":-9223372036854775808,"_msg":"early"}'),
        ("levels of 1 MiB", json.dumps({"level": "e" * (1 << 20), "_msg": "level"})),
        ("escapes of terminals", json.dumps({"_msg": "\x1b[2J\x1b]0;owned\x07"})),
        ("markup", json.dumps({"_msg": "<script>alert(1)</script>", "<img src=x>": "x"})),
    ]:
        body = text if isinstance(text, bytes) else text.encode()
        add(f"JSON: {name}", posted((200,), js, body), fast=len(body) < 2 << 20)
    add("JSON: 100,000 empty lines", posted((200,), js, b"\n" * 100_000, lines=0), fast=True)
    add("JSON: 50,000 lines that are none", posted((200,), js, b"not json\n" * 50_000, lines=50_000), fast=True)
    add("JSON: 2,000 lines of new names each", posted((200,), js, "\n".join(json.dumps({f"n{i}_{j}": j for j in range(50)}) for i in range(2_000)).encode(), lines=2_000), fast=True)
    add("lines: 64 MiB without an end", posted((200,), li, lambda: b"z" * (64 << 20), lines=1))
    add("lines: a million empty ones", posted((200,), li, b"\n" * 1_000_000, lines=1_000_000))
    add("lines: CR only", posted((200,), li, b"a\rb\rc", lines=1), fast=True)
    add("lines: random bytes", posted((200,), li, noise(1 << 20)), fast=True)

    # Parameters of inserts.
    for name, params in [
        ("an extra field named type", {"extra_fields": "type=summary"}),
        ("extra fields without a sign", {"extra_fields": "novalue"}),
        ("1,000 extra fields", {"extra_fields": ",".join(f"a{i}=b" for i in range(1_000))}),
        ("an extra field of 60 KiB", {"extra_fields": "a=" + "b" * 60_000}),
        ("1,000 stream fields", {"_stream_fields": ",".join(f"a{i}" for i in range(1_000))}),
        ("a type of 60 KiB", {"_type": "t" * 60_000}),
        ("a type with a newline", {"_type": "a\nb"}),
        ("the type of our own rows", {"_type": "summary"}),
        ("debug", {"debug": "1"}),
        ("an account that is not 0", {"AccountID": "7"}),
    ]:
        path = js + "?" + urllib.parse.urlencode(params)
        statuses = (200, 400) if name in ("debug", "a type with a newline", "an extra field named type", "the type of our own rows") else (200, 400, 414)
        add(f"insert: {name}", posted(statuses, path, b'{"_msg":"parameters"}'), fast=True)
    add("insert: our own rows cannot be forged", forged_summary, fast=True)

    # Compression.
    add("gzip: a bomb of 1 GiB", posted((400, 413), li, lambda: bomb(1 << 30, "gzip"), gz), time_max_s=400)
    add("gzip: a bomb of 64 MiB", posted((200, 400), li, lambda: bomb(64 << 20, "gzip"), gz), fast=True)
    add("gzip: a bomb within a bomb", posted((200, 400), li, lambda: gzipped(bomb(64 << 20, "gzip")), gz), fast=True)
    add("gzip: cut off", posted((400,), li, gzipped(b"a line\n" * 10_000)[:-10], gz, "error"), fast=True)
    add("gzip: a wrong sum", posted((400,), li, gzipped(b"a line\n" * 100)[:-8] + b"\x00" * 8, gz, "error"), fast=True)
    add("gzip: garbage behind the end", posted((200, 400), li, gzipped(b"a line\n") + noise(1000), gz), fast=True)
    add("gzip: 10,000 members", posted((200,), li, gzipped(b"member\n") * 10_000, gz, lines=10_000), fast=True)
    add("gzip: a name that never ends", posted((400,), li, b"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03" + b"n" * 1_000_000, gz), fast=True)
    add("gzip: plain text", posted((400,), li, b"not compressed", gz, "error"), fast=True)
    add("gzip: nothing", posted((200, 400), li, b"", gz), fast=True)
    add("zstd: a window of 1 GiB", posted((400,), li, zstd_raw(30, 1), zs, "error"), fast=True)
    add("zstd: a window of 2^41", posted((400,), li, zstd_raw(41, 1), zs, "error"), fast=True)
    add("zstd: blocks that repeat, 512 MiB", posted((400, 413), li, zstd_raw(20, 4_096), zs))
    add("zstd: random bytes", posted((400,), li, noise(10_000), zs, "error"), fast=True)
    add("zstd: a skippable frame of 4 GiB", posted((200, 400), li, b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + b"x" * 1_000, zs), fast=True)
    add("an encoding that is none", posted((400, 415), li, b"x", {"Content-Encoding": "br"}, "error"), fast=True)
    add("ten encodings", posted((400, 415), li, b"x", {"Content-Encoding": ",".join(["gzip"] * 10)}, "error"), fast=True)

    # Bodies that hold places or memory.
    add("slow: 128 bodies byte by byte", slow(li, 128))
    add("slow: 400 bodies byte by byte", slow(li, 400))
    add("slow: 128 bodies of gzip", slow(li, 128, b"Content-Encoding: gzip\r\n", piece=b"\x1f"))
    add("slow: 128 pushes of loki", slow("/loki/api/v1/push", 128, b"Content-Type: application/json\r\n", piece=b" "))
    add("slow: 128 exports of OTLP", slow("/v1/logs", 128, b"Content-Type: application/json\r\n", piece=b" "))
    add("slow: 128 bulk bodies", slow("/insert/elasticsearch/_bulk", 128, b"Content-Type: application/json\r\n", piece=b"\n"))
    add("memory: 128 lines of 7 MiB at a time", many_bodies(128, 7 << 20))
    add("memory: 128 lines of 7 MiB, compressed", many_bodies(128, 7 << 20, b"Content-Encoding: zstd\r\n"))
    add("an expected body that never comes", held_expect, fast=True)

    # Loki pushes, bulk.
    push, pj = "/loki/api/v1/push", {"Content-Type": "application/json"}
    pb = {"Content-Type": "application/x-protobuf"}
    entry = [str(time.time_ns()), "loki line"]
    wide = {f"label_{i}": "v" * 60 for i in range(500)}
    for name, body, headers, statuses in [
        ("labels of a stream for each of 1,000 entries", loki_json(wide, [entry] * 1_000), pj, (200, 204, 400, 413, 429)),
        ("labels of 1 MiB", loki_json({"a": "v" * (1 << 20)}, [entry] * 500), pj, (200, 204, 400, 413, 429)),
        ("a name of a label of 1 MiB", loki_json({"a" * (1 << 20): "v"}, [entry] * 100), pj, (200, 204, 400, 413, 429)),
        ("100,000 streams", json.dumps({"streams": [{"stream": {"a": str(i)}, "values": [entry]} for i in range(100_000)]}).encode(), pj, (200, 204, 400, 413, 429)),
        ("JSON 100,000 deep", b'{"streams":' + b"[" * 100_000 + b"]" * 100_000 + b"}", pj, (400,)),
        ("metadata of 1,000 names for each entry", loki_json({"a": "b"}, [[entry[0], "x", {f"m{i}": "v" for i in range(1_000)}]] * 100), pj, (200, 204, 400, 413, 429)),
        ("no JSON", b"{", pj, (400,)),
        ("another shape", b'{"streams":{"a":1}}', pj, (400,)),
        ("labels that are none", json.dumps({"streams": [{"stream": "{a=", "values": [entry]}]}).encode(), pj, (400,)),
        ("a time that is none", loki_json({"a": "b"}, [["now", "x"]]), pj, (400,)),
        ("snappy that claims 4 GiB", snappy(b"x" * 100, 0xFFFFFFFF), pb, (400, 413)),
        ("snappy that is cut off", snappy(b"x" * 100)[:-5], pb, (400,)),
        ("protobuf of random bytes", snappy(noise(1_000)), pb, (400, 200, 204)),
        ("protobuf with labels for each entry", protobuf_push(("{" + ",".join(f'l{i}="{"v" * 60}"' for i in range(300)) + "}").encode(), [b"line"] * 500), pb, (200, 204, 400, 413, 429)),
        ("protobuf with a length beyond the end", snappy(b"\x0a\xff\xff\xff\xff\x0f"), pb, (400,)),
        ("protobuf with a varint of 100 bytes", snappy(b"\xff" * 100), pb, (400,)),
        ("64 MiB", loki_json({"a": "b"}, [[entry[0], "x" * (64 << 20)]]), pj, (200, 204, 400, 413)),
    ]:
        add(f"loki push: {name}", posted(statuses, push, body, headers), fast=len(body) < 4 << 20)
    # Exports of OpenTelemetry.
    logs, op = "/v1/logs", {"Content-Type": "application/x-protobuf"}
    for name, body, headers, statuses in [
        ("JSON 100,000 deep", b'{"resourceLogs":' + b"[" * 100_000 + b"]" * 100_000 + b"}", pj, (400,)),
        ("another shape", b'{"resourceLogs":{"a":1}}', pj, (400,)),
        ("no JSON", b"{", pj, (400,)),
        ("a body 10,000 deep", otlp([otlp_lists(10_000)]), op, (200,)),
        ("1,000,000 empty records", otlp([b""] * 1_000_000), op, (413,)),
        ("a resource of 1 MiB for each of 10,000 records", otlp([b""] * 10_000, b"v" * (1 << 20)), op, (200,)),
        ("random bytes", noise(1_000), op, (200, 400)),
        ("a length beyond the end", b"\x0a\xff\xff\xff\xff\x0f", op, (400,)),
        ("a varint of 100 bytes", b"\xff" * 100, op, (400,)),
        ("64 MiB", otlp([otlp_field(5, otlp_field(1, b"x" * (64 << 20)))]), op, (413,)),
    ]:
        add(f"otlp: {name}", posted(statuses, logs, body, headers), fast=len(body) < 4 << 20)
    add("otlp: what is stored is not many times what came", amplification_of_otlp, fast=True)
    add("loki push: what is stored is not many times what came", amplification, fast=True)
    bulk = "/insert/elasticsearch/_bulk"
    for name, body, statuses in [
        ("an action without its document", b'{"create":{}}\n', (200, 400)),
        ("an action that is none", b'{"explode":{}}\n{"a":1}\n', (200, 400)),
        ("a delete", b'{"delete":{"_id":"1"}}\n', (200, 400)),
        ("100,000 kinds of actions in turn", b'{"delete":{}}\n{"create":{}}\n{"_msg":"bulk"}\n' * 50_000, (400,)),
        ("a million deletes", b'{"delete":{}}\n' * 1_000_000, (200,)),
        ("actions 100,000 deep", b'{"create":' * 100_000 + b"\n", (200, 400)),
        ("an action of 8 MiB", b'{"create":{"_index":"' + b"i" * (8 << 20) + b'"}}\n{"a":1}\n', (200, 400, 413)),
        ("20,000 documents", b'{"create":{}}\n{"_msg":"bulk"}\n' * 20_000, (200,)),
        ("random bytes", noise(100_000), (200, 400)),
    ]:
        add(f"bulk: {name}", posted(statuses, bulk, body, {"Content-Type": "application/x-ndjson"}), fast=len(body) < 2 << 20)

    # Syslog over TCP.
    for name, data, query, count in [
        ("two framings in one connection", b"<13>1 - h a - - - framing-a\n39 <13>1 - h a - - - framing-b is octets\n<13>1 - h a - - - framing-c\n", '"framing-a"', 1),
        ("NUL as the end of lines", b"".join(b"<13>1 - h a - - - nul-end %d\x00" % i for i in range(100)), '"nul-end"', 100),
        ("CRLF as the end of lines", b"".join(b"<13>1 - h a - - - crlf-end %d\r\n" % i for i in range(100)), '"crlf-end"', 100),
        ("a count of 999,999,999", b"999999999 <13>1 - h a - - - huge-count" + b"x" * 100_000, None, None),
        ("a count of ten digits", b"9999999999 <13>1 - h a - - - ten-digits\n", None, None),
        ("a count of zero", b"0 0 0 0 <13>1 - h a - - - zero-count\n", None, None),
        ("a negative count", b"-5 <13>1 - h a - - - negative\n", None, None),
        ("a count that is too short", b"5 <13>1 - h a - - - too short\n", None, None),
        ("a priority of 999", b"<999>1 - h a - - - priority-999\n", '"priority-999"', 1),
        ("a priority of 10 digits", b"<9999999999>priority-long\n", '"priority-long"', 1),
        ("no priority", b"just priority-none\n", '"priority-none"', 1),
        ("an open priority", b"<13 open-priority\n", '"open-priority"', 1),
        ("structured data that never ends", b"<13>1 - h a - - [a@1 b=\"" + b"c" * 100_000 + b" sd-endless\n", None, None),
        ("10,000 elements of structured data", b"<13>1 - h a - - " + b"".join(b"[a%d b=\"c\"]" % i for i in range(10_000)) + b" sd-many\n", '"sd-many"', 1),
        ("a header of 1 MiB", b"<13>1 - " + b"h" * (1 << 20) + b" a - - - long-host\n", '"long-host"', 1),
        ("random bytes", noise(1 << 20), None, None),
        ("64 MiB without an end", b"w" * (64 << 20), None, None),
        ("a million newlines", b"\n" * 1_000_000, None, None),
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None, None),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise(500), None, None),
        ("RELP", b"1 open 85 relp_version=0\nrelp_software=x\ncommands=syslog\n", None, None),
        ("GELF", b'{"version":"1.1","host":"h","short_message":"gelf line"}\x00' * 10, None, None),
        ("zlib of rsyslog", b"z" + zlib.compress(b"<13>1 - h a - - - deflated\n" * 100), None, None),
        ("Fluent forward", b"\x93\xa3tag\xcenginx" + noise(200), None, None),
        ("Beats", b"2W\x00\x00\x00\x01" + b"2C\x00\x00\x10\x00" + noise(4096), None, None),
    ]:
        add(f"syslog TCP: {name}", tcp(data, query, count), fast=len(data) < 2 << 20)
    add("syslog TCP: byte by byte", byte_by_byte, fast=True)
    add("syslog TCP: 1,000 connections", tcp_many(1_000, b"<13>1 - h a - - - one of many\n"), fast=True)
    add("syslog TCP: 3,000 silent connections", tcp_many(3_000, b""))
    add("syslog TCP: 400 lines of 2 MiB that never end", tcp_many(400, b"<13>1 - h a - - - " + b"v" * (2 << 20)))
    add("syslog TCP: 2,000 connections come and go", come_and_go)

    # Datagrams.
    add("syslog UDP: random bytes", udp([noise(size) for size in range(1, 1_400, 7)]), fast=True)
    add("syslog UDP: empty ones", udp([b""] * 200), fast=True)
    add("syslog UDP: the largest", udp([b"<13>1 - h a - - - " + b"d" * 65_000] * 10), fast=True)
    add("syslog UDP: priorities of all kinds", udp([b"<%d>1 - h a - - - udp-priority" % i for i in range(192)], '"udp-priority"', 192), fast=True)
    add("syslog UDP: times of all kinds", udp([b"<13>%s h a: udp-time" % time for time in (b"Feb 30 25:61:61", b"1 - -", b"NOV 31 12:00:00", b"2026-02-31T00:00:00Z", b"0000-00-00T00:00:00Z")]), fast=True)

    # The port of collectors.
    for name, data in [
        ("random bytes", noise(100_000)),
        ("an HTTP request", b"POST /insert/lines HTTP/1.1\r\nContent-Length: 16\r\n\r\nforged by a node"),
        ("syslog", b"<13>1 - h a - - - forged by a node\n" * 1_000),
        ("only zeros", b"\x00" * 1_000_000),
        ("only ones", b"\xff" * 1_000_000),
        ("lengths of 4 GiB", b"\xff\xff\xff\xff" * 1_000),
        ("lengths of 64 MiB", struct.pack("<I", 64 << 20) + b"\x00" * (1 << 20)),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise(500)),
    ]:
        add(f"node: {name}", node(data), fast=True)
        add(f"node: {name}, half closed", node(data, half_close=True), fast=True)
    add("node: 256 connections that send 4 MiB before hello", node(b"\x00" * (4 << 20), count=256, seconds=2))
    add("node: 1,000 silent connections", node(b"", count=1_000, seconds=2))


def forged_summary(server):
    """Lines of strangers do not count as rows of the system, whatever they say of themselves."""
    before = server.count("*")
    forged = json.dumps({"_msg": "forged summary", "type": "summary", "_type": "summary", "summary_of": "x", "lines": "1000000"})
    answer = server.post("/insert/jsonline?extra_fields=type=summary", forged.encode())
    expect(answer.status in (200, 400), str(answer))
    if answer.status == 200:
        server.wait_for("it is found as a line", lambda: server.count('"forged summary"') == 1)
        expect(server.count("*") > before, "it does not count")


def amplification(server):
    """A small push does not store many times its size."""
    before = server.get("/api/v1/status").json()["store"]["bytes_raw"]
    body = loki_json({f"l{i}": "v" * 1_000 for i in range(30)}, [[str(time.time_ns()), ""]] * 20_000)
    answer = server.post("/loki/api/v1/push", gzipped(body), {"Content-Type": "application/json", "Content-Encoding": "gzip"})
    expect(answer.status in (200, 204, 400, 413, 429), str(answer))
    stored = server.get("/api/v1/status").json()["store"]["bytes_raw"] - before
    expect(stored < 64 << 20, f"{len(body)} bytes of JSON stored {stored}")


def otlp_field(number, content):
    """A field of protobuf: bytes, texts and messages."""
    length, rest = bytearray(), len(content)
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([number << 3 | 2]) + bytes(length) + bytes([rest]) + content


def otlp(records, resource=b""):
    """An export of OTLP with these records, whose resource has one attribute."""
    attribute = otlp_field(1, b"a") + otlp_field(2, otlp_field(1, resource))
    scope = b"".join(otlp_field(2, record) for record in records)
    return otlp_field(1, otlp_field(1, otlp_field(1, attribute)) + otlp_field(2, scope))


def otlp_lists(depth):
    """A record whose body is lists within lists."""
    value = b""
    for _ in range(depth):
        value = otlp_field(5, otlp_field(1, value))
    return otlp_field(5, value)


def amplification_of_otlp(server):
    """A small export does not store many times its size."""
    before = server.get("/api/v1/status").json()["store"]["bytes_raw"]
    body = gzipped(otlp([b""] * 400_000, b"v" * 60_000))
    answer = server.post("/v1/logs", body, {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"})
    expect(answer.status == 200, str(answer))
    stored = server.get("/api/v1/status").json()["store"]["bytes_raw"] - before
    expect(stored < 32 << 20, f"{len(body)} bytes of OTLP stored {stored}")


def held_expect(server):
    head = b"POST /insert/lines HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
    with socket.create_connection(server.http, 10) as connection:
        connection.sendall(head)
        connection.settimeout(5)
        expect(status_of(connection.recv(1000)) == 100, "no leave to send")


def byte_by_byte(server):
    with socket.create_connection(server.address("syslog_tcp"), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"<13>1 - h a - - - byte-by-byte one\n31 <13>1 - h a - - - byte-by-byte\n":
            connection.send(bytes([byte]))
            time.sleep(0.002)
    server.wait_for("it is found", lambda: server.count('"byte-by-byte"') >= 1)


def come_and_go(server):
    for number in range(2_000):
        with socket.create_connection(server.address("syslog_tcp"), 10) as connection:
            connection.sendall(b"<13>1 - h a - - - come-and-go %d\n" % number)
    server.wait_for("all are found", lambda: server.count('"come-and-go"') == 2_000)
