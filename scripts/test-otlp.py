#!/usr/bin/env python3
"""Sends logs by the SDKs of OpenTelemetry, kills the server once in between, and counts the lines at the other end.

    LOGINSON_BIN=target/release/loginson scripts/test-otlp.py [--lines 100000] [WAY…]

At the end, one line by gRPC over TLS with a token, and one with a wrong token, which must not arrive.

Ways: the exporters of Python, JavaScript, Go and Java, by HTTP as protobuf and JSON, and by gRPC. They are installed once,
below ~/.cache/loginson. What became of the lines is written into docs/ways.md, by ways.py. Each exporter is asked for each batch again until it says that the batch was taken: a line that
was acknowledged must be there, so each number of 0 … LINES-1 must be; a batch that was under way at the kill may be
there twice.
"""

import argparse
import hashlib
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import ways

CACHE = os.environ.get("LOGINSON_OTLP_CACHE") or os.path.expanduser("~/.cache/loginson/opentelemetry")
PYTHON = ["opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp==1.45.2"]
NODE = {
    "@opentelemetry/api-logs": "0.223.1",
    "@opentelemetry/sdk-logs": "0.223.1",
    "@opentelemetry/resources": "^2.0.0",
    "@opentelemetry/exporter-logs-otlp-http": "0.223.1",
    "@opentelemetry/exporter-logs-otlp-proto": "0.223.1",
    "@opentelemetry/exporter-logs-otlp-grpc": "0.223.1",
}
GO = [
    "go.opentelemetry.io/otel@v1.47.0",
    "go.opentelemetry.io/otel/sdk@v1.47.0",
    "go.opentelemetry.io/otel/log@v1.47.0",
    "go.opentelemetry.io/otel/sdk/log@v1.47.0",
    "go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp@v0.23.0",
    "go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc@v0.23.0",
]
JAVA = "1.65.0"
BATCH = 1000

IN_PYTHON = """
import sys, time
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk.resources import Resource
way, address, lines, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if way.endswith("grpc"):
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    exporter = OTLPLogExporter(endpoint=f"http://{address}", insecure=True, timeout=5)
else:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter, Compression
    gzip = Compression.Gzip if way.endswith("gzip") else Compression.NoCompression
    exporter = OTLPLogExporter(endpoint=f"http://{address}/v1/logs", compression=gzip, timeout=5)
class Batches(LogRecordProcessor):
    def __init__(self):
        self.held = []
    def on_emit(self, record):
        self.held.append(record)
        if len(self.held) == batch:
            while exporter.export(self.held).name != "SUCCESS":
                time.sleep(0.2)
            self.held = []
            print("sent", flush=True)
    def shutdown(self):
        exporter.shutdown()
    def force_flush(self, timeout_millis=0):
        return True
provider = LoggerProvider(resource=Resource({"service.name": way}), shutdown_on_exit=False)
provider.add_log_record_processor(Batches())
logger = provider.get_logger("test")
for n in range(lines):
    logger.emit(LogRecord(timestamp=time.time_ns(), severity_number=SeverityNumber.WARN, severity_text="WARN",
                          body=f"line {n} of {way}", attributes={"n": n, "deep": {"a": [n]}}))
provider.shutdown()
"""

OVER_TLS = """
import sys, time
import grpc
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
address, certificate, token = sys.argv[1:]
credentials = grpc.ssl_channel_credentials(open(certificate, "rb").read())
headers = {"authorization": f"Bearer {token}"}
exporter = OTLPLogExporter(endpoint=f"https://{address}", credentials=credentials, headers=headers, timeout=60)
provider = LoggerProvider()
provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
provider.get_logger("test").emit(LogRecord(timestamp=time.time_ns(), body=f"with the token {token}"))
provider.shutdown()
"""

IN_NODE = """
const {LoggerProvider} = require('@opentelemetry/sdk-logs');
const {resourceFromAttributes} = require('@opentelemetry/resources');
const [way, address, lines, batch] = [process.argv[2], process.argv[3], +process.argv[4], +process.argv[5]];
const kind = {json: 'http', proto: 'proto', grpc: 'grpc'}[way.split('-')[1]];
const {OTLPLogExporter} = require('@opentelemetry/exporter-logs-otlp-' + kind);
const url = `http://${address}` + (kind === 'grpc' ? '' : '/v1/logs');
const exporter = new OTLPLogExporter({url, timeoutMillis: 5000});
let held = [];
const processor = {
  onEmit(record) { held.push(record); },
  forceFlush() { return Promise.resolve(); },
  shutdown() { return exporter.shutdown(); },
};
const provider = new LoggerProvider({
  resource: resourceFromAttributes({'service.name': way}), processors: [processor],
});
const logger = provider.getLogger('test');
const taken = (records) => new Promise((done) => exporter.export(records, (result) => done(result.code === 0)));
(async () => {
  for (let n = 0; n < lines; n++) {
    logger.emit({severityNumber: 13, severityText: 'WARN', body: `line ${n} of ${way}`, attributes: {n, deep: {a: [n]}}});
    if (held.length === batch) {
      while (!(await taken(held))) await new Promise((done) => setTimeout(done, 200));
      held = [];
      console.log('sent');
    }
  }
  await provider.shutdown();
})();
"""

