"""Recomputes the figures of reports from the raw trials, with Python's own library alone.

Usage: recompute.py DIRECTORY [REPORT ...]: the directory of a run with the samples.csv that
`loginson-lab report` writes, and reports of it in Markdown; without any, the report-full.md of
`loginson-lab report --full`. Nothing of the lab's own code is used: histograms are decoded here,
the distributions are those of student.py, and the tables of the reports are read as text. Every
figure that differs is printed; the exit status is then 1.
"""

import base64
import collections
import csv
import json
import math
import pathlib
import re
import statistics
import struct
import sys
import tomllib
import zlib

import student

PERCENTILES = [25, 50, 75, 90, 95, 99, 99.9, 100]
COMPOSITE = "read_modify_write"
PEAK_SECONDS = 3
BEYOND_MIN = 10
OVERLOADED = 0.95
RECOMPUTED_DOUBTS = [
    "lost rows",
    "wrong answers",
    "failed trials",
    "stalls",
    "errors",
    "waits for round trips",
    "machine full",
    "slower machine",
    "drift",
    "small sample",
]


# Raw results.


def decode(text):
    """Counts by value of an HDR histogram (V2, compressed, base64): (lowest value, range, count)."""
    outer = base64.b64decode(text)
    assert struct.unpack(">I", outer[:4])[0] & ~0xF0 == 0x1C849304
    inner = zlib.decompress(outer[8:])
    cookie, length, _, digits, lowest, _, _ = struct.unpack(">IIIIQQd", inner[:40])
    assert cookie & ~0xF0 == 0x1C849303
    unit = int(math.log2(max(lowest, 1)))
    magnitude = math.ceil(math.log2(2 * 10**digits))
    half = 2 ** (magnitude - 1)
    counts, index, at = [], 0, 40
    while at < 40 + length:
        value, shift = 0, 0
        while True:
            byte = inner[at]
            at += 1
            if shift == 56:
                value |= byte << shift
                break
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        number = (value >> 1) ^ -(value & 1)
        if number < 0:
            index += -number
            continue
        if number:
            bucket, sub = (index >> (magnitude - 1)) - 1, (index & (half - 1)) + half
            if bucket < 0:
                bucket, sub = 0, sub - half
            counts.append((sub << (bucket + unit), 1 << (bucket + unit), number))
        index += 1
    return counts


