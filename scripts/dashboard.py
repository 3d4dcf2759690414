#!/usr/bin/env python3
"""Writes the dashboard that watches Loginson: `scripts/dashboard.py`, or with `--check` compares it with what is there.

packaging/grafana/loginson.json is what Grafana imports, with a data source of Prometheus. Here each panel is one line:
title, unit, and expressions with their legends. `scripts/test-watching.py` checks that every metric exists.
"""

import json
import pathlib
import sys

PLACE = pathlib.Path(__file__).resolve().parent.parent / "packaging/grafana/loginson.json"
# What every expression is restricted to: the variables at the top of the dashboard.
OF = 'job=~"$job",instance=~"$instance"'
WIDTH = 24
SOURCE = {"type": "prometheus", "uid": "${source}"}


def rate(metric, by="", more=""):
    """A rate over the interval that suits the width of the panel, summed by labels."""
    chosen = f"{OF},{more}" if more else OF
    return f"sum by ({by or 'instance'}) (rate({metric}{{{chosen}}}[$__rate_interval]))"


def now(metric, more=""):
    chosen = f"{OF},{more}" if more else OF
    return f"{metric}{{{chosen}}}"


def quantile(share, histogram):
    return f"histogram_quantile({share}, sum by (instance, le) (rate({histogram}_bucket{{{OF}}}[$__rate_interval])))"


# (row, [(title, kind, unit, what it says, [(expression, legend)])]); a stat panel is 4 wide, a chart 8.
ROWS = [
    ("Is it well", [
        ("Ready", "stat", "none", "1 while lines are taken and queries answered.", [(now("loginson_ready"), "{{instance}}")]),
        ("Disk takes lines", "stat", "none", "0 while the disk is full or failing.", [(now("loginson_store_writable"), "{{instance}}")]),
        ("Disk full in", "stat", "s", "At the rate of the last six hours; retention may delete lines before.",
         [(f"{now('loginson_store_disk_free_bytes')} / clamp_min(-deriv({now('loginson_store_disk_free_bytes')}[6h]), 1)", "{{instance}}")]),
        ("Lines lost, last hour", "stat", "short", "By any reason; the chart below says by which.",
         [(f"sum by (instance) (increase(loginson_lines_dropped_total{{{OF}}}[1h]))", "{{instance}}")]),
        ("Alerts that fire", "stat", "short", "Of the rules that Loginson evaluates.", [(now("loginson_alerts", 'state="firing"'), "{{instance}}")]),
        ("Version", "stat", "none", "", [(now("loginson_info"), "{{version}}")]),
    ]),
    ("Lines that arrive", [
        ("Lines by source", "chart", "cps", "Lines that became durable.", [(rate("loginson_lines_kept_total", "source"), "{{source}}")]),
        ("Bytes by source", "chart", "Bps", "", [(rate("loginson_bytes_kept_total", "source"), "{{source}}")]),
        ("Lines lost by reason", "chart", "cps", "docs/metrics.md says what to do about each reason.",
         [(rate("loginson_lines_dropped_total", "source, reason") + " > 0", "{{source}} {{reason}}")]),
        ("Until durable", "chart", "s", "Time from taking a frame until it is on disk: what senders wait for.",
         [(quantile(0.5, "loginson_store_commit_latency_seconds"), "{{instance}} median"),
          (quantile(0.99, "loginson_store_commit_latency_seconds"), "{{instance}} 99 %")]),
        ("Connections", "chart", "short", "", [(now("loginson_connections_open") + " > 0", "{{instance}} {{source}}"),
                                               (now("loginson_http_connections_open"), "{{instance}} HTTP")]),
        ("Refused", "chart", "cps", "Connections and requests that were refused, and their reason.",
         [(rate("loginson_connections_refused_total", "source") + " > 0", "{{source}} connections"),
          (rate("loginson_http_connections_refused_total", "instance"), "{{instance}} HTTP"),
          (rate("loginson_http_refused_total", "reason") + " > 0", "HTTP {{reason}}"),
          (rate("loginson_access_refused_total", "reason") + " > 0", "access {{reason}}")]),
    ]),
    ("Queries", [
        ("Queries by end", "chart", "cps", "", [(rate("loginson_queries_total", "state"), "{{state}}")]),
        ("Duration", "chart", "s", "Without exports, tails and background queries.",
         [(quantile(0.5, "loginson_query_duration_seconds"), "{{instance}} median"),
          (quantile(0.95, "loginson_query_duration_seconds"), "{{instance}} 95 %"),
          (quantile(0.99, "loginson_query_duration_seconds"), "{{instance}} 99 %")]),
        ("Waiting for a slot", "chart", "s", "", [(quantile(0.99, "loginson_query_wait_seconds"), "{{instance}} 99 %")]),
        ("Running and waiting", "chart", "short", "", [(now("loginson_queries_running"), "{{instance}} running"),
                                                       (now("loginson_queries_waiting"), "{{instance}} waiting")]),
        ("Memory budget", "chart", "bytes", "What queries, tails, answers and inserts share.",
         [(now("loginson_memory_bytes"), "{{instance}} {{purpose}}"), (now("loginson_memory_bytes_max"), "{{instance}} limit")]),
        ("Slow queries", "chart", "cps", "Queries that ran for at least query.slow; the log names them.",
         [(rate("loginson_queries_slow_total"), "{{instance}}")]),
    ]),
    ("Store", [
        ("Disk", "chart", "bytes", "", [(now("loginson_store_disk_bytes"), "{{instance}} segments"),
                                        (now("loginson_store_disk_free_bytes"), "{{instance}} free")]),
        ("Bytes of lines per byte on disk", "chart", "none", "Of sealed segments.",
         [(f"{now('loginson_store_sealed_raw_bytes')} / {now('loginson_store_sealed_disk_bytes')}", "{{instance}}")]),
        ("Bytes written per byte of lines", "chart", "none", "Write amplification.",
         [(f"{rate('loginson_store_written_bytes_total')} / {rate('loginson_store_committed_raw_bytes_total')}", "{{instance}}")]),
        ("Lag of sealing", "chart", "s", "", [(now("loginson_seal_lag_seconds"), "{{instance}}")]),
        ("Lag of parsing", "chart", "short", "Durable lines that are not parsed yet.", [(now("loginson_parse_lag_lines"), "{{instance}}")]),
        ("Damage and failures", "chart", "short", "",
         [(now("loginson_seal_damaged_segments"), "{{instance}} damaged segments"),
          (f"increase({now('loginson_seal_failures_total')}[1h])", "{{instance}} failed rewrites in an hour"),
          (f"increase({now('loginson_parse_panics_total')}[1h])", "{{instance}} panics in an hour")]),
    ]),
    ("Process", [
        ("Processors", "chart", "none", "How many are busy with it.", [(f"rate({now('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}")]),
        ("Memory", "chart", "bytes", "", [(now("process_resident_memory_bytes"), "{{instance}}")]),
        ("Open files and threads", "chart", "short", "", [(now("process_open_fds"), "{{instance}} files"), (now("process_threads"), "{{instance}} threads")]),
    ]),
    ("Files, Kafka, collectors", [
        ("Files not read yet", "chart", "bytes", "", [(now("loginson_files_lag_bytes"), "{{instance}}")]),
        ("Kafka, records not read yet", "chart", "short", "", [(now("loginson_kafka_lag_records"), "{{group}} {{topic}}")]),
        ("Spool of collectors", "chart", "bytes", "Frames that wait on disk because no store takes them.",
         [(now("loginson_spool_bytes"), "{{instance}}"), (now("loginson_spool_bytes_max"), "{{instance}} limit")]),
        ("Stores that are connected", "chart", "short", "", [(now("loginson_store_connected"), "{{instance}} {{store}}")]),
        ("Sinks, lag", "chart", "s", "", [(now("loginson_sink_lag_seconds"), "{{instance}} {{sink}}")]),
        ("Programs, lag", "chart", "s", "", [(now("loginson_program_lag_seconds"), "{{instance}} {{program}}")]),
    ]),
    ("Cluster", [
        ("Messages not read yet", "chart", "s", "How long ago the oldest one came.",
         [(f"max by (partition) ({now('loginson_cluster_partition_lag_seconds')})", "partition {{partition}}")]),
        ("Frames in no segment yet", "chart", "bytes", "", [(now("loginson_cluster_unpublished_bytes"), "{{instance}}")]),
        ("Engines that fail", "chart", "s", "For how long no call has succeeded.",
         [(now("loginson_cluster_engine_failing_seconds"), "{{instance}} {{engine}}")]),
        ("Latency of engines", "chart", "s", "The mean of all calls.",
         [(f"{rate('loginson_cluster_engine_seconds_total', 'engine')} / {rate('loginson_cluster_engine_calls_total', 'engine')}", "{{engine}}")]),
        ("Partitions owned", "chart", "short", "", [(now("loginson_cluster_partitions_owned"), "{{instance}}"),
                                                    (now("loginson_cluster_partitions_troubled"), "{{instance}} troubled")]),
        ("Parts from the object storage", "chart", "cps", "", [(rate("loginson_cluster_cache_fetches_total"), "{{instance}} fetched"),
                                                               (rate("loginson_cluster_cache_hits_total"), "{{instance}} on disk")]),
    ]),
]