IN_GO = """
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
)

type batches struct {
	exporter sdk.Exporter
	size     int
	held     []sdk.Record
}

func (b *batches) OnEmit(ctx context.Context, record *sdk.Record) error {
	b.held = append(b.held, record.Clone())
	if len(b.held) < b.size {
		return nil
	}
	for b.exporter.Export(ctx, b.held) != nil {
		time.Sleep(200 * time.Millisecond)
	}
	b.held = nil
	fmt.Println("sent")
	return nil
}
func (b *batches) Enabled(context.Context, sdk.EnabledParameters) bool { return true }
func (b *batches) Shutdown(ctx context.Context) error                  { return b.exporter.Shutdown(ctx) }
func (b *batches) ForceFlush(ctx context.Context) error                { return nil }

func main() {
	way, address := os.Args[1], os.Args[2]
	lines, _ := strconv.Atoi(os.Args[3])
	size, _ := strconv.Atoi(os.Args[4])
	ctx := context.Background()
	var exporter sdk.Exporter
	var err error
	if strings.HasSuffix(way, "grpc") {
		exporter, err = otlploggrpc.New(ctx, otlploggrpc.WithEndpoint(address), otlploggrpc.WithInsecure(),
			otlploggrpc.WithCompressor("gzip"), otlploggrpc.WithTimeout(5*time.Second))
	} else {
		exporter, err = otlploghttp.New(ctx, otlploghttp.WithEndpoint(address), otlploghttp.WithInsecure(),
			otlploghttp.WithTimeout(5*time.Second))
	}
	if err != nil {
		panic(err)
	}
	service := resource.NewSchemaless(attribute.String("service.name", way))
	provider := sdk.NewLoggerProvider(sdk.WithResource(service), sdk.WithProcessor(&batches{exporter: exporter, size: size}))
	logger := provider.Logger("test")
	for n := range lines {
		var record log.Record
		record.SetTimestamp(time.Now())
		record.SetSeverity(log.SeverityWarn)
		record.SetSeverityText("WARN")
		record.SetBody(attribute.StringValue(fmt.Sprintf("line %d of %s", n, way)))
		list := attribute.SliceValue(attribute.IntValue(n))
		deep := attribute.MapValue(attribute.KeyValue{Key: "a", Value: list})
		record.AddAttributes(attribute.Int("n", n), attribute.KeyValue{Key: "deep", Value: deep})
		logger.Emit(ctx, record)
	}
	if err := provider.Shutdown(ctx); err != nil {
		panic(err)
	}
}
"""

