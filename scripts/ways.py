#!/usr/bin/env python3
"""The table of the ways in, docs/ways.md: which real sender was tried on each, and what became of its lines.

    scripts/ways.py            # write docs/ways.md anew from docs/benchmarks/ways.json
    scripts/ways.py --check    # fail if it is not as it would be written, or leaves out a way that the server has

The scripts of senders (test-senders.py, test-otlp.py, test-pushes.py, test-kafka.py) call `record` for each way that they
tried. A way is an entry of WAYS; every path that takes lines, and every source, belongs to one, and --check finds those in
the code of the server. A way that no sender was tried on says why.
"""

import argparse
import dataclasses
import datetime
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/benchmarks/ways.json"
DOCUMENT = ROOT / "docs/ways.md"
BEGIN, END = "<!-- begin: made by scripts/ways.py -->\n", "<!-- end: made by scripts/ways.py -->"
# Where the server's own code says which paths and sources take lines.
ROUTES = ["crates/api/src/ingest", "crates/api/src/loki/push"]
SOURCES = "crates/collector/src/accounting.rs"
# Lines of a run that counts.
LINES_MIN = 100_000
# Sources that no sender reaches: HTTP is a way for each of its paths, the others are Loginson's own.
OWN_SOURCES = {"http", "internal"}


@dataclasses.dataclass
class Way:
    """A way in: its guide, the paths and sources that belong to it, and why no sender was tried on it if none was."""

    guide: str
    paths: tuple = ()
    sources: tuple = ()
    untried: str = ""


def below(prefix, *paths):
    """Paths that are there with and without a prefix."""
    return tuple(path for name in paths for path in (name, prefix + name))


