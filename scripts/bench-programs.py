#!/usr/bin/env python3
"""Measures programs of users beside the same work alone, and prints tables such as those of docs/benchmarks/programs.md.

    make bench-programs
    BENCH_PARTS="ingest serialise" make bench-programs    some parts

    serialise   1 million access lines of 100 bytes to JSON: AWK on the plain file, a program in C, one of Flex and Bison (where these
                are installed), Python; and the same AWK as a program in the pipeline, and LogsQL
    ingest      lines as fast as they are taken, without and with a program in AWK, and how far the program is behind at the end
    day         a day of lines (BENCH_DAY_GB, 2) through a program while other lines come in

Nothing else should run on the machine. Cases run in turn; the tables give medians. Answers are compared.
"""

import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from benchlib import PAIRS, Client, Server, note  # noqa: E402

PARTS = os.environ.get("BENCH_PARTS", "serialise ingest day").split()
DAY_GB = float(os.environ.get("BENCH_DAY_GB", "2"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "20"))
LINES = int(os.environ.get("BENCH_LINES", "1000000"))
DATA = pathlib.Path(os.environ.get("BENCH_DIR", os.path.expanduser("~/.cache/loginson")))

SERIALISE = """# type: access
# bucket: 10s
{ time = substr($4, 2); method = substr($6, 2); version = substr($8, 1, length($8) - 1)
  printf "{\\"client\\":\\"%s\\",\\"when\\":\\"%s\\",\\"method\\":\\"%s\\",\\"path\\":\\"%s\\",\\"version\\":\\"%s\\",\\"status\\":%d,\\"bytes\\":%d}\\n", $1, time, method, $7, version, $9, $10 }
"""
COUNT = """# type: access
# bucket: 10s
# fields: status bytes
NR == 1 { next }
{ c = substr($1, 1, 1); n[c]++; b[c] += $2 }
END { for (c in n) print "class=" c "xx", "lines=" n[c], "bytes=" b[c] }
"""
C_PROGRAM = r"""
#include <stdio.h>
#include <string.h>
/* The same JSON as the program in AWK. */
int main(void) {
  static char line[65536], out[1 << 16];
  setvbuf(stdout, out, _IOFBF, sizeof out);
  while (fgets(line, sizeof line, stdin)) {
    char *save, *word[12]; int n = 0;
    for (char *w = strtok_r(line, " \n", &save); w && n < 12; w = strtok_r(NULL, " \n", &save)) word[n++] = w;
    if (n < 10) continue;
    word[7][strlen(word[7]) - 1] = 0;
    printf("{\"client\":\"%s\",\"when\":\"%s\",\"method\":\"%s\",\"path\":\"%s\",\"version\":\"%s\",\"status\":%s,\"bytes\":%s}\n",
           word[0], word[3] + 1, word[5] + 1, word[6], word[7], word[8], word[9]);
  }
}
"""
PYTHON = r"""
import sys, json
write = sys.stdout.write
for line in sys.stdin:
    w = line.split()
    write(json.dumps({"client": w[0], "when": w[3][1:], "method": w[5][1:], "path": w[6], "version": w[7][:-1],
                      "status": int(w[8]), "bytes": int(w[9])}, separators=(",", ":")) + "\n")
"""
FLEX = r"""
%option noyywrap
%{
#include "p.tab.h"
#include <stdlib.h>
#include <string.h>
extern char *copy(const char *, int);
%}
%%
[0-9]+            { yylval.text = copy(yytext, yyleng); return NUMBER; }
\[[^\]\n]*\]      { yylval.text = copy(yytext + 1, yyleng - 2); return TIME; }
\"[^\"\n]*\"      { yylval.text = copy(yytext + 1, yyleng - 2); return QUOTED; }
[^ \t\n\[\"]+     { yylval.text = copy(yytext, yyleng); return WORD; }
[ \t]+            ;
\n                { return '\n'; }
%%
"""
BISON = r"""
%{
#include <stdio.h>
#include <string.h>
int yylex(void); void yyerror(const char *s) { (void)s; }
static char arena[65536]; static int used;
char *copy(const char *s, int n) { char *p = arena + used; memcpy(p, s, n); p[n] = 0; used += n + 1; return p; }
static void emit(char *client, char *time, char *request, char *status, char *bytes) {
  char *save, *m = strtok_r(request, " ", &save), *p = strtok_r(NULL, " ", &save), *v = strtok_r(NULL, " ", &save);
  time[strcspn(time, " ")] = 0;
  printf("{\"client\":\"%s\",\"when\":\"%s\",\"method\":\"%s\",\"path\":\"%s\",\"version\":\"%s\",\"status\":%s,\"bytes\":%s}\n", client, time, m, p, v, status, bytes);
  used = 0;
}
%}
%union { char *text; }
%token <text> NUMBER TIME QUOTED WORD
%type <text> any
%%
lines: | lines line ;
line: any any any TIME QUOTED NUMBER NUMBER rest '\n' { emit($1, $4, $5, $6, $7); } | error '\n' { yyerrok; used = 0; } ;
any: NUMBER | WORD ;
rest: | rest QUOTED | rest WORD ;
%%
int main(void) { static char out[1 << 16]; setvbuf(stdout, out, _IOFBF, sizeof out); return yyparse(); }
"""


