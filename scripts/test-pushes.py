#!/usr/bin/env python3
"""Sends lines and measurements by real senders of other products, kills the server once in between, and counts.

    LOGINSON_BIN=target/release/loginson scripts/test-pushes.py [--lines 100000] [WAY…]

Ways: vlagent (VLAGENT_BIN, else built from its Go module), systemd-journal-upload (of the package
systemd-journal-remote), the Python clients of InfluxDB and of OpenTelemetry's metrics, and vmagent's remote write
(VMAGENT_BIN; left out without it). Each number of 0 … LINES-1 must be there, since each sender repeats what was not
acknowledged; what was under way at the kill may be there twice. Installed once, below ~/.cache/loginson/pushes. What
became of the lines is written into docs/ways.md, by ways.py.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import ways

CACHE = os.path.expanduser("~/.cache/loginson/pushes")
PYTHON = ["influxdb-client==1.50.0", "opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp-proto-http==1.45.2"]
NODE = {"@opentelemetry/sdk-metrics": "2.9.0", "@opentelemetry/exporter-metrics-otlp-http": "0.223.1"}
VLAGENT = "github.com/VictoriaMetrics/VictoriaLogs/app/vlagent@v1.52.2"
BATCH = 1000
# How each is named in docs/ways.md.
NAMES = {
    "vlagent": ("VictoriaLogs, native", "vlagent", VLAGENT.split("@v")[1]),
    "journal": ("Journal upload", "systemd-journal-upload", ""),
    "influx": ("InfluxDB", "influxdb-client of Python", PYTHON[0].split("==")[1]),
    "otlp": ("OTLP, metrics", "opentelemetry-sdk of Python, HTTP, protobuf", PYTHON[1].split("==")[1]),
    "otlp-node": ("OTLP, metrics", "@opentelemetry/sdk-metrics of Node, HTTP, JSON", NODE["@opentelemetry/sdk-metrics"]),
    "vmagent": ("Prometheus remote write", "vmagent", ""),
}

INFLUX = """
import sys, time
from influxdb_client import InfluxDBClient, Point
from influxdb_client.client.write_api import SYNCHRONOUS
address, lines, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = InfluxDBClient(url=f"http://{address}", token="any", org="any", timeout=5000)
write = client.write_api(write_options=SYNCHRONOUS)
for begin in range(0, lines, batch):
    points = [Point("influx").tag("n", n).tag("way", "influx").field("value", n) for n in range(begin, min(lines, begin + batch))]
    while True:
        try:
            write.write(bucket="any", record=points)
            break
        except Exception:
            time.sleep(0.2)
    print("sent", flush=True)
"""

OTLP = """
import sys, time
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
address, lines, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
exporter = OTLPMetricExporter(endpoint=f"http://{address}/v1/metrics", timeout=5)
for begin in range(0, lines, batch):
    # A provider knows 2,000 sets of attributes at most.
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    numbers = range(begin, min(lines, begin + batch))
    meter.create_observable_gauge("otlp", [lambda _: [Observation(n, {"n": n, "way": "otlp"}) for n in numbers]])
    data = reader.get_metrics_data()
    while exporter.export(data).name != "SUCCESS":
        time.sleep(0.2)
    print("sent", flush=True)
"""

OTLP_NODE = """
const {MeterProvider, MetricReader, AggregationTemporality} = require('@opentelemetry/sdk-metrics');
const {OTLPMetricExporter} = require('@opentelemetry/exporter-metrics-otlp-http');
const [address, lines, batch] = [process.argv[2], +process.argv[3], +process.argv[4]];
const exporter = new OTLPMetricExporter({url: `http://${address}/v1/metrics`, timeoutMillis: 5000});
class Reader extends MetricReader {
  onForceFlush() { return Promise.resolve(); }
  onShutdown() { return Promise.resolve(); }
}
const taken = (metrics) => new Promise((done) => exporter.export(metrics, (result) => done(result.code === 0)));
(async () => {
  for (let begin = 0; begin < lines; begin += batch) {
    // A provider knows 2,000 sets of attributes at most.
    const reader = new Reader();
    const meter = new MeterProvider({readers: [reader]}).getMeter('test');
    meter.createObservableGauge('otlp').addCallback((result) => {
      for (let n = begin; n < Math.min(lines, begin + batch); n++) result.observe(n, {n, way: 'otlp-node'});
    });
    const {resourceMetrics} = await reader.collect();
    while (!(await taken(resourceMetrics))) await new Promise((done) => setTimeout(done, 200));
    console.log('sent');
  }
  await exporter.shutdown();
})();
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(holds):
    """Waits for five minutes at most: then it hangs."""
    for _ in range(6000):
        if found := holds():
            return found
        time.sleep(0.05)
    sys.exit("test-pushes: waited in vain")