WAYS = {
    "JSON lines, lines": Way("api.md#post-insertjsonline", ("/insert/jsonline", "/insert/lines")),
    "OTLP, logs": Way(
        "opentelemetry.md",
        (*below("/insert/opentelemetry", "/v1/logs"), "/opentelemetry.proto.collector.logs.v1.LogsService/Export"),
    ),
    "OTLP, metrics": Way(
        "opentelemetry.md",
        (*below("/insert/opentelemetry", "/v1/metrics"), "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"),
    ),
    "OTLP, traces": Way(
        "opentelemetry.md", ("/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
        untried="refused, with a warning that names the sender",
    ),
    "Elasticsearch, _bulk": Way("api.md", ("/_bulk", *(f"/{{index}}/{path}" for path in ("_bulk", "_doc", "_doc/{id}", "_create/{id}")))),
    "Grafana Loki": Way("grafana.md", ("/loki/api/v1/push", "/insert/loki/api/v1/push")),
    "Splunk HEC": Way(
        "api.md",
        tuple(f"/services/collector{path}" for path in ("", "/event", "/event/1.0", "/raw", "/raw/1.0", "/ack")),
    ),
    "Datadog": Way("api.md", ("/api/v2/logs", "/v1/input")),
    "GELF over HTTP": Way("api.md", ("/gelf", "/insert/gelf")),
    "VictoriaLogs, native": Way("api.md", ("/insert/native", "/insert/multitenant/native", "/internal/insert")),
    "Journal upload": Way("api.md", ("/upload", "/insert/journald/upload")),
    "Amazon Data Firehose": Way("api.md", ("/insert/firehose",)),
    "Google Pub/Sub": Way("api.md", ("/insert/pubsub",)),
    "Azure Event Grid": Way("api.md", ("/insert/eventgrid",)),
    "Cloudflare Logpush": Way("api.md", ("/insert/logpush",)),
    "GitHub webhooks": Way("api.md", ("/insert/github",)),
    "Heroku Logplex": Way("api.md", ("/insert/logplex",)),
    "Prometheus remote write": Way("api.md", ("/api/v1/write", "/insert/prometheus/api/v1/write")),
    "InfluxDB": Way("api.md", ("/write", "/api/v2/write")),
    "Syslog and GELF over UDP": Way("guide.md", sources=("syslog_udp",)),
    "Syslog and GELF over TCP": Way("guide.md", sources=("syslog_tcp",)),
    "Syslog over TLS": Way("guide.md", sources=("syslog_tls",)),
    "Fluent forward": Way("fluent-beats-relp.md", sources=("fluent",)),
    "Beats": Way("fluent-beats-relp.md#beats-and-logstash", sources=("beats",)),
    "RELP": Way("fluent-beats-relp.md#relp", sources=("relp",)),
    "StatsD": Way("guide.md", sources=("statsd",)),
    "Kafka": Way("kafka.md", sources=("kafka",)),
    "Files": Way("guide.md", sources=("file",), untried="no sender; histories of files, and kills, are in the tests of the collector"),
    "The journal of systemd": Way("guide.md", sources=("journald",), untried="no sender; tested with journals of real machines"),
    "Collectors": Way("guide.md#several-machines", sources=("node",), untried="our own sender; killed in turn by `make test-cluster`"),
}


def results():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def record(way, sender, version, sent, kills, there, twice, is_answered=True, remark=""):
    """Keeps what became of the lines of a sender, in the place of what it was before, and writes the table. A run with fewer
    lines is a try, of which nothing is kept."""
    if sent < LINES_MIN:
        return
    if way not in WAYS:
        sys.exit(f"ways: no way is named '{way}'; name it in WAYS of scripts/ways.py")
    row = {
        "way": way, "sender": sender, "version": version, "is_answered": is_answered, "sent": sent, "kills": kills, "there": there,
        "twice": twice, "date": datetime.date.today().isoformat(), "remark": remark,
    }
    kept = [other for other in results() if (other["way"], other["sender"]) != (way, sender)]
    order = list(WAYS)
    rows = sorted([*kept, row], key=lambda row: (order.index(row["way"]) if row["way"] in WAYS else -1, row["sender"]))
    # A row a line, so that a change of one is a change of a line.
    RESULTS.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
    write()


def table():
    head = ["way in", "sender", "version", "waits for answers", "sent", "kills", "missing", "twice", "date", "remark"]
    lines = [head, ["---"] * len(head)]
    rows = results()
    for name, way in WAYS.items():
        link = f"[{name}]({way.guide})"
        of_way = [row for row in rows if row["way"] == name]
        lines += [
            [
                link, row["sender"], row["version"], "yes" if row["is_answered"] else "no", f"{row['sent']:,}", str(row["kills"]),
                f"{row['sent'] - row['there']:,}", f"{row['twice']:,}", row["date"], row["remark"],
            ]
            for row in of_way
        ] or [[link, "none", "", "", "", "", "", "", "", way.untried or "not run with 100,000 lines yet"]]
    return "\n" + "".join("| " + " | ".join(cells) + " |\n" for cells in lines) + "\n"


def written():
    """The document as it should be."""
    before, rest = DOCUMENT.read_text().split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + table() + END + after


def write():
    DOCUMENT.write_text(written())


def paths_of_code():
    """Each path of a route that takes lines. Prefixes are left out: `{prefix}/gelf` is `/gelf`."""
    found = set()
    for folder in ROUTES:
        for file in sorted((ROOT / folder).rglob("*.rs")):
            if "tests" in file.name:
                continue
            text = file.read_text()
            for path, handler in re.findall(r'\.post\(\s*(?:Scope::Ingest|SCOPE),\s*([^,]+?),\s*(\w+)', text):
                # What shippers of Elasticsearch set up before they send.
                if handler == "nothing":
                    continue
                if not (literal := re.search(r'"([^"]*)"', path)):
                    constant = re.search(rf'const {path}: &str =\s*"([^"]*)"', text)
                    literal = constant or sys.exit(f"ways: the path {path} of {file} cannot be read")
                template = re.search(r'let at = \|path: &str\| format!\("\{prefix\}([^{]*)\{path\}"\)', text)
                whole = template[1] + literal[1] if template and path.startswith("&at(") else literal[1]
                found.add(whole.removeprefix("{prefix}"))
    return found


def sources_of_code():
    names = (ROOT / SOURCES).read_text().split("pub fn name(")[1].split("pub fn title(")[0]
    return set(re.findall(r'SourceKind::\w+ => "(\w+)",', names)) - OWN_SOURCES


def faults():
    """What is wrong with the table."""
    for what, code, named in [
        ("path", paths_of_code(), [path for way in WAYS.values() for path in way.paths]),
        ("source", sources_of_code(), [source for way in WAYS.values() for source in way.sources]),
    ]:
        yield from (f"the {what} {name} of the server belongs to no way of scripts/ways.py" for name in sorted(code - set(named)))
        yield from (f"scripts/ways.py names the {what} {name}, which the server has not" for name in sorted(set(named) - code))
    rows = results()
    for row in rows:
        where = f"{row['way']}, {row['sender']}"
        if row["way"] not in WAYS:
            yield f"{RESULTS.name} has a way that is not in scripts/ways.py: {where}"
        if row["there"] != row["sent"] and not row["remark"]:
            yield f"lines are missing, and no remark says why: {where}"
        if row["there"] != row["sent"] and row["is_answered"]:
            yield f"a sender that waits for answers lost lines: {where}"
    for name, way in WAYS.items():
        guide = way.guide.split("#")[0]
        if not (ROOT / "docs" / guide).exists():
            yield f"the guide docs/{guide} of {name} is not there"
    if DOCUMENT.read_text() != written():
        yield f"{DOCUMENT.relative_to(ROOT)} is not what scripts/ways.py writes: run it"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if something would change")
    if not parser.parse_args().check:
        write()
    if found := list(faults()):
        sys.exit("\n".join(f"ways: {fault}" for fault in found))
    print(f"docs/ways.md has all {len(WAYS)} ways in, with {len(results())} senders.")


if __name__ == "__main__":
    main()
