#!/usr/bin/env python3
"""Sends lines by the senders that people use, kills the server once in between, and counts the lines at the other end.

    LOGINSON_BIN=target/release/loginson scripts/test-senders.py [--lines 100000] [--write] [WAY…]

Each way is an entry of WAYS: how its sender is installed and started, and what it promises. Senders are installed once,
below ~/.cache/loginson/senders. --write puts the table into docs/fluent-beats-relp.md.

A sender that waits for answers must lose nothing: each number of 0 … LINES-1 must be there. What was under way at the
kill may be there twice. A sender that waits for none may lose what was under way; how much is told.
"""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

CACHE = os.environ.get("LOGINSON_SENDERS_CACHE") or os.path.expanduser("~/.cache/loginson/senders")
DOCUMENT = "docs/fluent-beats-relp.md"
BEGIN, END = "<!-- begin: made by scripts/test-senders.py -->\n", "<!-- end: made by scripts/test-senders.py -->"

FLUENT_PYTHON = """
import sys, time
from fluent import sender
way, host, port, lines = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
logger = sender.FluentSender(way, host=host, port=port, bufmax=64 << 20, nanosecond_precision=True)
for n in range(lines):
    logger.emit("test", {"n": n, "way": way, "level": "warn", "message": f"line {n} of {way}", "deep": {"a": [n]}})
    if n % 1000 == 0:
        time.sleep(0.05)
# What is left goes out once the server is there again.
while logger.pendings:
    logger._send(b"")
    time.sleep(0.1)
logger.close()
"""

FLUENT_NODE = """
const {FluentClient} = require('@fluent-org/logger');
const [way, host, port, lines] = [process.argv[2], process.argv[3], +process.argv[4], +process.argv[5]];
const eventMode = {message: 'Message', forward: 'Forward', packed: 'PackedForward', gzip: 'CompressedPackedForward'}[way.split('-')[2]];
const client = new FluentClient(way, {
  eventMode, ack: {ackTimeout: 5000}, flushInterval: 20, eventRetry: {attempts: 100, minDelay: 200, maxDelay: 1000},
  socket: {host, port, reconnect: {minDelay: 100, maxDelay: 500}},
  security: process.argv[6] ? {clientHostname: 'test', sharedKey: process.argv[6]} : undefined,
});
client.on && client.on('error', () => {});
const AT_ONCE = 2000;
(async () => {
  let left = [];
  for (let n = 0; n < lines; n++) {
    const record = {n, way, level: 'warn', message: `line ${n} of ${way}`, deep: {a: [n]}};
    const emit = async () => {
      for (;;) {
        try { return await client.emit('test', record); } catch (error) { await new Promise((done) => setTimeout(done, 200)); }
      }
    };
    left.push(emit());
    if (left.length === AT_ONCE) { await Promise.all(left); left = []; }
  }
  await Promise.all(left);
  await client.disconnect();
})();
"""

BEATS_GO = """
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	v2 "github.com/elastic/go-lumber/client/v2"
)

func main() {
	way, address := os.Args[1], net.JoinHostPort(os.Args[2], os.Args[3])
	lines, _ := strconv.Atoi(os.Args[4])
	level := 0
	if strings.HasSuffix(way, "zlib") {
		level = 3
	}
	var client *v2.SyncClient
	send := func(events []interface{}) {
		for len(events) > 0 {
			if client == nil {
				var err error
				client, err = v2.SyncDial(address, v2.CompressionLevel(level), v2.Timeout(30*time.Second))
				if err != nil {
					client = nil
					time.Sleep(200 * time.Millisecond)
					continue
				}
			}
			taken, err := client.Send(events)
			events = events[taken:]
			if err != nil {
				client.Close()
				client = nil
			}
		}
	}
	var held []interface{}
	for n := 0; n < lines; n++ {
		held = append(held, map[string]interface{}{
			"@timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			"@metadata":  map[string]interface{}{"beat": "filebeat", "version": "8.0.0"},
			"message":    fmt.Sprintf("line %d of %s", n, way),
			"log":        map[string]interface{}{"level": "warn"},
			"host":       map[string]interface{}{"name": "web1"},
			"n":          n, "way": way, "deep": map[string]interface{}{"a": []int{n}},
		})
		if len(held) == 1000 || n == lines-1 {
			send(held)
			held = nil
		}
	}
	client.Close()
}
"""

RSYSLOG = """
global(workDirectory="{folder}")
module(load="imfile" mode="polling" pollingInterval="1")
module(load="omrelp")
template(name="line" type="string" string="<12>1 %timegenerated:::date-rfc3339% web1 {way} - - - %msg%\\n")
input(type="imfile" File="{folder}/lines" Tag="{way}" ruleset="send")
ruleset(name="send") {{
  action(type="omrelp" target="{host}" port="{port}" template="line" action.resumeRetryCount="-1"
         action.resumeInterval="1" queue.type="LinkedList" queue.size="200000" queue.timeoutShutdown="60000")
}}
"""