class Server:
    """A server that keeps its port over a kill."""

    def __init__(self, binary, folder):
        os.makedirs(folder, exist_ok=True)
        self.binary, self.folder, self.http = binary, folder, "127.0.0.1:0"
        self.start()

    def start(self):
        ready = f"{self.folder}/ready"
        if os.path.exists(ready):
            os.remove(ready)
        self.process = subprocess.Popen(
            [self.binary, "serve", "--http-listen", self.http, "--syslog-udp-listen", "off", "--syslog-tcp-listen", "off",
             "--data-dir", f"{self.folder}/data", "--ready-file", ready],
            stderr=open(f"{self.folder}/log", "ab"),
        )
        until(lambda: os.path.exists(ready) or self.process.poll() is not None)
        if self.process.poll() is not None:
            sys.exit("test-pushes: the server ended:\n" + open(f"{self.folder}/log").read())
        self.http = json.load(open(ready))["http"]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def row(self, query):
        query = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://{self.http}/select/logsql/query?{query}") as answer:
            return json.loads(answer.readline() or b"{}")

    def rows(self, way):
        """Rows of a way, and how many different numbers they have."""
        row = self.row(f"way:={way} | stats count() rows, count_uniq(n) numbers")
        return int(row.get("rows") or 0), int(row.get("numbers") or 0)


