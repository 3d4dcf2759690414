#!/usr/bin/env python3
"""What watches Loginson, tried on a running server: `scripts/test-watching.py`; LOGINSON_BIN names the binary.

- /metrics keeps the rules of promlint: names, units, `_total`, help, kinds, histograms; one head for each metric.
- Every metric is in the tables of docs/metrics.md, with its kind, and has the kind that is written there.
- Every metric that the dashboard, the alerts of Prometheus and our own alerts name is in these tables. Functions of rates
  are on counters and histograms alone, and labels that alerts show are labels of the metric.
- The server loads our own alerts, and evaluates them over samples that are bad and over samples that are good.
- The dashboard is what scripts/dashboard.py writes.

Only Python's own library is needed. `make test-long` has Prometheus' own parsers look at the same files
(scripts/test-chart.py).
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "packaging/grafana/loginson.json"
RULES = ROOT / "packaging/prometheus/loginson.rules.yml"
OWN = ROOT / "packaging/alerts/loginson-own.yml"
# Metrics that Prometheus makes itself.
OF_PROMETHEUS = {"up"}
METRIC = re.compile(r"\b(?:loginson|process)_[a-z0-9_]+\b")
# How long the server may take to start; beyond it the test fails.
PATIENCE_S = 120
# Units that are no base units, as promlint knows them.
NO_BASE_UNITS = re.compile(
    r"_(milliseconds|microseconds|nanoseconds|minutes|hours|days|ms|us|ns|kilobytes|megabytes|gigabytes|bits|percent)(_|$)"
)
FAULTS = []


def fault(text):
    FAULTS.append(text)


def documented():
    """Names of docs/metrics.md, each with its kind (gauge, counter, histogram)."""
    found = {}
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| `") or len(cells) < 3:
            continue
        kind = re.match(r"gauge|counter|histogram", cells[1])
        for name in METRIC.findall(cells[0]):
            if kind:
                found[name] = kind[0]
    return found


def base_of(name, kinds):
    """The metric that a name in an expression belongs to: `_bucket`, `_sum` and `_count` are parts of a histogram."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if name not in kinds and kinds.get(base) == "histogram" else name


def parsed(text):
    """Heads and samples of a text of /metrics: {name: (kind, help)}, [(name, labels)]."""
    heads, samples, helps, current = {}, [], {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, said = line.removeprefix("# HELP ").partition(" ")
            helps[name] = said
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in heads:
                fault(f"{name}: two heads")
            heads[name], current = (kind, helps.get(name, "")), name
        else:
            sample = re.fullmatch(r"([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)", line)
            if not sample:
                fault(f"no sample: {line!r}")
                continue
            float(sample[3])
            labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample[2] or ""))
            samples.append((sample[1], labels))
            if current is None or base_of(sample[1], {current: heads[current][0]}) != current:
                fault(f"{sample[1]} stands below the head of {current}")
    return heads, samples


def lint(heads, samples):
    """The rules of promlint."""
    if len(set((name, tuple(sorted(labels.items()))) for name, labels in samples)) < len(samples):
        fault("two samples have the same name and labels")
    for name, (kind, said) in heads.items():
        if not said:
            fault(f"{name} has no help")
        if kind not in ("gauge", "counter", "histogram"):
            fault(f"{name} is a {kind}")
        if (kind == "counter") != name.endswith("_total"):
            fault(f"{name}: a counter ends in _total, and nothing else does")
        if kind != "histogram" and re.search(r"_(bucket|sum|count)$", name):
            fault(f"{name}: only parts of a histogram end so")
        if NO_BASE_UNITS.search(name):
            fault(f"{name}: seconds and bytes are the units")
        if re.search(r"_(gauge|counter|histogram|summary)(_|$)", name):
            fault(f"{name}: a name does not say the kind")
        if kind == "histogram":
            of = [labels for other, labels in samples if other == f"{name}_bucket"]
            if [labels for labels in of if labels.get("le") == "+Inf"] == []:
                fault(f"{name} has no bucket +Inf")