def panel(number, kind, title, unit, says, queries, place):
    """A panel of Grafana 10 and later."""
    return {
        "id": number,
        "type": "timeseries" if kind == "chart" else "stat",
        "title": title,
        "description": says,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if kind == "chart" else
                   {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "name" if title == "Version" else "auto"},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for i, (expression, legend) in enumerate(queries)
        ],
    }


def panels():
    made, number, y = [], 0, 0
    for row, members in ROWS:
        number += 1
        made.append({"id": number, "type": "row", "title": row, "collapsed": False, "panels": [],
                     "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
        x, y, height = 0, y + 1, 0
        for title, kind, unit, says, queries in members:
            width, height = (8, 8) if kind == "chart" else (4, 4)
            if x + width > WIDTH:
                x, y = 0, y + height
            number += 1
            made.append(panel(number, kind, title, unit, says, queries, {"x": x, "y": y, "w": width, "h": height}))
            x += width
        y += height
    return made


def variable(name, label):
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "query": f"label_values(loginson_info, {name})",
        "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }


def dashboard():
    made = {
        "uid": "loginson", "title": "Loginson", "tags": ["loginson"], "schemaVersion": 39, "editable": True,
        "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            variable("job", "Job"), variable("instance", "Instance"),
        ]},
        "panels": panels(),
    }
    return json.dumps(made, indent=1) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PLACE.read_text() == dashboard() else f"{PLACE} is not what scripts/dashboard.py writes; run it")
    PLACE.write_text(dashboard())


if __name__ == "__main__":
    main()