def stamp(second):
    return time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))


def access_lines(count, first_s, per_s, seed):
    """Access lines of 100 bytes."""
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        head = f'10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)} - - [{stamp(first_s + number // per_s)}] "GET '
        tail = f' HTTP/1.1" {rng.choice([200, 200, 200, 304, 404, 500])} {rng.randrange(100000)}'
        lines.append(head + "/" + "x" * max(1, 99 - len(head) - len(tail)) + tail)
    return lines


def timed(command, path):
    """Wall and CPU seconds of a command with the file as input; its output goes to a file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    with open(path) as stdin, open(path.with_suffix(".out"), "wb") as out:
        subprocess.run(command, stdin=stdin, stdout=out, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def insert(client, kind, lines):
    for at in range(0, len(lines), 50_000):
        body = "\n".join(lines[at:at + 50_000]).encode()
        status, answer = client.request("POST", f"/insert/lines?type={kind}", body)
        assert status == 200, answer


def save(server, name, text, language="awk"):
    status, answer = server.client.request("POST", f"/api/v1/programs/{name}?language={language}", text.encode())
    assert status == 200, answer


def program(server, name):
    return json.loads(server.get(f"/api/v1/programs/{name}"))


def rerun(server, name, start, end):
    """Seconds of a run over the past."""
    before = len(json.loads(server.get(f"/api/v1/programs/{name}/runs"))["runs"])
    path = f"/api/v1/programs/{name}/runs?" + urllib.parse.urlencode({"start": start, "end": end})
    began = time.monotonic()
    status, answer = server.client.request("POST", path, b"")
    assert status == 202, answer
    number = json.loads(answer)["id"]
    while True:
        entry = [q for q in json.loads(server.get("/api/v1/queries"))["queries"] if q["id"] == number]
        if entry and entry[0]["state"] in ("done", "failed", "cancelled"):
            assert entry[0]["state"] == "done", entry
            return time.monotonic() - began
        runs = json.loads(server.get(f"/api/v1/programs/{name}/runs"))["runs"]
        if not entry and (len(runs) > before or before):
            return time.monotonic() - began
        time.sleep(0.02)


def serialise(folder):
    first = 1_700_000_000
    lines = access_lines(LINES, first, 1_000, 1)
    path = folder / "lines"
    path.write_text("\n".join(lines) + "\n")
    size = path.stat().st_size
    rows, outputs = [], {}
    commands = {"gawk on the file": ["gawk", SERIALISE]}
    (folder / "c.c").write_text(C_PROGRAM)
    if shutil.which("gcc"):
        subprocess.run(["gcc", "-O2", "-o", folder / "c", folder / "c.c"], check=True)
        commands["C"] = [folder / "c"]
    if shutil.which("flex") and shutil.which("bison") and shutil.which("gcc"):
        (folder / "l.l").write_text(FLEX)
        (folder / "p.y").write_text(BISON)
        subprocess.run(["bison", "-d", "-o", folder / "p.tab.c", folder / "p.y"], check=True)
        subprocess.run(["flex", "-o", folder / "l.c", folder / "l.l"], check=True)
        subprocess.run(["gcc", "-O2", "-w", "-o", folder / "fb", folder / "p.tab.c", folder / "l.c"], cwd=folder, check=True)
        commands["Flex and Bison"] = [folder / "fb"]
    commands["Python"] = [sys.executable, "-c", PYTHON]
    for name, command in commands.items():
        times = [timed(command, path) for _ in range(PAIRS)]
        outputs[name] = path.with_suffix(".out").read_text()
        rows.append((name, statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)))
        note(f"    {rows[-1]}")
    for name, text in outputs.items():
        assert text == outputs["gawk on the file"], f"{name} gives other lines than gawk"
    with Server(folder) as server:
        insert(server.client, "access", lines)
        server.wait_settled()
        save(server, "json", SERIALISE)
        save(server, "count", COUNT)
        save(server, "logsql", "# type: access\n# bucket: 10s\n* | stats by (client_ip, status) count() lines\n", "logsql")
        for name, label in [("json", "gawk as a program, lines to durable rows"), ("count", "gawk as a program: counts by class of status"),
                            ("logsql", "LogsQL as a program: counts by client and status")]:
            seconds, cpu = [], []
            for _ in range(PAIRS):
                before = server.cpu_s()
                seconds.append(rerun(server, name, first, first + LINES // 1_000))
                cpu.append(server.cpu_s() - before)
            rows.append((label, statistics.median(seconds), statistics.median(cpu)))
            note(f"    {rows[-1]}")
        # A field that no line has would make one group of all lines.
        counted = json.loads(server.get(f"/api/v1/programs/logsql/rows?start={first}&end={first + 10}&limit=5000"))["rows"]
        clients = {(line.split()[0], line.split()[8]) for line in lines[:10_000]}
        assert counted and all((row["fields"]["client_ip"], str(row["fields"]["status"])) in clients for row in counted), "clients"
        answer = json.loads(server.get(f"/api/v1/programs/json/rows?start={first}&end={first + 60}&limit=100000"))
        expected = sorted(outputs["gawk on the file"].splitlines()[:60_000])
        found = sorted(json.dumps(row["fields"], separators=(",", ":")) for row in answer["rows"])
        assert found == expected, "the rows are not those of gawk"
        began = time.monotonic()
        body = server.client.request("POST", "/select/logsql/query?query=" + urllib.parse.quote("_type:access | fields client_ip, method, path, status, bytes"))[1]
        rows.append(("LogsQL query to JSON, sent to a client", time.monotonic() - began, 0))
        assert body.count("\n") == LINES
    print(f"\n{LINES} lines, {size / 1e6:.0f} MB\n")
    print("| what | s | lines/s | CPU s |\n|---|---|---|---|")
    for name, wall, cpu in rows:
        print(f"| {name} | {wall:.2f} | {LINES / wall / 1e6:.2f} M | {cpu:.2f} |")


def bodies(now_lines):
    """Bodies of access lines whose time is to be filled in."""
    return ["\n".join(access_lines(20_000, 0, 10**9, seed)).replace(stamp(0), "TIME").encode() for seed in range(now_lines)]


def send_for(server, templates, seconds, rate=None):
    """Sends lines with the present time as fast as they are taken, or at a rate, from two threads; returns lines a second."""
    counts = [0, 0]

    def work(number):
        client = Client(server.http)
        until, sent, began = time.monotonic() + seconds, 0, time.monotonic()
        while time.monotonic() < until:
            body = templates[sent % len(templates)].replace(b"TIME", stamp(time.time()).encode())
            status, answer = client.request("POST", "/insert/lines?type=access", body)
            assert status == 200, answer
            sent += 1
            counts[number] += 20_000
            if rate:
                time.sleep(max(0, began + sent * 20_000 / (rate / 2) - time.monotonic()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    began = time.monotonic()
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return sum(counts) / (time.monotonic() - began), sum(counts)


def check_counts(server, name, lines):
    """Waits until the rows count all lines; returns how long that took."""
    began = time.monotonic()
    while True:
        rows = json.loads(server.get(f"/api/v1/programs/{name}/rows?start=1d&limit=100000"))["rows"]
        counted = sum(row["fields"]["lines"] for row in rows)
        if counted == lines:
            return time.monotonic() - began
        assert time.monotonic() - began < 600, f"{counted} of {lines} lines are counted"
        time.sleep(0.2)


def ingest(folder):
    templates = bodies(4)
    results = {}
    cases = [("no program", None), ("a program in AWK", COUNT), ("a program in LogsQL", "LOGSQL")]
    for _ in range(PAIRS):
        for label, text in cases:
            with Server(folder) as server:
                if text == "LOGSQL":
                    save(server, "p", "# type: access\n* | stats by (status) count() lines, sum(bytes) bytes", "logsql")
                elif text:
                    save(server, "p", text)
                rate, lines = send_for(server, templates, SECONDS)
                behind = program(server, "p")["lag_s"] if text else 0
                caught_up = check_counts(server, "p", lines) if text else 0
                results.setdefault(label, []).append((rate, behind, caught_up))
                note(f"    {label}: {rate / 1e6:.2f} M lines/s, lag {behind:.1f} s, {caught_up:.1f} s to the last row")
    base = statistics.median(r[0] for r in results["no program"])
    print("\n| | lines/s | ratio | lag at the end of sending, s | last row after the last line, s |\n|---|---|---|---|---|")
    for label, values in results.items():
        rate, behind, caught_up = (statistics.median(v[i] for v in values) for i in range(3))
        print(f"| {label} | {rate / 1e6:.2f} M | {rate / base:.2f} | {behind:.1f} | {caught_up:.1f} |")


def day(folder):
    count = int(DAY_GB * 1e9 / 100)
    now = int(time.time()) // 86_400 * 86_400 - 86_400
    block = access_lines(100_000, 0, 10**9, 7)
    templates = bodies(2)
    text = "\n".join(block).replace(stamp(0), "TIME").encode()
    per_block_s = 86_400 / (count / 100_000)
    with Server(folder) as server:
        save(server, "p", COUNT)
        client, began, sent = Client(server.http), time.monotonic(), 0
        while sent < count:
            body = text.replace(b"TIME", stamp(now + sent / 100_000 * per_block_s).encode())
            status, answer = client.request("POST", "/insert/lines?type=access", body)
            assert status == 200, answer
            sent += 100_000
        loaded = time.monotonic() - began
        live = []
        thread = threading.Thread(target=lambda: live.append(send_for(server, templates, 30, 100_000)))
        thread.start()
        while True:
            status = program(server, "p")
            rows = json.loads(server.get(f"/api/v1/programs/p/rows?start={now}&end={now + 86_400}&limit=100000"))["rows"]
            counted = sum(row["fields"]["lines"] for row in rows)
            if counted == sent:
                break
            assert time.monotonic() - began < 1800, f"{counted} of {sent}: {status}"
            time.sleep(1)
        computed = time.monotonic() - began
        thread.join()
        check_counts_live = json.loads(server.get("/api/v1/programs/p"))
        print(f"\n{sent} lines ({sent / 1e7:.1f} GB) were taken in {loaded:.0f} s; all rows of the day were there {computed:.0f} s after the "
              f"first line ({sent / computed / 1e6:.2f} M lines/s), while {live[0][0] / 1e3:.0f} thousand other lines a second came in; "
              f"failures {check_counts_live['failures_total']}")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-programs.", dir=DATA))
    try:
        for part in PARTS:
            note(part)
            {"serialise": serialise, "ingest": ingest, "day": day}[part](folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