class Histogram:
    def __init__(self):
        self.counts = collections.Counter()
        self.ranges = {}

    def add(self, counts):
        for value, width, count in counts:
            self.counts[value] += count
            self.ranges[value] = width

    def merge(self, other):
        self.add([(v, other.ranges[v], n) for v, n in other.counts.items()])

    def total(self):
        return sum(self.counts.values())

    def mean_ms(self):
        total = sum((v + self.ranges[v] // 2) * n for v, n in self.counts.items())
        return total / self.total() / 1000

    def percentile_ms(self, percentile):
        wanted, seen = max(1, math.ceil(percentile / 100 * self.total() - 1e-9)), 0
        for value in sorted(self.counts):
            seen += self.counts[value]
            if seen >= wanted:
                return (value + self.ranges[value] - 1) / 1000
        raise AssertionError("a percentile is of all values")


# Workloads of queries, which are ranked by latency.
QUERIES = ("history_queries", "measurement_windows", "measurement_history")


class Trial:
    def __init__(self, path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        header, end = lines[0], lines[-1]
        trial = header["trial"]
        self.order, self.role = header["order"], trial["role"]
        self.experiment, self.store = trial["experiment"], trial["store"]["label"]
        self.nodes, self.number = trial["nodes"], trial["repetition"]
        work = trial["work"]
        self.load = work.get("load", {})
        # As a share of what each store reaches, or as a rate.
        share = trial.get("target_share")
        self.target_per_s = self.load.get("target_per_s")
        self.target = ("share", share) if share else ("rate", self.target_per_s)
        self.outcome, self.seconds = end["outcome"]["outcome"], end["seconds"]
        self.values = {x["name"]: x["value"] for x in lines if x["line"] == "value"}
        self.histograms = collections.defaultdict(Histogram)
        self.counts, self.errors = collections.Counter(), collections.Counter()
        self.series = collections.defaultdict(int)
        operations = 0
        for line in (x for x in lines if x["line"] == "second"):
            label, counts = line["label"], decode(line["histogram"])
            of_parts = label == COMPOSITE
            operations += -line["count"] if of_parts else line["count"]
            self.series[line["second"]] += -line["count"] if of_parts else line["count"]
            for name in [label] if of_parts else [label, "all"]:
                self.histograms[name].add(counts)
                self.counts[name] += line["count"]
                self.errors[name] += sum(line.get("errors", {}).values())
        self.counts["all"] = operations
        self.usage = collections.defaultdict(lambda: collections.defaultdict(list))
        within = max(1, math.ceil(self.seconds))
        for line in (x for x in lines if x["line"] == "resource" and x["second"] < within):
            for key, value in line.items():
                if key not in ("line", "process", "second"):
                    self.usage[line["process"]][key].append(value)
        if trial.get("crash_after_s") is not None:
            self.measure = "value", "lost_rows"
        elif work["kind"] == "real_time":
            self.measure = "value", "delay_ms"
        elif self.load.get("ramp_s", 0) > 0:
            self.measure = "peak", None
        elif self.target_per_s is not None or work["workload"]["kind"] in QUERIES:
            self.measure = "latency", "all"
        elif work["workload"]["kind"] == "line_queries":
            # While lines arrive, all queries have one label beside that of the writes.
            self.measure = "latency", "query" if work["workload"].get("arriving") else "all"
        elif work["workload"]["kind"] == "line_stream" or (
            work["workload"]["kind"] == "line_writes" and self.load.get("batch_rows", 1) > 1
        ):
            self.measure = "rows", None
        else:
            self.measure = "rate", None

    def rename(self, shown):
        """Takes the names that the report has for stores."""
        self.store = shown.get(self.store, self.store)
        for label, name in shown.items():
            if label in self.usage:
                self.usage[name] = self.usage.pop(label)

    def rate(self, label="all"):
        return self.counts[label] / self.seconds

    def latency(self, label):
        histogram = self.histograms.get(label)
        if not (histogram and histogram.total() and self.counts[label]):
            return None
        # Of all, the latencies are those of the parts of composite operations.
        return histogram.mean_ms() * histogram.total() / self.counts[label]

    def whole(self):
        """Answers of the whole seconds."""
        whole = [self.series.get(s, 0) for s in range(max(self.series, default=-1) + 1)]
        return whole[: max(1, int(self.seconds))]

    def is_idle(self, store):
        """Whether servers and generator, disks and network had nothing to do; False if unknown."""
        if not all(process in self.usage for process in (store, "generator", "host")):
            return False
        busiest = max(sum(self.usage[process]["cpu_s"]) for process in (store, "generator"))
        host = self.usage["host"]
        disk = sum(host["disk_read_bytes"]) + sum(host["disk_write_bytes"])
        return (
            busiest / self.seconds < 0.9
            and disk / self.seconds <= 1e6
            and sum(host["network_bytes"]) / self.seconds <= 100e6
        )

    def of(self, measure):
        kind, name = measure
        if kind == "value":
            return self.values.get(name)
        if kind == "latency":
            return self.latency(name)
        if kind == "rate":
            return self.rate()
        if kind == "rows":
            rows = self.values.get("written_rows")
            return rows / self.seconds if rows else None
        whole = self.whole()
        width = min(PEAK_SECONDS, len(whole))
        return max(sum(whole[i : i + width]) / width for i in range(len(whole) - width + 1))


# The report.


def tables(text):
    """The tables of a report by caption: a list of dictionaries by column."""
    found = {}
    lines = text.splitlines()
    for at, line in enumerate(lines):
        caption = re.fullmatch(r"Table \d+\. (.*):", line)
        if not caption or at + 2 >= len(lines) or not lines[at + 2].startswith("|"):
            continue
        rows = []
        for row in lines[at + 2 :]:
            if not row.startswith("|"):
                break
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]])
        names = rows[0]
        found[caption.group(1)] = [dict(zip(names, row)) | {"": row[0]} for row in rows[2:]]
    return found


