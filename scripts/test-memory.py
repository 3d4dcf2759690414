#!/usr/bin/env python3
"""Runs a server within little memory, and requires that the kernel never ends it.

    scripts/test-memory.py [MIB…]         128 256 512 by default

Each server runs in a control group of its own with that limit, of version 1 or 2; making one needs root. It takes 200 MB of
lines, seals them, and is asked queries that sort and group all of them, while as many lines arrive again. With 256 MiB and more
every request must be answered or refused (503 that names the setting); with 128 MiB the server must start, take lines and count
them. LOGINSON_BIN names the binary. Standard library only.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = os.environ.get("LOGINSON_BIN", "loginson")
GROUPS = pathlib.Path("/sys/fs/cgroup")
IMPORT_BYTES = 200 << 20
# Sorts and groups of all lines, by texts that nearly all differ and by names that few share.
HEAVY = [
    "* | sort by (_msg) | limit 3",
    "* | stats by (_msg) count() n | limit 2",
    "* | sort by (hostname) | limit 3",
    '~"fail" | stats count() n',
]
COUNT = "* | stats count() n"


class Group:
    """A control group that limits memory."""

    def __init__(self, mib):
        old = GROUPS / "memory"
        self.is_old = old.is_dir()
        self.path = (old if self.is_old else GROUPS) / f"loginson-test-{os.getpid()}-{mib}"
        self.path.mkdir()
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] if self.is_old else ["memory.max", "memory.swap.max"]
        (self.path / names[0]).write_text(str(mib << 20))
        if (self.path / names[1]).exists():
            (self.path / names[1]).write_text(str(mib << 20) if self.is_old else "0")

    def start(self, command, log):
        enter = f'echo $$ > {self.path}/cgroup.procs; exec "$@"'
        return subprocess.Popen(["sh", "-c", enter, "sh", *command], stdout=log, stderr=log)

    def kills(self):
        """How many processes the kernel ended for memory."""
        text = (self.path / ("memory.oom_control" if self.is_old else "memory.events")).read_text()
        return dict(line.split() for line in text.splitlines())["oom_kill"]


class Server:
    def __init__(self, address):
        self.base = f"http://{address}"

    def post(self, path, body=b""):
        return self.call(urllib.request.Request(self.base + path, data=body, method="POST"))

    def query(self, text):
        return self.call(self.base + "/select/logsql/query?query=" + urllib.parse.quote(text))

    def call(self, request):
        """The answer, or a refusal that names a setting; everything else is a fault."""
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            assert error.code == 503 and "memory.bytes_max" in text, f"{error.code} {text}"
            return None


def use(server, data, mib):
    assert server.post("/insert/lines", data), "lines are taken"
    lines = data.count(b"\n")
    assert json.loads(server.query(COUNT))["n"] == str(lines)
    if mib < 256:
        return
    server.post("/api/v1/seal")
    answered = [server.query(text) is not None for text in HEAVY]
    beside = [threading.Thread(target=server.query, args=[text]) for text in HEAVY]
    for thread in beside:
        thread.start()
    assert server.post("/insert/lines", data), "lines are taken beside queries"
    for thread in beside:
        thread.join()
    assert json.loads(server.query(COUNT))["n"] == str(2 * lines)
    print(f"  {sum(answered)} of {len(HEAVY)} heavy queries were answered, the others refused")


def test(mib, data, directory):
    print(f"{mib} MiB", flush=True)
    group = Group(mib)
    ready = directory / "ready"
    command = [BIN, "serve", "--data-dir", str(directory / "data"), "--http-listen", "127.0.0.1:0", "--ready-file", str(ready)]
    command += ["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]
    with open(directory / "log", "wb") as log:
        process = group.start(command, log)
    try:
        while not (ready.exists() and ready.read_text()):
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
        use(Server(json.loads(ready.read_text())["http"]), data, mib)
        assert process.poll() is None and group.kills() == "0", "the kernel ended the server"
    except BaseException:
        print((directory / "log").read_text()[-4000:])
        raise
    finally:
        process.kill()
        process.wait()
        group.path.rmdir()


def main():
    if os.geteuid() != 0:
        print("left out: making a control group needs root")
        return
    samples = sorted(str(path) for path in (ROOT / "testdata/corpora").glob("*.log"))
    generate = [BIN, "generate", "--replay", *samples, "--format", "rfc5424", "--seed", "1", "--quiet", "--to", "-"]
    made = subprocess.run([*generate, "--rate", "1000", "--backfill", "2000s", "--lines", "1200000"], stdout=subprocess.PIPE, check=True)
    data = made.stdout[: made.stdout.rindex(b"\n", 0, IMPORT_BYTES) + 1]
    for mib in [int(word) for word in sys.argv[1:]] or [128, 256, 512]:
        with tempfile.TemporaryDirectory() as directory:
            test(mib, data, pathlib.Path(directory))
    print("ok")


if __name__ == "__main__":
    main()