@dataclasses.dataclass
class Way:
    """One sender. `install` makes what it needs and gives its version; `start` starts it."""

    protocol: str
    sender: str
    listen: str
    install: object
    start: object
    # The filter of its lines, and the field with their numbers.
    filter: str = 'way:="{way}"'
    number: str = "n"
    is_answered: bool = True
    # It does not end by itself.
    is_service: bool = False
    # More flags of the server.
    flags: tuple = ()


def run(command, **how):
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **how)


def python(package, version):
    def install():
        venv = f"{CACHE}/python-{package}-{version}"
        if not os.path.exists(f"{venv}/installed"):
            run([sys.executable, "-m", "venv", venv])
            run([f"{venv}/bin/pip", "install", "--quiet", f"{package}=={version}"])
            open(f"{venv}/installed", "w").close()
        return version, venv

    return install


def node(package, version):
    def install():
        folder = f"{CACHE}/node-{package.replace('/', '-')}-{version}"
        if not os.path.exists(f"{folder}/installed"):
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/package.json", "w") as file:
                json.dump({"private": True, "dependencies": {package: version}}, file)
            run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder)
            open(f"{folder}/installed", "w").close()
        return version, folder

    return install


def go(module, version, code):
    def install():
        folder = f"{CACHE}/go-{module.split('/')[-1]}-{version}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/main.go", "w") as file:
            file.write(code)
        if not os.path.exists(f"{folder}/go.mod"):
            run(["go", "mod", "init", "sender"], cwd=folder)
            run(["go", "get", f"{module}@{version}"], cwd=folder)
            run(["go", "mod", "tidy"], cwd=folder)
        run(["go", "build", "-p", "1", "-o", "sender", "."], cwd=folder)
        return version, folder

    return install


def rsyslog():
    shown = subprocess.run(["rsyslogd", "-v"], capture_output=True, text=True, check=True).stdout
    return shown.split()[1], ""


def script(command, text, *more):
    """Starts a program that reads its own text from standard input."""

    def start(way, installed, folder, address, lines, errors):
        host, port = address.rsplit(":", 1)
        words = [word.format(installed=installed) for word in command]
        process = subprocess.Popen(
            [*words, way, host, port, str(lines), *more], cwd=installed, stdin=subprocess.PIPE, stderr=errors, text=True,
        )
        process.stdin.write(text)
        process.stdin.close()
        return process

    return start


def start_rsyslog(way, installed, folder, address, lines, errors):
    host, port = address.rsplit(":", 1)
    with open(f"{folder}/lines", "w") as file:
        file.writelines(f"n={n} line of {way}\n" for n in range(lines))
    with open(f"{folder}/rsyslog.conf", "w") as file:
        file.write(RSYSLOG.format(folder=folder, way=way, host=host, port=port))
    return subprocess.Popen(
        ["rsyslogd", "-n", "-f", f"{folder}/rsyslog.conf", "-i", f"{folder}/pid"], stderr=errors, stdout=errors,
    )


def fluent_node(mode, *key):
    key_file = ("--config", "KEY") if key else ()
    return Way(
        "Fluent forward" + (", shared key" if key else ""), f"@fluent-org/logger, {mode}", "fluent",
        node("@fluent-org/logger", "1.0.10"), script(["node", "-"], FLUENT_NODE, *key), flags=key_file,
    )


def beats_go(name):
    return Way(
        "Beats", f"go-lumber, {name}", "beats", go("github.com/elastic/go-lumber", "v0.1.0", BEATS_GO),
        script(["{installed}/sender"], ""),
    )


KEY = "0123456789abcdef"
WAYS = {
    "fluent-python": Way(
        "Fluent forward", "fluent-logger of Python, message", "fluent", python("fluent-logger", "0.11.1"),
        script(["{installed}/bin/python", "-"], FLUENT_PYTHON), is_answered=False,
    ),
    "fluent-node-message": fluent_node("message"),
    "fluent-node-forward": fluent_node("forward"),
    "fluent-node-packed": fluent_node("packed"),
    "fluent-node-gzip": fluent_node("gzip"),
    "fluent-node-packed-key": fluent_node("packed", KEY),
    "beats-go-plain": beats_go("plain"),
    "beats-go-zlib": beats_go("zlib"),
    "relp-rsyslog": Way(
        "RELP", "rsyslog, omrelp", "relp", rsyslog, start_rsyslog, filter='app_name:="{way}"', number="_msg",
        is_service=True,
    ),
}