def number(text):
    cleaned = text.replace(",", "").replace("−", "-").rstrip("×%")
    return float(cleaned)


class Checks:
    def __init__(self):
        self.done, self.wrong = 0, []

    def close(self, where, printed, value, relative=6e-4, absolute=1e-12):
        self.done += 1
        if abs(number(printed) - value) > max(abs(value) * relative, absolute):
            self.wrong.append(f"{where}: the report has {printed}, recomputed {value:.8g}")

    def same(self, where, printed, value):
        self.done += 1
        if printed != value:
            self.wrong.append(f"{where}: the report has {printed!r}, recomputed {value!r}")

    def ratio(self, where, printed, value):
        self.close(where, printed, value, relative=6e-3, absolute=0.006)

    def detectable(self, where, printed, value):
        if value > 100:
            return self.same(where, printed, "over 100×")
        self.ratio(where, printed, value)

    def percent(self, where, printed, share):
        value = abs(share) * 100
        self.close(where, printed, value, relative=0, absolute=0.051 if value < 10 else 0.51)

    def p(self, where, printed, value):
        if printed == "< 0.001":
            self.done += 1
            if value >= 0.001:
                self.wrong.append(f"{where}: the report has {printed}, recomputed {value:.6g}")
        else:
            self.close(where, printed, value, relative=0, absolute=6e-4)

    def interval(self, where, printed, ends):
        if not printed or not ends:
            return self.same(where + ", interval", printed, "an interval" if ends else "")
        low, high = printed.split(" to ")
        self.close(where + ", low", low, ends[0])
        self.close(where + ", high", high, ends[1])


def estimate(sample):
    """Geometric mean, 95% interval, deviation of the logarithms; arithmetic if a value is 0."""
    if min(sample) <= 0:
        spread = statistics.stdev(sample) if len(sample) > 1 else 0
        return statistics.fmean(sample), None, spread
    logs = [math.log(value) for value in sample]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return sample[0], None, 0
    spread = statistics.stdev(logs)
    half = student.quantile(0.975, len(logs) - 1) * spread / math.sqrt(len(logs))
    # Two repetitions have an interval of 12.7 standard errors: that is none.
    ends = (math.exp(mean - half), math.exp(mean + half)) if len(logs) > 2 else None
    return math.exp(mean), ends, spread


class Group:
    def __init__(self, key):
        (self.store, self.nodes, self.target), self.trials = key, []

    def completed(self):
        return [trial for trial in self.trials if trial.outcome == "completed"]

    def sample(self, measure):
        pairs = [(trial.number, trial.of(measure)) for trial in self.completed()]
        return [(number, value) for number, value in pairs if value is not None]


def plain(value):
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def names(groups):
    sizes = len({group.nodes for group in groups}) > 1
    targets = len({group.target for group in groups}) > 1
    result = {}
    for group in groups:
        name = group.store
        if sizes:
            name += f", {group.nodes} node" + ("" if group.nodes == 1 else "s")
        kind, target = group.target
        if targets and target is not None:
            share = f"{plain(target * 100)}% of its own rate"
            name += ", " + (share if kind == "share" else f"{plain(target)} per second")
        result[name] = group
    return result


def shown_names(labels):
    """The first of driver, instance and whole label that no other store of the run has."""
    cuts = [lambda label: re.split("[@ ]", label)[0], lambda label: label.split(" ")[0], str]
    counts = [collections.Counter(map(cut, labels)) for cut in cuts]
    return {
        label: next(cut(label) for cut, count in zip(cuts, counts) if count[cut(label)] == 1)
        for label in labels
    }


