"""The tables of bench-peers.py: the shapes that are behind first, and those of docs/benchmarks/peers.md.

Standard library only.
"""

import datetime
import math
import os
import pathlib
import shlex
import statistics
import subprocess

from benchlib import BIN, ROOT, table

PAGE = ROOT / "docs/benchmarks/peers.md"
# State of Loginson → the state of VictoriaLogs that it is compared with.
STATES = {"new": "new", "default": "sealed", "sealed": "sealed"}
# What is compared in the summary.
PEERS = ("VictoriaLogs", "VictoriaLogs CPU", "ripgrep", "DuckDB")


def theirs(result, state, peer="VictoriaLogs"):
    """The times of VictoriaLogs by query that times of a state are compared with: those measured in turn, if there are."""
    times = result["times"]
    return times.get(f"{state} {peer}") or times.get(f"{STATES[state]} {peer}", {})


def median(times, query):
    found = times.get(query)
    return statistics.median(found) if found else None


def ratios(result, state, peer):
    """The time of Loginson divided by that of a peer, by query; `VictoriaLogs CPU` compares processor times."""
    own = result["times"].get(f"{state} Loginson CPU" if peer.endswith("CPU") else f"{state} Loginson", {})
    other = theirs(result, state, peer) if peer.startswith("VictoriaLogs") else result["times"].get(f"sealed {peer}", {})
    medians = {query: (median(own, query), median(other, query)) for query in result["queries"]}
    return {query: ours / peers for query, (ours, peers) in medians.items() if ours and peers}


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def ms(seconds):
    return "" if seconds is None else f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def shapes_table(result, state):
    """All shapes of a mix in a state, by their ratio to VictoriaLogs, the worst first."""
    times = result["times"]
    columns = [times[f"{state} Loginson"], theirs(result, state), times.get("sealed ripgrep", {}), times.get("sealed DuckDB", {})]
    found, cpu = ratios(result, state, "VictoriaLogs"), ratios(result, state, "VictoriaLogs CPU")
    wrong = {name for name, _ in result["wrong"]}
    rows = []
    for query in sorted(result["queries"], key=lambda query: -found.get(query, 0)):
        cells = [f"{of[query]:.2f}" if query in of else "" for of in (found, cpu)]
        rows.append([query + (" †" if query in wrong else ""), *cells, *(ms(median(column, query)) for column in columns)])
    return table(["query", "ratio", "of CPU", "Loginson", "VictoriaLogs", "ripgrep", "DuckDB"], rows)


def summary(results):
    """A row for each mix and state: how many shapes are behind, mean and worst ratio to each peer."""
    rows = []
    for result in results:
        for state in result["states"]:
            row = [f"{result['mix']}, {state}"]
            for peer in PEERS:
                if found := ratios(result, state, peer):
                    worst = max(found, key=found.get)
                    behind = sum(ratio > 1 for ratio in found.values())
                    row += [f"{behind} of {len(found)}", f"{mean(found.values()):.2f}", f"{found[worst]:.2f} ({worst})"]
                else:
                    row += ["", "", ""]
            rows.append(row)
    head = ["mix, state"]
    for peer in PEERS:
        head += [f"behind {peer}", "mean", "worst"]
    return table(head, rows)


def behind(results):
    """Every shape that is behind VictoriaLogs anywhere, the worst first."""
    found = [
        (ratio, query, result, state)
        for result in results
        for state in result["states"]
        for query, ratio in ratios(result, state, "VictoriaLogs").items()
        if ratio > 1
    ]
    rows = []
    for ratio, query, result, state in sorted(found, key=lambda entry: -entry[0]):
        times = [result["times"][f"{state} Loginson"], theirs(result, state)]
        cpu = ratios(result, state, "VictoriaLogs CPU").get(query)
        row = [f"{ratio:.2f}", f"{cpu:.2f}" if cpu else "", query, f"{result['mix']}, {state}"]
        rows.append([*row, *(ms(median(one, query)) for one in times)])
    return table(["ratio", "of CPU", "query", "mix, state", "Loginson", "VictoriaLogs"], rows)


