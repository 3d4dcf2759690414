#!/usr/bin/env python3
"""Damages each file of a data directory in each way, and requires that nothing is deleted, nothing is hidden, and the rest served.

    scripts/fault-matrix.py               fails where docs/benchmarks/faults.md is not what it found
    scripts/fault-matrix.py --write       writes that file

For every file and fault: a start, a count, an export, a backup of the running server, `loginson verify`, and the restoration of
a backup whose file of that name is damaged likewise. A server that is not ready after a minute counts as one that hangs.
LOGINSON_BIN names the binary. Standard library only. Run by root, servers run as `nobody`.
"""

import collections
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = os.environ.get("LOGINSON_BIN", "loginson")
RESULTS = ROOT / "docs/benchmarks/faults.md"
LINES = 2000
NOBODY = 65534
FAULTS = ["zeroed", "cut", "flipped", "swapped", "link", "pipe", "unreadable"]
LISTEN = ["--http-listen", "127.0.0.1:0", "--syslog-tcp-listen", "127.0.0.1:0", "--syslog-udp-listen", "127.0.0.1:0"]
TOLD = re.compile("damage|cannot|symbolic link|named pipe|is not|left out|missing|unreadable|Permission denied|restore")


def demoted():
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def own(path):
    """Gives a directory to the user of the servers."""
    if os.geteuid() == 0:
        for entry in [path, *path.rglob("*")]:
            os.chown(entry, NOBODY, NOBODY, follow_symlinks=False)


class Server:
    """A server; `said` is its log until it was ready or ended."""

    def __init__(self, data):
        self.log = data.parent / "log"
        with self.log.open("w") as log:
            self.child = subprocess.Popen([BIN, "--data-dir", str(data), *LISTEN], stderr=log, **demoted())
        until = time.monotonic() + 60
        self.base = None
        while self.base is None and self.child.poll() is None and time.monotonic() < until:
            found = re.search(r"page and API at (http://\S+)/", self.said())
            self.base = found and found.group(1)
            time.sleep(0.01)
        self.hangs = self.base is None and self.child.poll() is None

    def said(self):
        return self.log.read_text(errors="replace")

    def call(self, method, path, body=None):
        """Status, headers and body; of an answer that breaks off, what came."""
        request = urllib.request.Request(self.base + path, data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                try:
                    return answer.status, answer.headers, answer.read()
                except http.client.IncompleteRead as error:
                    return 0, answer.headers, error.partial
                except (OSError, http.client.HTTPException):
                    return 0, answer.headers, b""
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()
        except OSError as error:
            raise AssertionError(f"{method} {path} has no answer: {error}") from error

    def wait_for(self, holds, otherwise="waited too long"):
        until = time.monotonic() + 300
        while not holds():
            assert time.monotonic() < until, otherwise
            time.sleep(0.05)

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL if self.hangs else signal.SIGTERM)
        self.child.wait()