def holm(p):
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted, so_far = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        so_far = min(1.0, max(so_far, (len(p) - rank) * p[i]))
        adjusted[i] = so_far
    return adjusted


def compare(first, second, measure):
    """t, degrees of freedom, p, difference, interval, pairs, standard error; None if nothing varies."""
    one, other = dict(first.sample(measure)), dict(second.sample(measure))
    if first.nodes == second.nodes:
        common = [n for n in one if n in other]
        a, b = ([math.log(x[n]) for n in common] for x in (one, other))
        differences = [x - y for x, y in zip(a, b)]
        pairs, freedom = str(len(common)), len(common) - 1
        error = statistics.stdev(differences) / math.sqrt(len(common))
    else:
        a, b = ([math.log(value) for value in x.values()] for x in (one, other))
        parts = [statistics.variance(x) / len(x) for x in (a, b)]
        pairs, error = "no", math.sqrt(sum(parts))
        freedom = sum(parts) ** 2 / sum(v * v / (len(x) - 1) for v, x in zip(parts, (a, b)))
    difference = statistics.fmean(a) - statistics.fmean(b)
    t, half = difference / error, student.quantile(0.975, freedom) * error
    p = 2 * student.tail(abs(t), freedom)
    return t, freedom, p, difference, (difference - half, difference + half), pairs, error


