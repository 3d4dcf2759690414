#!/usr/bin/env python3
"""Asks `loginson mcp` by the official SDK of the Model Context Protocol, as assistants do.

    LOGINSON_BIN=target/release/loginson scripts/test-mcp.py [--clients DIR]

Installs the Python package `mcp` in its versions 1 and 2 once into DIR (default: ~/.cache/loginson/mcp-clients). Each
version starts `loginson mcp` by itself, in front of a server with known lines, calls every tool, checks the arguments by
the schemas that it was given, and compares what it finds with what was sent.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv

PATIENCE_S = 300
CLIENTS = {"mcp 1": "mcp>=1.10,<2", "mcp 2": "mcp>=2,<3"}
FROM, TO = "2026-01-31T12:00:00Z", "2026-01-31T14:00:00Z"

# What one client does; run by the Python of its own environment.
ASKS = r'''
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

binary, address, start, end = sys.argv[1:]
passed, faults = 0, []

def check(what, expected, found):
    global passed
    if expected == found:
        passed += 1
    else:
        faults.append(f"{what}: expected {str(expected)[:300]}, found {str(found)[:300]}")

def plain(result):
    return result.model_dump(by_alias=True, mode="json")

async def main():
    async with stdio_client(StdioServerParameters(command=binary, args=["mcp", "--server", address])) as (reads, writes):
        async with ClientSession(reads, writes) as session:
            begun = plain(await session.initialize())
            check("version", True, begun["protocolVersion"] in ("2025-06-18", "2025-11-25"))
            check("name", "loginson", begun["serverInfo"]["name"])
            check("instructions", True, "untrusted" in begun["instructions"])
            await session.send_ping()
            tools = {tool["name"]: tool for tool in plain(await session.list_tools())["tools"]}
            check("tools", ["context", "fields", "logsql", "overview", "patterns", "query", "stands_out", "what_changed"], sorted(tools))
            check("read only", True, all(tool["annotations"]["readOnlyHint"] for tool in tools.values()))

            async def call(tool, **arguments):
                for name in arguments:
                    check(f"{tool} takes {name}", True, name in tools[tool]["inputSchema"]["properties"])
                result = plain(await session.call_tool(tool, arguments))
                return result.get("isError"), [block["text"] for block in result["content"]]

            async def rows(tool, **arguments):
                wrong, texts = await call(tool, **arguments)
                check(f"{tool} {arguments}", False, wrong)
                return [json.loads(line) for line in texts[1].splitlines()] if len(texts) > 1 else texts

            times = {"start": start, "end": end}
            check("overview", True, {"app_name": "shop", "lines": "300"} in await rows("overview", **times))
            check("stats", [{"n": "900"}], await rows("query", query="* | stats count() n", **times))
            found = await rows("query", query="user119", limit=1, **times)
            check("line", "payment of user119 failed", found[0]["_msg"])
            around = await rows("context", id=found[0]["_line_id"], before=2, after=0)
            check("context", 4, len(around))
            check("fields", [{"hits": "900", "name": "hostname"}], await rows("fields", contains="hostn", **times))
            check("values", {"app_name": "nginx", "hits": "600"}, (await rows("fields", field="app_name", **times))[0])
            check("patterns", "payment of <*> failed", (await rows("patterns", query="app_name:=shop", by=["hostname"], **times))[0]["pattern"])
            changed = await rows("what_changed", start="2026-01-31T13:50:00Z", end=end)
            check("what_changed", True, "payment of <*> failed" in changed[0]["text"])
            standing = await rows("stands_out", start="2026-01-31T13:30:00Z", end=end)
            check("stands_out", True, any(row.get("_level") == "error" for row in standing))
            wrong, texts = await call("query", query="* | frobnicate")
            check("refused", (True, True), (wrong, "there is no pipe" in texts[0]))
            wrong, texts = await call("logsql", topic="filters")
            check("logsql", (False, True), (wrong, texts[0].startswith("# ")))
            # Several at once, as assistants call them.
            several = await asyncio.gather(*(call("query", query=f"user{n} | stats count() n", **times) for n in range(110, 120)))
            check("several", ["{\"n\":\"30\"}"] * 10, [texts[1] for _, texts in several])
            listed = plain(await session.list_resources())["resources"]
            check("resources", 4, len(listed))
            page = plain(await session.read_resource(listed[0]["uri"]))
            check("resource", True, page["contents"][0]["text"].startswith("# LogsQL"))

asyncio.run(main())
print(json.dumps({"passed": passed, "faults": faults}))
'''


def lines():
    """Two hours, in the last ten minutes of which payments fail."""
    for minute in range(120):
        at = f"2026-01-31T{12 + minute // 60}:{minute % 60:02}"
        for second in (0, 20, 40):
            yield f"<14>1 {at}:{second:02}Z web1 nginx - - - request {minute} took 5 ms"
            for later in range(second, second + 10):
                if minute >= 110:
                    yield f"<11>1 {at}:{later:02}Z web1 shop - - - payment of user{minute} failed"
        for second in (15, 55):
            yield f"<11>1 {at}:{second}Z web1 nginx - - - upstream is slow"


def client(directory, name, package):
    """The Python of an environment with that package, made once."""
    home = directory / name.replace(" ", "-")
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
        (home / "ready").touch()
    return python


def serve(binary, directory):
    """A server in a directory, and its address."""
    ready = directory / "ready.json"
    command = [binary, "--data-dir", directory / "data", "--http-listen", "127.0.0.1:0", "--ready-file", ready]
    command += ["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]
    with open(directory / "log", "w") as log:
        server = subprocess.Popen(command, stderr=log)
    begun = time.monotonic()
    while not ready.exists():
        if server.poll() is not None or time.monotonic() - begun > PATIENCE_S:
            sys.exit("test-mcp: the server did not start:\n" + (directory / "log").read_text())
        time.sleep(0.05)
    return server, "http://" + json.loads(ready.read_text())["http"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--clients", type=pathlib.Path, default=pathlib.Path.home() / ".cache/loginson/mcp-clients")
    options = parser.parse_args()
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("test-mcp: LOGINSON_BIN names no binary to test")
    binary = os.path.abspath(binary)
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        server, address = serve(binary, pathlib.Path(directory))
        try:
            body = "".join(f"{line}\n" for line in lines()).encode()
            urllib.request.urlopen(urllib.request.Request(f"{address}/insert/lines", body), timeout=PATIENCE_S).read()
            for name, package in CLIENTS.items():
                python = client(options.clients, name, package)
                command = [python, "-c", ASKS, binary, address, FROM, TO]
                asked = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
                if asked.returncode != 0:
                    print(f"{name}: {asked.stderr[-3000:]}")
                    failed = True
                    continue
                found = json.loads(asked.stdout)
                print(f"{name}: {found['passed']} checks passed, {len(found['faults'])} failed")
                for fault in found["faults"]:
                    print(f"  {fault}")
                failed = failed or bool(found["faults"])
        finally:
            server.terminate()
            server.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