IN_JAVA = """
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.logs.Severity;
import io.opentelemetry.exporter.otlp.http.logs.OtlpHttpLogRecordExporter;
import io.opentelemetry.exporter.otlp.logs.OtlpGrpcLogRecordExporter;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.logs.*;
import io.opentelemetry.sdk.logs.data.LogRecordData;
import io.opentelemetry.sdk.logs.export.LogRecordExporter;
import io.opentelemetry.sdk.resources.Resource;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;

public class Sender {
  public static void main(String[] arguments) throws Exception {
    String way = arguments[0], address = arguments[1];
    int lines = Integer.parseInt(arguments[2]), batch = Integer.parseInt(arguments[3]);
    LogRecordExporter exporter = way.endsWith("grpc")
        ? OtlpGrpcLogRecordExporter.builder().setEndpoint("http://" + address).setTimeout(Duration.ofSeconds(5)).build()
        : OtlpHttpLogRecordExporter.builder().setEndpoint("http://" + address + "/v1/logs").setCompression("gzip")
            .setTimeout(Duration.ofSeconds(5)).build();
    List<LogRecordData> held = new ArrayList<>();
    LogRecordProcessor batches = (context, record) -> {
      held.add(record.toLogRecordData());
      if (held.size() < batch) return;
      while (!exporter.export(held).join(10, TimeUnit.SECONDS).isSuccess()) {
        try { Thread.sleep(200); } catch (InterruptedException error) { throw new RuntimeException(error); }
      }
      held.clear();
      System.out.println("sent");
    };
    SdkLoggerProvider provider = SdkLoggerProvider.builder().addLogRecordProcessor(batches)
        .setResource(Resource.builder().put("service.name", way).build()).build();
    var logger = provider.get("test");
    for (int n = 0; n < lines; n++) {
      logger.logRecordBuilder().setTimestamp(System.currentTimeMillis(), TimeUnit.MILLISECONDS).setSeverity(Severity.WARN)
          .setSeverityText("WARN").setBody("line " + n + " of " + way).setAttribute(AttributeKey.longKey("n"), (long) n)
          .setAttribute(AttributeKey.stringKey("deep.a"), "[" + n + "]").emit();
    }
    exporter.shutdown().join(10, TimeUnit.SECONDS);
    System.exit(0);
  }
}
"""

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>sender</artifactId><version>1</version>
<dependencies>
<dependency><groupId>io.opentelemetry</groupId><artifactId>opentelemetry-sdk</artifactId><version>VERSION</version></dependency>
<dependency><groupId>io.opentelemetry</groupId><artifactId>opentelemetry-exporter-otlp</artifactId><version>VERSION</version></dependency>
</dependencies></project>
"""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

# How each is named in docs/ways.md, and its version.
SENDERS = {
    "python": ("opentelemetry-sdk of Python", PYTHON[0].split("==")[1]),
    "node": ("@opentelemetry/sdk-logs of Node", NODE["@opentelemetry/sdk-logs"]),
    "go": ("go.opentelemetry.io/otel of Go", GO[0].split("@v")[1]),
    "java": ("opentelemetry-sdk of Java", JAVA),
}
KINDS = {
    "http": "HTTP, protobuf", "gzip": "HTTP, protobuf, gzip", "proto": "HTTP, protobuf", "json": "HTTP, JSON", "grpc": "gRPC",
}
WAYS = ["python-http", "python-gzip", "python-grpc", "node-json", "node-proto", "node-grpc", "go-http", "go-grpc", "java-gzip", "java-grpc"]


def install(ways):
    """What sends in each language: a command, and what its standard input is. Go is built from its modules."""
    venv, node = f"{CACHE}/venv-{PYTHON[0].split('==')[1]}", f"{CACHE}/node-{NODE['@opentelemetry/sdk-logs']}"
    go, java = f"{CACHE}/go-{GO[0].split('@')[1]}", f"{CACHE}/java-{JAVA}"
    languages = {way.split("-")[0] for way in ways}
    if "python" in languages and not os.path.exists(f"{venv}/installed"):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([f"{venv}/bin/pip", "install", "--quiet", *PYTHON], check=True)
        open(f"{venv}/installed", "w").close()
    if "node" in languages and not os.path.exists(f"{node}/installed"):
        os.makedirs(node, exist_ok=True)
        with open(f"{node}/package.json", "w") as file:
            json.dump({"private": True, "dependencies": NODE}, file)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=node, check=True)
        open(f"{node}/installed", "w").close()
    if "go" in languages:
        os.makedirs(go, exist_ok=True)
        with open(f"{go}/main.go", "w") as file:
            file.write(IN_GO)
        if not os.path.exists(f"{go}/go.mod"):
            subprocess.run(["go", "mod", "init", "sender"], cwd=go, check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["go", "get", *GO], cwd=go, check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["go", "build", "-p", "1", "-o", "sender", "."], cwd=go, check=True)
    if "java" in languages and not os.path.exists(f"{java}/installed"):
        os.makedirs(java, exist_ok=True)
        with open(f"{java}/pom.xml", "w") as file:
            file.write(POM.replace("VERSION", JAVA))
        subprocess.run(["mvn", "-q", "-B", COPY, "-DincludeScope=runtime", f"-DoutputDirectory={java}/jars"], cwd=java, check=True)
        open(f"{java}/installed", "w").close()
    if "java" in languages:
        with open(f"{java}/Sender.java", "w") as file:
            file.write(IN_JAVA)
    return {
        "java": (["java", "-cp", f"{java}/jars/*", f"{java}/Sender.java"], java, ""),
        "python": ([f"{venv}/bin/python", "-"], venv, IN_PYTHON),
        # Node finds its modules below the working directory.
        "node": (["node", "-"], node, IN_NODE),
        "go": ([f"{go}/sender"], go, ""),
    }


class Server:
    """A server that keeps its port over a kill."""

    def __init__(self, binary, folder, arguments=()):
        os.makedirs(folder, exist_ok=True)
        self.binary, self.folder, self.arguments = binary, folder, arguments
        self.http = self.otlp = "127.0.0.1:0"
        self.start()

    def start(self):
        ready = f"{self.folder}/ready"
        if os.path.exists(ready):
            os.remove(ready)
        listen = ["--http-listen", self.http, "--otlp-listen", self.otlp]
        listen += ["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]
        log = open(f"{self.folder}/log", "ab")
        self.process = subprocess.Popen(
            [self.binary, "serve", *listen, "--data-dir", f"{self.folder}/data", "--ready-file", ready, *self.arguments],
            stderr=log,
        )
        until(lambda: os.path.exists(ready) or self.process.poll() is not None)
        if self.process.poll() is not None:
            sys.exit("test-otlp: the server ended:\n" + open(f"{self.folder}/log").read())
        addresses = json.load(open(ready))
        self.http, self.otlp = addresses["http"], addresses["otlp"]

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


def until(holds):
    """Waits for five minutes at most: then it hangs."""
    for _ in range(6000):
        if found := holds():
            return found
        time.sleep(0.05)
    sys.exit("test-otlp: waited in vain")


def send(way, server, lines, tools):
    """Sends all lines of one way, and kills the server after a third of the batches."""
    command, folder, script = tools[way.split("-")[0]]
    address = server.otlp if way != "python-http" else server.http
    errors = tempfile.TemporaryFile("w+")
    sender = subprocess.Popen(
        [*command, way, address, str(lines), str(BATCH)], cwd=folder, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=errors,
    )
    sender.stdin.write(script)
    sender.stdin.close()
    kill_at, batches, restart = lines // BATCH // 3, 0, None
    for _ in sender.stdout:
        batches += 1
        if batches == kill_at:
            server.kill()
            restart = threading.Thread(target=server.start)
            restart.start()
    if sender.wait() != 0:
        errors.seek(0)
        sys.exit(f"test-otlp: the sender of {way} failed:\n{errors.read()[-3000:]}")
    restart.join()
    found = server.row(f'service.name:="{way}" | stats count() lines, count_uniq(n) numbers, min(n) first, max(n) last')
    levels = server.row(f'service.name:="{way}" _level:warning deep.a:* _msg:"line" | count() n')["n"]
    right = found["numbers"] == str(lines) and found["last"] == str(lines - 1) and found["first"] == "0"
    twice = int(found["lines"]) - lines
    right = right and 0 <= twice <= 2 * BATCH and levels == found["lines"]
    print(f"{'ok  ' if right else 'FAIL'} {way}: {lines} lines sent, server killed once, {found['numbers']} there, "
          f"{twice} of them twice", flush=True)
    language, kind = way.split("-")
    if right:
        sender, version = SENDERS[language]
        ways.record("OTLP, logs", f"{sender}, {KINDS[kind]}", version, lines, 1, int(found["numbers"]), twice)
    return right


def over_tls(binary, folder, python):
    """Whether a call over TLS with a token arrives, and one with another token does not."""
    certificate, key, config = f"{folder}/certificate.pem", f"{folder}/key.pem", f"{folder}/config.toml"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    os.chmod(key, 0o600)
    with open(config, "w") as file:
        for name, role in [("right", "ingest"), ("reader", "read")]:
            digest = hashlib.sha256(f"{name}-0123456789abcdef".encode()).hexdigest()
            file.write(f'[[tokens]]\nname = "{name}"\nsha256 = "{digest}"\nrole = "{role}"\n')
        file.write(f'[http_tls]\ncertificate = "{certificate}"\nkey = "{key}"\n')
    server = Server(binary, f"{folder}/tls", ["--config", config])
    try:
        for token in ["right-0123456789abcdef", "wrong-0123456789abcdef"]:
            for address in [server.http, server.otlp]:
                subprocess.run([python, "-c", OVER_TLS, address, certificate, token], stderr=subprocess.DEVNULL)
        context = ssl.create_default_context(cafile=certificate)
        query = urllib.parse.urlencode({"query": "* | stats by (_msg) count() n"})
        request = urllib.request.Request(f"https://{server.http}/select/logsql/query?{query}")
        request.add_header("Authorization", "Bearer reader-0123456789abcdef")
        with urllib.request.urlopen(request, context=context) as answer:
            found = [json.loads(row) for row in answer]
    finally:
        server.stop()
    right = found == [{"_msg": "with the token right-0123456789abcdef", "n": "2"}]
    print(f"{'ok  ' if right else 'FAIL'} gRPC over TLS, with a right and a wrong token: {found}", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", nargs="*", default=WAYS)
    parser.add_argument("--lines", type=int, default=100_000, help=f"a multiple of {BATCH}, at least {3 * BATCH}")
    options = parser.parse_args()
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("test-otlp: LOGINSON_BIN names no binary to test")
    tools = install(options.ways)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, folder)
        try:
            results = [send(way, server, options.lines, tools) for way in options.ways]
        finally:
            server.stop()
        if "python-grpc" in options.ways:
            results.append(over_tls(binary, folder, tools["python"][0][0]))
    if not all(results):
        sys.exit("some lines are missing, or there are too many")
    print("All lines of all exporters are there.")


if __name__ == "__main__":
    main()