def check_experiment(checks, title, groups, found):
    measure = groups[0].trials[0].measure
    by_name = names(groups)
    ranking = next((t for c, t in found.items() if c.startswith(f"{title}: ranking by ")), [])
    value_column = {
        "rate": "operations per second",
        "peak": "highest operations per second",
        "rows": "rows per second",
        "latency": "mean latency, ms"
        if measure[1] == "all"
        else f"mean latency of {measure[1]}, ms",
    }.get(measure[0]) or (
        "delay, ms" if measure[1] == "delay_ms" else "lost rows, the most in one repetition"
    )
    behind = next((t for c, t in found.items() if c == f"{title}: the trials behind the ranking"), [])
    behind = {row["store"]: row for row in behind}
    best = {}
    for row in ranking:
        row = behind.get(row["store"], {}) | row
        group, where = by_name[row["store"]], f"{title}, {row['store']}"
        sample = [value for _, value in group.sample(measure)]
        if row[value_column] == "not measured":
            checks.same(where, len(sample), 0)
            continue
        mean, ends, deviation = estimate(sample)
        losses = measure[1] == "lost_rows"
        checks.close(where, row[value_column], max(sample) if losses else mean)
        if "repetitions" in row:
            checks.same(where + ", repetitions", row["repetitions"], str(len(sample)))
        checks.interval(where, row.get("95% interval", ""), None if losses else ends)
        if row.get("spread"):
            checks.percent(where + ", spread", row["spread"], deviation)
        first = best.setdefault((group.nodes, group.target), mean)
        if row.get("relative to the best") and first:
            checks.ratio(where + ", relative", row["relative to the best"], mean / first)
        if row.get("drift, p"):
            checks.p(where + ", drift", row["drift, p"], student.kendall(sample))
        if row.get("reached per second"):
            reached = estimate([trial.rate() for trial in group.completed()])[0]
            printed = row["reached per second"].replace(" (overloaded)", "")
            checks.close(where + ", reached", printed, reached)
            overloaded = "overloaded" in row["reached per second"]
            checks.same(where + ", overload", overloaded, reached < OVERLOADED * statistics.fmean(t.target_per_s for t in group.trials))
        errors = sum(trial.errors["all"] for trial in group.completed())
        if "repetitions" in row:
            checks.same(where + ", errors", row.get("errors") or "0", f"{errors:,}")

    tests = next((t for c, t in found.items() if c.startswith(f"{title}: every pair, by ")), [])
    results = []
    for row in tests:
        one, other = (by_name[name] for name in row["pair"].split(" – "))
        results.append(None if not row["p"] else compare(one, other, measure))
    adjusted = iter(holm([result[2] for result in results if result]))
    for row, result in zip(tests, results):
        if not result:
            checks.same(row["pair"], row["verdict"], "not tested")
            continue
        where = f"{title}, {row['pair']}"
        t, freedom, p, difference, ends, pairs, error = result
        after = next(adjusted)
        checks.ratio(where + ", ratio", row["first / second"], math.exp(difference))
        checks.interval(where, row["95% interval"], [math.exp(end) for end in ends])
        checks.same(where + ", pairs", row["pairs"], pairs)
        checks.close(where + ", t", row["t"], t)
        checks.close(where + ", degrees of freedom", row["degrees of freedom"], freedom)
        checks.p(where + ", p", row["p"], p)
        checks.p(where + ", p after Holm", row["p after Holm"], after)
        alpha = 0.05 / len(tests)
        quantiles = student.quantile(1 - alpha / 2, freedom) + student.quantile(0.8, freedom)
        checks.detectable(
            where + ", detectable", row["smallest detectable"], math.exp(quantiles * error)
        )
        verdict = "significant" if after < 0.05 else "not significant"
        checks.same(where, row["verdict"], verdict)

    for caption, table in found.items():
        label = re.fullmatch(re.escape(title) + r": mean latency of (\S+) by repetition", caption)
        for row in table if label else []:
            group, where = by_name[row["store"]], f"{caption}, {row['store']}"
            of = label.group(1).replace("\\_", "_")
            sample = [value for _, value in group.sample(("latency", of))]
            mean, ends, _ = estimate(sample)
            checks.close(where, row["mean latency, ms"], mean)
            checks.interval(where, row.get("95% interval", ""), ends)
            checks.close(where + ", median", row["median of repetitions"], statistics.median(sample))
            rates = [trial.rate(of) for trial in group.completed()]
            checks.close(where + ", rate", row["per second"], statistics.fmean(rates))

    for row in found.get(f"{title}: response times of all repetitions together, ms", []):
        if row[""].startswith("paper"):
            continue
        name, label = row[""].rsplit(": ", 1)
        where, merged = f"{title}, {row['']}", Histogram()
        for trial in by_name[name].completed():
            merged.merge(trial.histograms[label.replace("\\_", "_")])
        checks.same(where, row["operations"], f"{merged.total():,}")
        checks.close(where + ", mean", row["mean"], merged.mean_ms())
        for percentile in PERCENTILES:
            printed = row.get(f"{percentile}%", "")
            # Of few operations the highest percentiles are those of single ones.
            beyond = merged.total() * (100 - percentile)
            if percentile < 100 and beyond < 100 * BEYOND_MIN - 1e-6:
                checks.same(f"{where}, {percentile}%", printed, "")
            else:
                checks.close(where, printed, merged.percentile_ms(percentile))

    prefix = f"{title}: resources, means of repetitions"
    resources = next((t for c, t in found.items() if c.startswith(prefix)), [])
    for row in resources:
        name, process = row[""].rsplit(": ", 1)
        used = [t for t in by_name[name].completed() if process in t.usage]
        where = f"{title}, {row['']}"
        seconds = [sum(trial.usage[process]["cpu_s"]) for trial in used]
        mean = statistics.fmean(s / trial.seconds for s, trial in zip(seconds, used))
        checks.close(where + ", processors", row["processors, mean"], mean, absolute=0.0051)
        operations = max(1, sum(trial.counts["all"] for trial in used))
        per_1000 = row["processor time for 1,000 operations, s"]
        checks.close(where + ", per 1,000", per_1000, sum(seconds) * 1000 / operations)