def check_expressions(path, expressions, kinds, labels_of):
    """Names in expressions of Prometheus, and whether functions and labels fit them."""
    for expression in expressions:
        for name in METRIC.findall(re.sub(r'"[^"]*"', '""', expression)):
            base = base_of(name, kinds)
            if base not in kinds:
                fault(f"{path.name}: {name} is not in docs/metrics.md")
                continue
            kind, whole = kinds[base], re.escape(name)
            if re.search(rf"\b(rate|increase)\({whole}\b", expression) and kind == "gauge":
                fault(f"{path.name}: a rate of the gauge {name}")
            if re.search(rf"\b(deriv|predict_linear)\({whole}\b", expression) and kind != "gauge":
                fault(f"{path.name}: a slope of {name}, which is a {kind}")
            for chosen in re.findall(rf"\b{whole}\{{([^}}]*)\}}", expression):
                for label in re.findall(r"([a-z_]+)(?:=~|!=|!~|=)", re.sub(r'"[^"]*"', '""', chosen)):
                    if base in labels_of and label not in labels_of[base] | {"job", "instance"}:
                        fault(f"{path.name}: {name} has no label {label}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server in a folder of its own, with our own alerts."""

    def __init__(self, folder, binary):
        self.address = f"http://127.0.0.1:{free_port()}"
        rules = folder / "rules"
        rules.mkdir()
        (rules / OWN.name).write_text(OWN.read_text())
        settings = folder / "loginson.toml"
        settings.write_text(
            f'data_dir = "{folder}/data"\nhttp_listen = "{self.address.removeprefix("http://")}"\n'
            f'syslog_udp_listen = "127.0.0.1:{free_port()}"\nsyslog_tcp_listen = "off"\n'
            f'[alerts]\nrules = "{rules}"\n'
        )
        self.log = open(folder / "log", "w+b")
        self.process = subprocess.Popen(
            [binary, "serve", "--config", settings], cwd=folder, stdout=self.log, stderr=self.log
        )

    def __enter__(self):
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self if self.ask("/ready") is not None else self
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.log.seek(0)
                    sys.exit(f"the server does not start: {error}\n{self.log.read().decode(errors='replace')}")
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def ask(self, path, body=None):
        request = urllib.request.Request(self.address + path, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read().decode()

    def takes(self, rows):
        body = "".join(json.dumps(row) + "\n" for row in rows)
        self.ask("/insert/jsonline?_time_field=_time&_msg_field=_msg", body.encode())


def rows(now_s, bad):
    """Samples and lines of two hours, of a server that is well or of one that is not."""
    made = []
    for minute in range(120):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s - 7200 + 60 * minute))
        sample = lambda name, value, **labels: made.append(
            {"_time": stamp, "_type": "metric", "name": name, "value": value, "instance": "logs:9514", **labels}
        )
        sample("loginson_ready", 0 if bad else 1)
        sample("loginson_store_writable", 0 if bad else 1)
        sample("loginson_lines_dropped_total", minute if bad else 7, source="syslog_udp", reason="kernel")
        sample("loginson_store_disk_free_bytes", 1e9 if bad else 5e10)
        sample("loginson_store_disk_size_bytes", 1e11)
        sample("loginson_seal_lag_seconds", 22000 if bad else 3)
        sample("loginson_store_connected", 0 if bad else 1, store="a:9515")
        line = lambda text, level: made.append(
            {"_time": stamp, "_msg": text, "level": level, "app_name": "loginson", "hostname": "logs"}
        )
        line("listens", "info")
        if bad:
            line("the thread parse panicked", "error")
            for _ in range(3):
                line("slow query of 127.0.0.1: ran 12.0 s (query.slow)", "warning")
    return made


# HostSilent needs a day; docs/alerts.md has the same rule.
NOT_TRIED = {"HostSilent"}


def check_own(binary, bad):
    """Our own alerts over two hours of samples; returns all rules, those that fired, and /metrics."""
    with tempfile.TemporaryDirectory() as folder, Server(pathlib.Path(folder), binary) as server:
        files = json.loads(server.ask("/api/v1/alerts/rules"))["files"]
        if [(file["name"], file["error"]) for file in files] != [(OWN.name, None)]:
            fault(f"the server does not take {OWN.name}: {files}")
        server.takes(rows(int(time.time()), bad))
        body = json.dumps({"rules": OWN.read_text(), "start": "110m", "end": "0s"}).encode()
        tested = json.loads(server.ask("/api/v1/alerts/test", body))["rules"]
        for rule in tested:
            if rule["error"]:
                fault(f"{OWN.name}: {rule['rule']}: {rule['error']}")
        return {rule["rule"] for rule in tested}, {
            rule["rule"] for rule in tested if any(change["to"] == "firing" for change in rule["changes"])
        }, server.ask("/metrics")


def main():
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("LOGINSON_BIN must name the binary; `make documents` builds it")
    kinds = documented()
    names, fired, text = check_own(binary, bad=True)
    if names - fired - NOT_TRIED:
        fault(f"{OWN.name}: these do not fire over bad samples: {', '.join(sorted(names - fired - NOT_TRIED))}")
    _, fired, _ = check_own(binary, bad=False)
    if fired - NOT_TRIED:
        fault(f"{OWN.name}: these fire over good samples: {', '.join(sorted(fired))}")
    heads, samples = parsed(text)
    lint(heads, samples)
    for name, (kind, _) in heads.items():
        if kinds.get(name) != kind:
            fault(f"docs/metrics.md: {name} is a {kind}, not {kinds.get(name, 'named')}")
    labels_of = {}
    for name, labels in samples:
        labels_of.setdefault(base_of(name, {name: kind for name, (kind, _) in heads.items()}), set()).update(labels)
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
    check_expressions(DASHBOARD, [target["expr"] for panel in panels for target in panel["targets"]], kinds, labels_of)
    rules = RULES.read_text()
    expressions = re.findall(r"^ +expr: (?:>-\n((?: {10}.*\n)+)|(.*)$)", rules, re.M)
    if len(expressions) != len(re.findall(r"^ +- alert: ", rules, re.M)):
        fault(f"{RULES.name}: a rule without an expression")
    check_expressions(RULES, [more or one for more, one in expressions], kinds, labels_of)
    for alert in re.split(r"^ +- alert: ", rules, flags=re.M)[1:]:
        name = alert.split("\n", 1)[0]
        if not all(f"{key}:" in alert for key in ("severity", "summary", "remedy")):
            fault(f"{RULES.name}: {name} needs a severity, a summary and a remedy")
    for name in METRIC.findall(re.sub(r"^ *#.*$", "", OWN.read_text(), flags=re.M)):
        if name not in kinds:
            fault(f"{OWN.name}: {name} is not in docs/metrics.md")
    written = subprocess.run([sys.executable, ROOT / "scripts/dashboard.py", "--check"], capture_output=True, text=True)
    if written.returncode != 0:
        fault(written.stderr.strip())
    print("\n".join(FAULTS))
    print(f"{len(heads)} metrics, {len(panels)} panels, {len(expressions)} alerts, {len(names)} of our own")
    print(f"{int(not FAULTS)} passed, {len(FAULTS)} failed")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
