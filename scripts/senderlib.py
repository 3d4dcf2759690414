"""What the scripts with real senders share: how senders are installed and started, a server that keeps its ports over a
kill, and the count of what arrived.

A sender is an entry of a table `SENDERS`: name -> Way. Senders are installed once, below ~/.cache/loginson/senders.

A sender that waits for answers must lose nothing: each number of 0 … LINES-1 must be there. What was under way at the
kill may be there twice. A sender that waits for none may lose what was under way; how much is told.
"""

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

import ways

CACHE = os.environ.get("LOGINSON_SENDERS_CACHE") or os.path.expanduser("~/.cache/loginson/senders")


@dataclasses.dataclass
class Way:
    """One sender. `install` makes what it needs and gives its version; `start` starts it."""

    # An entry of WAYS in ways.py.
    way: str
    sender: str
    listen: str
    install: object
    start: object
    # The filter of its lines, and the field with their numbers.
    filter: str = 'way:="{way}"'
    number: str = "n"
    # The filter of those that have their level; None if they have none.
    level: str = "_level:warning"
    is_answered: bool = True
    # It does not end by itself.
    is_service: bool = False
    # Makes files in a folder, and returns the lines of the server's configuration that name them.
    configure: object = None
    # Why lines may be missing.
    remark: str = ""


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


def node(package, version, *more):
    def install():
        folder = f"{CACHE}/node-{package.replace('/', '-')}-{version}"
        if not os.path.exists(f"{folder}/installed"):
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/package.json", "w") as file:
                json.dump({"private": True, "dependencies": {package: version, **{other: "*" for other in more}}}, file)
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


def rsyslog():
    shown = subprocess.run(["rsyslogd", "-v"], capture_output=True, text=True, check=True).stdout
    return shown.split()[1], ""


def certificate(folder):
    """Makes a certificate for loopback, and returns the configuration that names it."""
    cert, key = f"{folder}/certificate.pem", f"{folder}/key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, "-keyout", key, "-out", cert])
    os.chmod(key, 0o600)
    return f'[tls]\ncertificate = "{cert}"\nkey = "{key}"\n'


class Server:
    """A server that keeps its ports over a kill. Besides HTTP it listens at one address."""

    def __init__(self, binary, folder, listen, configure=None):
        os.makedirs(folder, exist_ok=True)
        self.binary, self.folder, self.listen, self.flags = binary, folder, listen, []
        if configure:
            with open(f"{folder}/config.toml", "w") as file:
                file.write(configure(folder))
            self.flags = ["--config", f"{folder}/config.toml"]
        self.http = self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        ready = f"{self.folder}/ready"
        if os.path.exists(ready):
            os.remove(ready)
        listen = {"syslog-udp": "off", "syslog-tcp": "off", "syslog-tls": "off", self.listen: self.address, "http": self.http}
        command = [word for name, address in listen.items() for word in (f"--{name}-listen", address)]
        log = open(f"{self.folder}/log", "ab")
        self.process = subprocess.Popen(
            [self.binary, "serve", *command, "--data-dir", f"{self.folder}/data", "--ready-file", ready, *self.flags],
            stderr=log,
        )
        until(lambda: os.path.exists(ready) or self.process.poll() is not None, "the server's start")
        if self.process.poll() is not None:
            sys.exit("test-senders: the server ended:\n" + open(f"{self.folder}/log").read())
        addresses = json.load(open(ready))
        self.http, self.address = addresses["http"], addresses[self.listen.replace("-", "_")]

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
    """Sends all lines of one way, and kills the server once a third of them is there. Returns whether all is right."""
    version, installed = way.install()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        server = Server(binary, f"{folder}/server", way.listen, way.configure)
        filter = way.filter.format(way=name)
        count = lambda: int(server.row(f"{filter} | stats count() lines").get("lines", 0))
        numbers = lambda: int(server.row(f"{filter} | stats count_uniq({way.number}) lines").get("lines", 0))
        sender = way.start(name, installed, folder, server.address, lines, errors)
        try:
            until(lambda: count() >= lines // 3 or sender.poll() is not None or time.sleep(0.2), f"a third of the lines of {name}")
            at_kill = count()
            server.kill()
            server.start()
            if way.is_service:
                # One that waits for no answers may have lost some.
                seen = [-1]
                until(
                    lambda: numbers() >= lines or not way.is_answered and is_still(seen, count()), f"all lines of {name}",
                )
                sender.terminate()
                sender.wait()
            elif sender.wait() != 0:
                errors.seek(0)
                sys.exit(f"test-senders: the sender of {name} failed:\n{errors.read()[-3000:]}")
            # What is not waited for may still be on its way.
            seen = [-1]
            if not way.is_answered:
                until(lambda: is_still(seen, count()), "the last lines")
            row = server.row(f"{filter} | stats count() lines, count_uniq({way.number}) numbers")
            level = way.level and f"{filter} {way.level} | stats count() n"
            levels = int(server.row(level)["n"]) if level else int(row["lines"])
        finally:
            sender.kill()
            server.stop()
    there, found = int(row["lines"]), int(row["numbers"])
    missing, twice = lines - found, there - found
    right = (missing == 0 if way.is_answered else found > at_kill) and levels == there and 0 < at_kill < lines
    print(
        f"{'ok  ' if right else 'FAIL'} {name} {version}: {lines} sent, killed at {at_kill}, {found} there, {missing} missing, "
        f"{twice} twice, {levels} with their level",
        flush=True,
    )
    if right:
        remark = way.remark if missing else ""
        ways.record(way.way, way.sender, version, lines, 1, found, twice, way.is_answered, remark)
    return right


def is_still(seen, count):
    """Whether a count was the same the last twelve times, a second apart: StatsD writes its rows every ten seconds."""
    seen[:] = [*seen[-11:], count]
    time.sleep(1)
    return len(seen) == 12 and len(set(seen)) == 1