def pairs_of(groups, measure):
    """All pairs that are tested together, with p after Holm; None for one that cannot be tested."""
    sets = collections.defaultdict(list)
    for group in groups:
        if group.sample(measure):
            sets[group.nodes, group.target].append(group)
    pairs = [(a, b) for of in sets.values() for i, a in enumerate(of) for b in of[i + 1 :]]
    for group in groups:
        later = [
            other
            for other in groups
            if (other.store, other.target) == (group.store, group.target)
            and other.nodes > group.nodes
        ]
        if later and group.sample(measure):
            following = min(later, key=lambda other: other.nodes)
            if following.sample(measure):
                pairs.append((group, following))
    found = {}
    for pair in pairs:
        try:
            found[pair] = compare(*pair, measure)
        except (ValueError, ZeroDivisionError, statistics.StatisticsError):
            found[pair] = None
    results = {pair: result for pair, result in found.items() if result and tested(pair, measure)}
    adjusted = dict(zip(results, holm([result[2] for result in results.values()])))
    return sets, {pair: (results.get(pair), adjusted.get(pair)) for pair in pairs}


def tested(pair, measure):
    """Two repetitions are too few, and repetitions that do not vary show nothing."""
    one, other = (dict(group.sample(measure)) for group in pair)
    if pair[0].nodes == pair[1].nodes:
        a, b = ([x[n] for n in one if n in other] for x in (one, other))
        logs = [math.log(x / y) for x, y in zip(a, b)]
        return len(a) > 2 and statistics.stdev(logs) > 1e-12
    return len(one) > 2 and len(other) > 2


def check_groups(checks, title, groups, rows):
    """The groups of stores that do not differ: no two of a group do, and all that do not are in one."""
    measure = groups[0].trials[0].measure
    if measure[1] == "lost_rows":
        return
    sets, pairs = pairs_of(groups, measure)
    # At shares of the rates that stores reached themselves, none is better than another.
    several = [of for of in sets.values() if len(of) > 1 and of[0].target[0] != "share"]
    of_title = [row for row in rows if re.fullmatch(re.escape(title) + "(, .*)?", row["experiment"])]
    # Titles that begin alike have rows of their own.
    checks.same(f"{title}, rows of groups", len(of_title) >= len(several), True)
    for of, row in zip(several, of_title):
        where, shown = f"{row['experiment']}, groups", row["groups"]
        within = {pair: test for pair, test in pairs.items() if pair[0] in of and pair[1] in of}
        alpha = 0.05 / len(pairs)
        undecided = [result for result, p in within.values() if result and p >= 0.05]
        unseen = [
            math.exp(
                (student.quantile(1 - alpha / 2, r[1]) + student.quantile(0.8, r[1])) * r[6]
            )
            for r in undecided
        ]
        printed = row.get("stores that do not differ may do so by up to", "")
        if unseen and printed:
            checks.detectable(where + ", unseen", printed, max(unseen))
        else:
            checks.same(where + ", unseen", printed, "" if not unseen else "a ratio")
        if not any(result for result, _ in within.values()):
            checks.same(where, shown, "not tested")
            continue
        if shown == "too few repetitions":
            checks.same(where, any(p < 0.05 for _, p in within.values() if p is not None), False)
            continue
        shown = re.sub(r" \(too few repetitions for .*\)$", "", shown)
        letters = [set(re.sub(r"^\d+\. ", "", part).split(", ")) for part in shown.split("; ")]
        for (one, other), (_, p) in within.items():
            together = any({one.store, other.store} <= letter for letter in letters)
            differ = p is not None and p < 0.05
            checks.same(f"{where}: {one.store} and {other.store} together", together, not differ)


