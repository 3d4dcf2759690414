#!/usr/bin/env python3
"""Runs what the documents show: `scripts/test-documents.py [--verbose] [FILE…]`; LOGINSON_BIN names the binary.

README.md and docs/ are read from top to bottom, each document in a folder of its own with a server of its own:

- A block ```console has commands behind `$ `, and their output. Each command must succeed. Where output is shown, it is
  compared: `…` stands for any text, a line `…` for any lines; times, durations, sizes and rates may differ.
- A block ```sh has commands without prompts, whose output is not shown.
- A prompt with a name, `store1$ `, is another machine: it has a folder, an address and a server of its own.
- A block with the name of a file, ```toml loginson.toml, becomes that file in the folder.
- ```json and ```toml must parse. That TOML is a configuration, and YAML are rules of alerts, is tested in Rust.

Comments that readers do not see stand directly before a block:

- `<!-- not run: REASON -->`: it needs something that a test machine cannot have.
- `<!-- fails -->`: its last command must fail.
- `<!-- numbers vary -->`: any number in its output stands for any other.
- `<!-- run`, lines, `-->`: commands that a reader need not type, such as making the logs that a query finds.

A command that starts a server (`loginson`, `loginson serve`, `loginson collect`) runs in the background, in place of
the one that the machine had; the next command begins once it is ready. `loginson tail` runs in the background, too.
Every machine has a loopback address of its own, so ports are those that the document shows. Addresses, names of
machines and folders such as /var/lib are replaced in commands, and back again in what they print.

Left out: what documents of the lab and of benchmarks show, which takes hours, and servers of others.
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Documents whose commands take hours, or servers of others: `make test-lab` and `make bench` run those.
LEFT_OUT = ("docs/lab", "docs/benchmarks/")
# The longest wait for a command or for a server; beyond it the document fails.
PATIENCE_S = 300
# How long a command that only reads is run again.
READ_AGAIN_S = 60
# Folders of a system that commands name. They are looked for in the folder of the machine.
SYSTEM_FOLDERS = ("etc/loginson", "etc/ssl/private", "var/lib", "var/log/nginx", "var/spool", "srv/loginson", "mnt/backups")
# Names that documents give to the machine of the server, and to the one that a reader sits at.
OWN_NAMES = ("logs.example",)
READERS_NAME = "laptop"
MACHINE_NUMBERS = itertools.count(1)
SERVER = re.compile(r"^(\w+=\S+ +)*loginson( +(serve|store|collect))?( +-.*)?$", re.S)
# Only reads: it is run again until it prints what is shown, because lines arrive and rows are computed a moment later.
READER = re.compile(r"^loginson +query\b|^curl\b[^|]*/select/")
FOLLOWER = re.compile(r"^loginson +tail\b[^|]*$", re.S)
PROMPT = re.compile(r"^(?:([a-z][a-z0-9-]*))?\$ (.*)$")
VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\\\.\d+)?Z"), r"\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?Z"),
    (re.compile(r"\b\d+(\\\.\d+)?\\? ?(ms|s|lines/s)\b"), r"[\\d.]+ ?(ns|µs|ms|s|min|lines/s)"),
    (re.compile(r"\b\d+(\\\.\d+)?\\ ([KMG]i)?B\b"), r"[\\d.]+ ([KMG]i)?B"),
)


class Fault(Exception):
    """What is wrong, at a line of a document."""


class Block:
    """A fenced block: language, file name, comment before it, and its lines without their indentation."""

    def __init__(self, number, language, name, lines):
        self.number, self.language, self.name, self.lines = number, language, name, lines
        self.is_run, self.fails, self.numbers_vary, self.hidden = True, False, False, []

    def commands(self):
        """(line, machine, command, output) of each command; output is None where none is shown."""
        machine, command, output, number, found = "", None, [], self.number, []
        for offset, line in enumerate(self.lines, 1):
            prompt = PROMPT.match(line) if self.language == "console" else None
            if prompt or (self.language == "sh" and command is None and line.strip()):
                if command is not None:
                    found.append((number, machine, command, output or None))
                machine, command = (prompt.group(1) or "", prompt.group(2)) if prompt else ("", line)
                number, output = self.number + offset, []
            elif command is not None and not output and not is_complete(command):
                command += "\n" + line
            elif command is not None and self.language == "console":
                output.append(line)
            elif line.strip():
                raise Fault(f"{self.number + offset}: a line that is neither a command nor its output")
            if self.language == "sh" and command is not None and is_complete(command):
                found.append((number, machine, command, None))
                command = None
        if command is not None:
            found.append((number, machine, command, output or None))
        return found


def kind(lines):
    """Hidden commands have prompts only where they are for several machines."""
    return "console" if PROMPT.match(lines[0]) else "sh"


def is_complete(command):
    """Whether a shell would run it, or wait for further lines."""
    if command.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n", "-c", command], stderr=subprocess.DEVNULL).returncode == 0


def blocks(text):
    """The fenced blocks of a document. Commands that are only indented are a fault: nothing would run them."""
    lines, found, at, before = text.split("\n"), [], 0, []
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"^( *)```(\S*)(?: +(\S+))?$", line)
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
            indent = len(fence.group(1))
            block = Block(at + 1, fence.group(2), fence.group(3), [inner[indent:] for inner in lines[at + 1 : end]])
            for comment in before:
                annotate(block, comment, at)
            found.append(block)
            at, before = end + 1, []
        elif line.lstrip().startswith("<!--"):
            end = next(i for i in range(at, len(lines)) if "-->" in lines[i])
            before.append("\n".join(lines[at : end + 1]))
            at = end + 1
        else:
            before = [] if line.strip() else before
            indented = re.match(r"^ {4,}(\w*\$ |loginson |curl |make )", line)
            if indented and not lines[at - 1].strip():
                raise Fault(f"{at + 1}: put commands between fences, ```console or ```sh")
            at += 1
    return found


def annotate(block, comment, at):
    text = comment.strip().removeprefix("<!--").removesuffix("-->").strip()
    if text.startswith("not run:") and text.removeprefix("not run:").strip():
        block.is_run = False
    elif text == "fails":
        block.fails = True
    elif text == "numbers vary":
        block.numbers_vary = True
    elif text.startswith("run\n"):
        block.hidden.append(text.removeprefix("run\n").split("\n"))
    else:
        raise Fault(f"{at}: a comment before a block says 'not run: REASON', 'fails', 'numbers vary' or 'run'")


class Machine:
    """A folder, an address, a shell, and at most one server."""

    def __init__(self, document, address):
        self.document, self.address, self.server, self.followers = document, address, None, []
        # Named by its address, which also takes the place of the machine's name in commands.
        self.folder = document.folder / address
        for folder in SYSTEM_FOLDERS:
            (self.folder / folder).mkdir(parents=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LOGINSON_")}
        environment.update(
            PATH=f"{document.binaries}:{environment['PATH']}",
            HOME=str(self.folder),
            TZ="UTC",
            REPOSITORY=str(ROOT),
            LOGINSON_SERVER=f"http://{address}:9514",
            LOGINSON_HTTP_LISTEN=f"{address}:9514",
            LOGINSON_SYSLOG_UDP_LISTEN=f"{address}:5514",
            LOGINSON_SYSLOG_TCP_LISTEN=f"{address}:5514",
        )
        self.shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=self.folder, env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.shell.stdin.write(b"shopt -s expand_aliases\n")

    def run(self, command, background=None):
        """Runs a command; returns its exit code and what it printed."""
        command = self.document.localised(command, self)
        mark = f"ended-{time.monotonic_ns()}"
        if background:
            command = f"{command.rstrip()} >{background} 2>&1 & echo $!"
        script = f"{{ {command}\n}} </dev/null\nprintf '\\n%s %s\\n' {mark} $?\n"
        self.shell.stdin.write(script.encode())
        self.shell.stdin.flush()
        said, ends = b"", time.monotonic() + PATIENCE_S
        ended = re.compile(rb"\n?\n" + mark.encode() + rb" (\d+)\n$")
        while not (match := ended.search(said)):
            if not select.select([self.shell.stdout], [], [], max(0, ends - time.monotonic()))[0]:
                raise Fault(f"did not end within {PATIENCE_S} s: {command}\n{said.decode()}")
            read = os.read(self.shell.stdout.fileno(), 1 << 16)
            if not read:
                raise Fault(f"ended the shell: {command}\n{said.decode()}")
            said += read
        return int(match.group(1)), self.document.original(said[: match.start()].decode(errors="replace"), self)

    def start(self, command, shown):
        """Starts a server in the background, in place of the former one; waits until it is ready."""
        self.stop()
        begun = time.monotonic()
        log, ready = (self.folder / f"server-{time.monotonic_ns()}.{end}" for end in ("log", "ready"))
        _, pid = self.run(f"{command} --ready-file {ready}", background=log)
        self.server = int(pid.split()[-1])
        while not ready.exists():
            if not alive(self.server) or time.monotonic() > begun + PATIENCE_S:
                raise Fault(f"the server does not start: {command}\n{log.read_text(errors='replace')}")
            time.sleep(0.02)
        # Of its log, some lines may be shown.
        lines = [line for line in shown or [] for line in (line, "…")]
        differs = shown and difference(["…", *lines], plain_log(self.document.original(log.read_text(), self)))
        if differs:
            raise Fault(differs)

    def follow(self, command):
        _, pid = self.run(command, background=self.folder / "follower.log")
        self.followers.append(int(pid.split()[-1]))

    def stop(self):
        if self.server and alive(self.server):
            os.kill(self.server, signal.SIGTERM)
            ends = time.monotonic() + PATIENCE_S
            while alive(self.server) and time.monotonic() < ends:
                time.sleep(0.02)
        self.server = None

    def close(self):
        # The shell leads a session of its own, so this ends what it started and nothing else.
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()
        for pid in [self.server, *self.followers]:
            if pid and alive(pid):
                os.kill(pid, signal.SIGKILL)


def alive(pid):
    """Whether the process runs; one that ended stays a zombie of its shell for a moment."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def plain_log(text):
    """Lines of a server's log without colours and without their times."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return re.sub(r"(?m)^\S+Z +", "", text)


class Document:
    """Runs the blocks of one document."""

    def __init__(self, path, verbose):
        self.path, self.verbose, self.machines = path, verbose, {}
        self.ran = 0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="documents-"))
        self.binaries = self.folder / "bin"
        self.binaries.mkdir()
        (self.binaries / "loginson").symlink_to(pathlib.Path(os.environ["LOGINSON_BIN"]).resolve())
        # An answer that is an error fails the command, which curl alone does not say.
        curl = self.binaries / "curl"
        curl.write_text(f'#!/bin/sh\nexec {shutil.which("curl")} --fail-with-body "$@"\n')
        curl.chmod(0o755)

    def machine(self, name):
        if name not in self.machines:
            # All of 127.0.0.0/8 is this machine; a process has a range of its own.
            pid = os.getpid() % 0x3FFF
            address = f"127.{64 + (pid >> 8)}.{pid & 0xFF}.{next(MACHINE_NUMBERS)}"
            self.machines[name] = Machine(self, address)
        return self.machines[name]

    def replacements(self, machine):
        """What the document says, and what it is on this machine."""
        there = {name: other.address for name, other in self.machines.items() if name}
        there.update({name: self.machine("").address for name in OWN_NAMES})
        return there

    def localised(self, text, machine):
        for name, address in self.replacements(machine).items():
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", address, text)
        text = re.sub(r"\b(127\.0\.0\.1|0\.0\.0\.0|localhost)\b|\[::\]", machine.address, text)
        text = text.replace("DNS:127.", "IP:127.")
        # The one command that has no variable for its server.
        text = re.sub(r"\bloginson generate\b(?!.*--to)", f"loginson generate --to tcp://{machine.address}:5514", text)
        return re.sub(r"(?<![\w.}/])/(etc|var|srv|mnt)/", rf"{machine.folder}/\1/", text)

    def original(self, text, machine):
        text = text.replace(str(machine.folder), "").replace(machine.address, "127.0.0.1")
        text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", READERS_NAME, text)
        for name, address in self.replacements(machine).items():
            text = text.replace(address, name)
        return text

    def run(self):
        """Runs its commands, and counts them."""
        found = blocks((ROOT / self.path).read_text())
        lines = [line for b in found if b.is_run for part in (b.lines, *b.hidden) for line in part]
        names = [m.group(1) for line in lines if (m := PROMPT.match(line))]
        if any(b.is_run and (b.hidden or b.language in ("console", "sh")) for b in found):
            for name in ["", *dict.fromkeys(name for name in names if name)]:
                self.machine(name)
        for block in found:
            try:
                self.run_block(block)
            except Fault as fault:
                at = "" if re.match(r"^\d+: ", str(fault)) else f"{block.number}: "
                raise Fault(f"{self.path}:{at}{fault}") from None

    def run_block(self, block):
        if block.language == "json":
            for part in re.split(r"\n(?=[{\[])", "\n".join(block.lines)):
                json.loads(part)
        if block.language == "toml":
            tomllib.loads("\n".join(block.lines))
        hidden = [command for lines in block.hidden for command in Block(block.number, kind(lines), None, lines).commands()]
        for _, machine, command, _ in hidden:
            self.run_command(block.number, self.machine(machine), command, None, Block(0, "sh", None, []), False)
        if block.name and block.is_run:
            machine = self.machine("")
            (machine.folder / block.name).parent.mkdir(parents=True, exist_ok=True)
            (machine.folder / block.name).write_text(self.localised("\n".join(block.lines) + "\n", machine))
        if block.language not in ("console", "sh") or not block.is_run:
            return
        commands = block.commands()
        for number, name, command, shown in commands:
            fails = block.fails and number == commands[-1][0]
            self.run_command(number, self.machine(name), command, shown, block, fails)

    def run_command(self, number, machine, command, shown, block, fails):
        bare = re.sub(r"\s+#\s.*$", "", command).strip()
        if self.verbose:
            print(f"{self.path}:{number}: {command}", flush=True)
        if not bare or bare.startswith("#"):
            return
        self.ran += 1
        try:
            if SERVER.match(bare):
                return machine.start(bare, shown)
            if machine.server is None and machine is self.machine(""):
                machine.start("loginson", None)
            if FOLLOWER.match(bare):
                return machine.follow(bare)
            code, said = machine.run(command)
            if self.verbose:
                print(said, flush=True)
        except Fault as fault:
            raise Fault(f"{number}: {fault}") from None
        if (code != 0) != bool(fails):
            raise Fault(f"{number}: exit code {code}: {command}\n{said}")
        begun = time.monotonic()
        while differs := shown and difference(shown, said, block.numbers_vary):
            if READER.match(bare) and time.monotonic() - begun < READ_AGAIN_S:
                time.sleep(0.2)
                code, said = machine.run(command)
                continue
            raise Fault(f"{number}: {command}\n{differs}")

    def close(self):
        for machine in self.machines.values():
            machine.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def difference(shown, said, numbers_vary=False):
    """What differs between shown and real output, if anything."""
    lines = [line.rstrip() for line in "\n".join(shown).strip("\n").split("\n")]
    pattern = ""
    for line in lines:
        if line.strip() in ("…", "..."):
            pattern += r"(?:.*\n)*?"
            continue
        line = re.escape(line).replace(re.escape("…"), ".*").replace(r"\.\.\.", ".*")
        for varying, by in VARIES:
            line = varying.sub(by, line.replace(r"\-", "-"))
        if numbers_vary:
            # Blanks align columns of numbers.
            line = re.sub(r"(\\ )*(?<![\[\\{\w])\d+(\\\.\d+)?", r" *[\\d.]+", line)
        pattern += line + r"[ \t]*\n"
    if re.fullmatch(pattern, said.strip("\n") + "\n"):
        return None
    return "shown:\n  " + "\n  ".join(lines) + "\nprinted:\n  " + "\n  ".join(said.strip("\n").split("\n"))


def documents():
    found = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
    return [path for path in found if not path.startswith(LEFT_OUT)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbose", action="store_true", help="print each command and its output")
    parser.add_argument("files", nargs="*", help="documents; all without any")
    arguments = parser.parse_args()
    if not os.path.exists(os.environ.get("LOGINSON_BIN", "")):
        print("LOGINSON_BIN names no binary; build it first", file=sys.stderr)
        return 2
    begun, ran, failed = time.monotonic(), 0, 0
    for path in arguments.files or documents():
        document = Document(path, arguments.verbose)
        try:
            document.run()
        except Fault as fault:
            failed += 1
            print(f"FAILED {fault}\n", flush=True)
        except ValueError as error:
            failed += 1
            print(f"FAILED {path}: {error}\n", flush=True)
        finally:
            ran += document.ran
            document.close()
    print(f"{ran} commands in {time.monotonic() - begun:.0f} s, {failed} documents failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