class Server:
    """A server that keeps its ports over a kill."""

    def __init__(self, binary, folder, listen, flags):
        os.makedirs(folder, exist_ok=True)
        self.binary, self.folder, self.listen = binary, folder, listen
        self.flags = [f"{folder}/config.toml" if flag == "KEY" else flag for flag in flags]
        if self.flags:
            with open(f"{folder}/key", "w") as file:
                file.write(KEY)
            with open(f"{folder}/config.toml", "w") as file:
                file.write(f'fluent_shared_key_file = "{folder}/key"\n')
        self.http = self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        ready = f"{self.folder}/ready"
        if os.path.exists(ready):
            os.remove(ready)
        listen = ["--http-listen", self.http, f"--{self.listen}-listen", self.address]
        listen += ["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]
        log = open(f"{self.folder}/log", "ab")
        self.process = subprocess.Popen(
            [self.binary, "serve", *listen, "--data-dir", f"{self.folder}/data", "--ready-file", ready, *self.flags],
            stderr=log,
        )
        until(lambda: os.path.exists(ready) or self.process.poll() is not None, "the server's start")
        if self.process.poll() is not None:
            sys.exit("test-senders: the server ended:\n" + open(f"{self.folder}/log").read())
        addresses = json.load(open(ready))
        self.http, self.address = addresses["http"], addresses[self.listen]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def row(self, query):
        query = urllib.parse.urlencode({"query": query})
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.http}/select/logsql/query?{query}") as answer:
                    return json.loads(answer.readline() or b"{}")
            except urllib.error.HTTPError as error:
                # Busy with other queries, or just started.
                if error.code != 503:
                    raise
                time.sleep(0.5)


def until(holds, what):
    """Waits for five minutes at most: then it hangs."""
    for _ in range(6000):
        if found := holds():
            return found
        time.sleep(0.05)
    sys.exit(f"test-senders: waited in vain for {what}")


def send(name, way, binary, lines):
    """Sends all lines of one way, and kills the server once a third of them is there. Returns a row of the table."""
    version, installed = way.install()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        server = Server(binary, f"{folder}/server", way.listen, way.flags)
        filter = way.filter.format(way=name)
        count = lambda: int(server.row(f"{filter} | stats count() lines").get("lines", 0))
        numbers = lambda: int(server.row(f"{filter} | stats count_uniq({way.number}) lines").get("lines", 0))
        sender = way.start(name, installed, folder, server.address, lines, errors)
        try:
            until(lambda: count() >= lines // 3 or sender.poll() is not None, f"a third of the lines of {name}")
            at_kill = count()
            server.kill()
            server.start()
            if way.is_service:
                until(lambda: numbers() >= lines, f"all lines of {name}")
                sender.terminate()
                sender.wait()
            elif sender.wait() != 0:
                errors.seek(0)
                sys.exit(f"test-senders: the sender of {name} failed:\n{errors.read()[-3000:]}")
            # What is not waited for may still be on its way.
            there = [-1]
            if not way.is_answered:
                until(lambda: there.append(count()) or there[-1] == there[-2] or time.sleep(1), "the last lines")
            row = server.row(f"{filter} | stats count() lines, count_uniq({way.number}) numbers")
            levels = int(server.row(f"{filter} _level:warning | stats count() n")["n"])
        finally:
            sender.kill()
            server.stop()
    there, numbers = int(row["lines"]), int(row["numbers"])
    missing, twice = lines - numbers, there - numbers
    right = (missing == 0 or not way.is_answered) and levels == there and 0 < at_kill < lines
    print(
        f"{'ok  ' if right else 'FAIL'} {name} {version}: {lines} sent, killed at {at_kill}, {numbers} there, {missing} missing, "
        f"{twice} twice, {levels} with their level",
        flush=True,
    )
    waits = "yes" if way.is_answered else "no"
    return right, [way.protocol, way.sender, version, waits, f"{lines:,}", f"{at_kill:,}", f"{missing:,}", f"{twice:,}"]


def write(rows):
    """Puts rows into the table, in the place of those of the same senders."""
    head = ["protocol", "sender", "version", "waits for answers", "sent", "there at the kill", "missing", "twice"]
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), DOCUMENT)
    with open(path) as file:
        before, rest = file.read().split(BEGIN)
    table, after = rest.split(END)
    cells = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    known = {tuple(row[:2]): row for row in cells + rows}
    senders = [(way.protocol, way.sender) for way in WAYS.values()]
    lines = [head, ["---"] * len(head), *(known[sender] for sender in senders if sender in known)]
    with open(path, "w") as file:
        file.write(before + BEGIN + "\n" + "".join("| " + " | ".join(row) + " |\n" for row in lines) + "\n" + END + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", nargs="*", default=list(WAYS))
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help=f"put the table into {DOCUMENT}")
    options = parser.parse_args()
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("test-senders: LOGINSON_BIN names no binary to test")
    results = [send(name, WAYS[name], binary, options.lines) for name in options.ways]
    if options.write:
        write([row for _, row in results])
    if not all(right for right, _ in results):
        sys.exit("some lines are missing, or wrong")
    print("All lines of all senders that wait for answers are there.")


if __name__ == "__main__":
    main()