def killed_once(server, way, lines):
    """Kills and starts the server once a part of the lines is there."""
    until(lambda: server.rows(way)[0] >= lines // 10)
    server.kill()
    time.sleep(0.5)
    server.start()


def by_script(script, command=(f"{CACHE}/venv/bin/python", "-c")):
    def send(server, way, lines, folder):
        with open(f"{folder}/script", "w") as file:
            file.write(script)
        # Node finds its modules below the working directory, and a script in a file beside it.
        words = [*command, script] if command[-1] == "-c" else [*command, "-"]
        sender = subprocess.Popen(
            [*words, server.http, str(lines), str(BATCH)], stdin=open(f"{folder}/script"), cwd=CACHE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        killed_once(server, way, lines)
        if sender.wait() != 0:
            sys.exit(f"test-pushes: the sender of {way} failed")

    return send


def feed(address, path, numbers, write):
    """Posts numbered lines to an agent in batches."""
    for begin in range(numbers.start, numbers.stop, BATCH):
        body = "".join(write(n) + "\n" for n in range(begin, min(numbers.stop, begin + BATCH))).encode()
        request = urllib.request.Request(f"http://{address}{path}", data=body, headers={"Content-Type": "application/json"})
        until(lambda: accepts(request))


def accepts(request):
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status < 300
    except (urllib.error.URLError, ConnectionError):
        return False


def by_agent(binary, arguments, path, write):
    """An agent that takes lines itself, and sends them on."""

    def send(server, way, lines, folder):
        address = f"127.0.0.1:{free_port()}"
        command = [binary, f"-httpListenAddr={address}", f"-remoteWrite.tmpDataPath={folder}/agent"]
        agent = subprocess.Popen(
            [*command, *(argument.replace("ADDRESS", server.http) for argument in arguments)],
            stderr=open(f"{folder}/agent.log", "wb"),
        )
        try:
            feed(address, path, range(lines // 2), write)
            killed_once(server, way, lines // 2)
            feed(address, path, range(lines // 2, lines), write)
            until(lambda: server.rows(way)[1] >= lines)
        finally:
            agent.terminate()
            agent.wait()

    return send


def journal(server, way, lines, folder):
    """Writes a journal, and uploads it until that succeeds."""
    entries = b"".join(
        b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%032x\n_MACHINE_ID=%032x\n_HOSTNAME=web1\nPRIORITY=6\n"
        b"SYSLOG_IDENTIFIER=test\nWAY=%s\nN=%d\nMESSAGE\n%sline %d\nof journal\n\n"
        % (1769860800000000 + n, n + 1, 7, 7, way.encode(), n, (len(f"line {n}\nof journal")).to_bytes(8, "little"), n)
        for n in range(lines)
    )
    os.makedirs(f"{folder}/journal")
    remote, upload = ("/usr/lib/systemd/systemd-journal-remote", "/usr/lib/systemd/systemd-journal-upload")
    subprocess.run([remote, "-o", f"{folder}/journal/test.journal", "-"], input=entries, check=True, stderr=subprocess.DEVNULL)
    command = [upload, f"--url=http://{server.http}", f"--directory={folder}/journal", f"--save-state={folder}/state", "--follow=no"]
    sender = subprocess.Popen(command, stderr=open(f"{folder}/upload.log", "wb"))
    until(lambda: server.row("WAY:* | stats count() n").get("n", "0") not in ("", "0") or sender.poll() is not None)
    server.kill()
    sender.wait()
    server.start()
    until(lambda: subprocess.run(command, stderr=open(f"{folder}/upload.log", "ab")).returncode == 0)


def tools(wanted):
    if not os.path.exists(f"{CACHE}/venv"):
        subprocess.run([sys.executable, "-m", "venv", f"{CACHE}/venv"], check=True)
        subprocess.run([f"{CACHE}/venv/bin/pip", "install", "-q", *PYTHON], check=True)
    vlagent = os.environ.get("VLAGENT_BIN") or f"{CACHE}/vlagent"
    if "vlagent" in wanted and not os.path.exists(vlagent):
        environment = {**os.environ, "GOBIN": CACHE, "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "install", VLAGENT], env=environment, check=True)
    if "otlp-node" in wanted and not os.path.exists(f"{CACHE}/node_modules"):
        with open(f"{CACHE}/package.json", "w") as file:
            json.dump({"private": True, "dependencies": NODE}, file)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=CACHE, check=True)
    line = lambda n: json.dumps({"_msg": f"line {n}", "n": n, "way": "vlagent", "app": f"a{n % 3}"})
    ways = {
        "vlagent": by_agent(
            vlagent, ["-remoteWrite.url=http://ADDRESS/insert/native"], "/insert/jsonline?_stream_fields=app", line
        ),
        "journal": journal,
        "influx": by_script(INFLUX),
        "otlp": by_script(OTLP),
        "otlp-node": by_script(OTLP_NODE, ("node",)),
    }
    if vmagent := os.environ.get("VMAGENT_BIN"):
        sample = lambda n: f'vmagent{{way="vmagent",n="{n}"}} {n}'
        arguments = ["-remoteWrite.url=http://ADDRESS/api/v1/write", "-remoteWrite.forcePromProto", "-remoteWrite.showURL"]
        ways["vmagent"] = by_agent(vmagent, arguments, "/api/v1/import/prometheus", sample)
    return ways


def version_of(way):
    """The version of a sender that is not installed by this script, as it says itself."""
    command = ["/usr/lib/systemd/systemd-journal-upload", "--version"] if way == "journal" else [os.environ["VMAGENT_BIN"], "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return shown.split()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("ways", nargs="*")
    arguments = parser.parse_args()
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("test-pushes: LOGINSON_BIN names no binary to test")
    senders = tools(arguments.ways or ["vlagent", "otlp-node"])
    failed = False
    for way in arguments.ways or senders:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(binary, f"{folder}/server")
            begun = time.monotonic()
            senders[way](server, way, arguments.lines, folder)
            if way == "journal":
                row = server.row("WAY:=journal | stats count() rows, count_uniq(N) numbers")
                rows, numbers = int(row["rows"]), int(row["numbers"])
            else:
                rows, numbers = server.rows(way)
            server.stop()
            is_right = numbers == arguments.lines
            if is_right:
                name, sender, version = NAMES[way]
                ways.record(name, sender, version or version_of(way), arguments.lines, 1, numbers, rows - numbers)
            failed |= not is_right
            took = time.monotonic() - begun
            print(f"{way}: {numbers} of {arguments.lines} lines, {rows - numbers} twice, {took:.0f} s" + ("" if is_right else ": WRONG"))
    sys.exit(failed)


if __name__ == "__main__":
    main()