def ingest_tables(results):
    """The tables of time and CPU, and of size on disk and memory."""
    cpu_head = ["mix", "lines", "Loginson, s", "VictoriaLogs, s", "ratio", "CPU s/GB: Loginson taken", "sealed"]
    cpu_head += ["VictoriaLogs taken", "at rest", "rsyslog"]
    disk_head = ["mix", "raw", "Loginson after 60 s", "at rest", "VictoriaLogs after 60 s", "at rest", "ratio after 60 s", "at rest"]
    disk_head += ["peak memory: Loginson after ingest", "queries", "VictoriaLogs after ingest", "queries"]
    cpu_rows, disk_rows = [], []
    for result in results:
        own, peer, daemon = (result["ingest"][name] for name in ("Loginson", "VictoriaLogs", "rsyslog"))
        gb = result["bytes"] / 1e9
        took = [statistics.median([one["seconds"], one.get("seconds_again", one["seconds"])]) for one in (own, peer)]
        row = [result["mix"], result["lines"], f"{took[0]:.2f}", f"{took[1]:.2f}", f"{took[0] / took[1]:.2f}"]
        row += [f"{one[key] / gb:.1f}" for one in (own, peer) for key in ("cpu_taken_s", "cpu_rest_s")]
        cpu_rows.append([*row, f"{daemon['cpu_s'] / gb:.1f}" if daemon else ""])
        sizes = [one.get(key) for one in (own, peer) for key in ("disk_default_bytes", "disk_rest_bytes")]
        share = lambda at: f"{sizes[at] / sizes[at + 2]:.2f}" if sizes[at] and sizes[at + 2] else ""
        memory = [one[key] for one in (own, peer) for key in ("memory_peak_bytes", "memory_peak_queried_bytes")]
        row = [result["mix"], megabytes(result["bytes"]), *map(megabytes, sizes), share(0), share(1)]
        disk_rows.append([*row, *map(megabytes, memory)])
    return table(cpu_head, cpu_rows), table(disk_head, disk_rows)


def megabytes(size):
    return f"{size / 1e6:.1f} MB" if size else ""


def measured(results):
    """Machine, date, version, settings, and what else ran."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    version = subprocess.run([BIN, "--version"], stdout=subprocess.PIPE, text=True).stdout.split()[1]
    chosen = {name: value for name, value in os.environ.items() if name.startswith("PEERS_") and name != "PEERS_OUT"}
    if "PEERS_CORPUS" in chosen:
        chosen["PEERS_CORPUS"] = pathlib.Path(chosen["PEERS_CORPUS"]).name
    command = "".join(f"{name}={shlex.quote(value)} " for name, value in sorted(chosen.items())) + "make bench-peers"
    seen = [value for result in results for key, value in result["others_cores"].items() if not key.startswith("end")]
    seen += [value for result in results for one in result["ingest"].values() for value in (one or {}).get("others_cores", [])]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {datetime.date.today()}, version {version}; other processes used"
        f" {statistics.median(seen):.2f} of a core (median), {max(seen):.2f} at most; `{command}`"
    )


def parts(results):
    """The parts of the page by name."""
    cpu, disk = ingest_tables(results)
    found = {"summary": summary(results), "behind": behind(results), "ingest": cpu, "disk": disk}
    for state in STATES:
        shown = [(result["mix"], shapes_table(result, state)) for result in results if state in result["states"]]
        found[state] = "\n\n".join(f"`{mix}`\n\n{text}" for mix, text in shown)
    return found


def text(results):
    return "\n\n".join([measured(results), *(f"## {name}\n\n{part}" for name, part in parts(results).items() if part)])


def write_page(results):
    """Replaces the tables of the page, between their comments."""
    page, head = PAGE.read_text(), measured(results)
    for name, part in parts(results).items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        block = f"{begin}\n{head}\n\n{part}\n{end}"
        page = page[: page.index(begin)] + block + page[page.index(end) + len(end) :]
    PAGE.write_text(page)