def doubts_of(group, usual_speed, cores):
    """The kinds of doubts about a group, as far as they are recomputed here."""
    completed, measure = group.completed(), group.trials[0].measure
    outcomes = {trial.outcome for trial in group.trials}
    found = {"wrong answers"} if "wrong" in outcomes else set()
    if "failed" in outcomes:
        found.add("failed trials")
    if sum(trial.values.get("lost_rows", 0) for trial in completed) > 0:
        found.add("lost rows")
    if measure[1] != "lost_rows":
        if any(trial.errors["all"] for trial in completed):
            found.add("errors")
        for trial in completed:
            whole = trial.whole()
            if sorted(whole)[len(whole) // 2] >= 20 and 0 in whole:
                found.add("stalls")
    hosts = [sum(t.usage["host"]["cpu_s"]) / t.seconds / cores for t in completed if "host" in t.usage]
    if hosts and statistics.fmean(hosts) > 0.95:
        found.add("machine full")
    if measure[0] in ("rate", "rows") and group.trials[0].target_per_s is None:
        idle = [trial for trial in completed if trial.is_idle(group.store)]
        if 2 * len(idle) > len(completed):
            found.add("waits for round trips")
    speeds = [trial.values["machine_rounds_per_s"] for trial in completed if "machine_rounds_per_s" in trial.values]
    if usual_speed and any(1 - speed / usual_speed > 0.15 for speed in speeds):
        found.add("slower machine")
    sample = [value for _, value in group.sample(measure)]
    if len(sample) >= 5 and student.kendall(sample) < 0.05:
        found.add("drift")
    if 0 < len(sample) < 5:
        found.add("small sample")
    return found


def check_doubts(checks, experiments, rows, cores):
    recomputed = {row["kind"]: 0 for row in rows} | dict.fromkeys(RECOMPUTED_DOUBTS, 0)
    for groups in experiments:
        speeds = [
            trial.values["machine_rounds_per_s"]
            for group in groups
            for trial in group.completed()
            if "machine_rounds_per_s" in trial.values
        ]
        usual = statistics.median(speeds) if speeds else None
        for group in groups:
            for kind in doubts_of(group, usual, cores):
                recomputed[kind] += 1
    printed = {row["kind"]: row["cases"] for row in rows}
    for kind in RECOMPUTED_DOUBTS:
        checks.same(f"doubts, {kind}", printed.get(kind, "0"), str(recomputed[kind]))


def check_samples(checks, path, groups):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    trials = {(t.experiment, t.order): t for group in groups for t in group.trials}
    for row in rows:
        if row["experiment"].startswith("load of "):
            continue
        trial = trials[row["experiment"], int(row["order"])]
        where = f"samples.csv, trial {row['order']}"
        checks.same(where, row["operations"], str(trial.counts["all"]))
        if row["value"]:
            checks.close(where, row["value"], trial.of(trial.measure), relative=1e-8)


def main(directory, *reports):
    directory = pathlib.Path(directory)
    run = json.loads((directory / "run.json").read_text())
    titles = {e["name"]: e["title"] for e in tomllib.loads(run["definition"])["experiment"]}
    trials = [Trial(path) for path in sorted((directory / "trials").glob("*.jsonl"))]
    shown = shown_names([store["label"] for store in run["stores"]])
    for trial in trials:
        trial.rename(shown)
    groups = {}
    for trial in sorted(trials, key=lambda trial: trial.order):
        if trial.role == "measure":
            key = trial.experiment, (trial.store, trial.nodes, trial.target)
            groups.setdefault(key, Group(key[1])).trials.append(trial)
    checks, experiments = Checks(), {}
    for (name, _), group in groups.items():
        experiments.setdefault(name, []).append(group)
    for report in reports or ["report-full.md"]:
        found = tables((directory / report).read_text())
        rows = next((t for c, t in found.items() if c.startswith("Groups of stores")), [])
        for name, of in experiments.items():
            check_experiment(checks, titles[name], of, found)
            check_groups(checks, titles[name], of, rows)
        doubts = next((t for c, t in found.items() if c.startswith("What to doubt")), [])
        check_doubts(checks, experiments.values(), doubts, run["machine"]["cores"])
    check_samples(checks, directory / "samples.csv", groups.values())
    for text in checks.wrong:
        print(text)
    print(f"{checks.done} figures recomputed, {len(checks.wrong)} differ")
    return 1 if checks.wrong or not checks.done else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