def make(data):
    """A data directory with a file of every kind; returns how many lines each segment has."""
    server = Server(data)
    for part in range(4):
        for piece in range(10):
            numbers = range(piece * LINES // 10, (piece + 1) * LINES // 10)
            lines = "".join(f"part {part} line {number} {hashlib.md5(b'%d' % number).hexdigest()}\n" for number in numbers)
            assert server.call("POST", "/insert/lines", lines.encode())[0] == 200
        if part < 2:
            assert server.call("POST", "/api/v1/seal")[0] == 202
            server.wait_for(lambda: len(list((data / "segments").glob("*.sealed"))) > part)
        elif part == 2:
            # Killed, so that the next start begins another segment, which is not sealed.
            server.call("PUT", "/api/v1/dashboards/web", b'{"title":"Web","version":0,"panels":[]}')
            server.call("POST", "/api/v1/links", b"?query=error")
            server.call("POST", "/api/v1/programs/counts", b"# type: counts\nEND { print NR }")
            rule = b"groups:\n- name: a\n  rules:\n  - alert: A\n    expr: 'error | stats count() n | filter n:>1000000'\n"
            server.call("PUT", "/api/v1/alerts/rules/web.yml", rule)
            silence = {"matchers": [{"name": "a", "value": "b", "isRegex": False, "isEqual": True}], "comment": "a",
                       "createdBy": "a", "startsAt": "2026-01-01T00:00:00Z", "endsAt": "2099-01-01T00:00:00Z"}
            server.call("POST", "/api/v1/silences", json.dumps(silence).encode())
            assert server.call("POST", "/api/v1/queries?query=part")[0] == 202
            server.wait_for(lambda: b'"done"' in server.call("GET", "/api/v1/queries")[2])
            server.child.kill()
            server.child.wait()
            server = Server(data)
    server.stop()
    assert server.child.returncode == 0, server.said()


def damage(fault, place, other):
    """Does it; returns the bytes that were there then, if they should still be."""
    content = place.read_bytes()
    if fault == "zeroed":
        place.write_bytes(bytes(len(content)))
    elif fault == "cut":
        place.write_bytes(content[: len(content) // 2])
    elif fault == "flipped":
        middle = len(content) // 2
        place.write_bytes(content[:middle] + bytes(byte ^ 0x55 for byte in content[middle : middle + 1]) + content[middle + 1 :])
    elif fault == "swapped":
        place.write_bytes(other.read_bytes())
    elif fault == "unreadable":
        place.chmod(0)
        return None
    else:
        place.unlink()
        if fault == "link":
            place.symlink_to(place.parent.parent.parent / "victim")
        else:
            os.mkfifo(place)
        return None
    return place.read_bytes()


def kind(path):
    """The path of a file without its number."""
    return re.sub(r"[0-9]+(?=\.(sealed|hot|json|rows)$)", "N", str(path))


def contents(data):
    """The start and the length of each file's content: a file may get an end, but keeps its beginning."""
    found = []
    for path in data.rglob("*"):
        if path.is_file() and not path.is_symlink():
            try:
                found.append(path.read_bytes())
            except OSError:
                pass
    return found


def run(*command):
    done = subprocess.run([BIN, *map(str, command)], capture_output=True, timeout=300, stdin=subprocess.DEVNULL, **demoted())
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def judge(lines, of_file, total, told):
    """Counted or exported lines, in words."""
    if lines == total:
        return "all"
    assert lines >= total - of_file, f"{lines} of {total} lines, and the file has {of_file}"
    assert told, f"{lines} of {total} lines, and nothing says so"
    return "rest, told"


def cell(base, backup, place, fault, other, of_file, total):
    """What each step makes of the fault."""
    found = {}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        (work / "victim").write_text("precious")
        data = work / "data"
        shutil.copytree(base, data, symlinks=True)
        own(data)
        os.chown(work, NOBODY, NOBODY) if os.geteuid() == 0 else None
        left = damage(fault, data / place, data / other)
        own(data)
        code, said = run("verify", data)
        found["verify"] = "good" if code == 0 else "named" if place.name in said else "refused"
        server = Server(data)
        try:
            assert not server.hangs, f"the start hangs: {server.said()}"
            if server.base is None:
                assert place.name in server.said(), f"the start does not name the file: {server.said()}"
                found["start"] = "refused, named"
            else:
                found["start"] = "served"
                told = lambda headers: bool(TOLD.search(server.said())) or any("missing" in name.lower() for name in headers)
                query = "/select/logsql/query?allow_partial_response=1&query=" + urllib.parse.quote("part | stats count() n")
                status, headers, body = server.call("GET", query)
                assert status == 200, body
                found["query"] = judge(int(json.loads(body)["n"]), of_file, total, told(headers))
                status, headers, body = server.call("GET", "/api/v1/export?format=raw&allow_partial_response=1&query=part")
                whole = status == 200
                if whole:
                    found["export"] = judge(body.count(b"\n"), of_file, total, told(headers))
                else:
                    # A status of an error says why in its body. The log of an answer that breaks off may come a moment later.
                    said = body.decode(errors="replace")
                    server.wait_for(lambda: TOLD.search(said) or told(headers), f"ended, NOT told: status {status}, {said[-300:]}")
                    found["export"] = "ended, told"
                status, _, body = server.call("POST", "/api/v1/backups?name=now")
                found["backup"] = "made" if status == 201 else f"refused, {status}"
        finally:
            server.stop()
        if fault == "link":
            assert (data / place).is_symlink(), "the link is gone"
        if fault == "pipe":
            assert (data / place).is_fifo(), "the pipe is gone"
        assert (work / "victim").read_text() == "precious", "a file outside was changed"
        if left is not None and (place.parts[0] == "segments" or place.name == "silences.json"):
            kept = any(content[: len(left)] == left for content in contents(data))
            assert kept, "the damaged bytes are deleted: " + ", ".join(path.name for path in (data / "segments").iterdir())
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        work.chmod(0o777)
        (work / "victim").write_text("precious")
        copy, into = work / "backup", work / "restored"
        if not (backup / place).exists():
            found["restore"] = "not in it"
        else:
            shutil.copytree(backup, copy, symlinks=True)
            damage(fault, copy / place, copy / other if (copy / other).exists() else base / other)
            own(copy)
            code, said = run("restore", copy, "--data-dir", into)
            found["restore"] = "good" if code == 0 else "refused, named" if place.name in said else "refused"
    return found


def main():
    steps = ["start", "query", "export", "backup", "verify", "restore"]
    faulty, tables = [], collections.OrderedDict()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        work.chmod(0o777)
        base = work / "base"
        base.mkdir()
        own(base)
        make(base)
        total = 4 * LINES
        copy = work / "copied"
        copy.mkdir()
        shutil.copytree(base, copy / "data")
        own(copy)
        server = Server(copy / "data")
        assert server.call("POST", "/api/v1/backups?name=whole")[0] == 201
        server.stop()
        backup = work / "backup"
        shutil.copytree(copy / "data/backups/whole", backup)
        files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file() and path.stat().st_size > 0)
        for place in files:
            alike = [file for file in files if file.suffix == place.suffix and file != place]
            other = alike[0] if alike else next(file for file in files if file != place)
            for fault in FAULTS:
                sealed = [file for file in files if file.suffix == ".sealed"]
                of_file = {".sealed": LINES, ".hot": total - LINES * len(sealed)}.get(place.suffix, total)
                try:
                    found = cell(base, backup, place, fault, other, of_file, total)
                except AssertionError as error:
                    faulty.append(f"{place}, {fault}: {error}")
                    print("FAULT", faulty[-1], flush=True)
                    found = {"start": "FAULT"}
                row = [found.get(step, "–") for step in steps]
                tables.setdefault(kind(place), {}).setdefault(fault, []).append(row)
                print(f"{place} {fault}: " + "; ".join(f"{step} {value}" for step, value in zip(steps, row)), flush=True)
    text = ["# Damaged files", "", "What each step makes of each file of a data directory, damaged in each way, as", "`scripts/fault-matrix.py` finds it (part of `make test-long`). *All*: every line is there. *Rest, told*:", "every line of other files is there, and the answer or the log says what is missing. In no case is a", "file deleted, written through a link, or passed over in silence; a swapped file has the content of", "another one of its kind.", ""]
    for name, rows in tables.items():
        text += [f"## {name}", "", "| fault | " + " | ".join(steps) + " |", "|---" * (len(steps) + 1) + "|"]
        for fault, values in rows.items():
            cells = [" / ".join(dict.fromkeys(column)) for column in zip(*values)]
            text.append(f"| {fault} | " + " | ".join(cells) + " |")
        text.append("")
    text = "\n".join(text)
    for fault in faulty:
        print("FAULT", fault, file=sys.stderr)
    if "--write" in sys.argv:
        RESULTS.write_text(text)
    elif RESULTS.read_text() != text:
        sys.exit(f"{RESULTS.name} has other results; look at the difference, then write it anew with --write")
    sys.exit(1 if faulty else 0)


main()
