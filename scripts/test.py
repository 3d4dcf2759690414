#!/usr/bin/env python3
"""All tests in one queue: `scripts/test.py` (what `make test` runs) or `scripts/test.py --quick` (`make quick`).

The workspace is compiled once. Then lints, unit tests, integration tests, hostile inputs and the browser run beside
each other, the longest first: each test program gets its own process, an integration program one process for each of
its modules. Every job writes a log; the logs of failed jobs are printed at the end, after a table of seconds.

    scripts/test.py                    everything
    scripts/test.py --only store       the jobs whose names contain `store`
    scripts/test.py --ignored          the tests that take minutes and are ignored otherwise
    scripts/test.py --quick            formatting, lints and unit tests of the crates that differ from BASE (main)
    scripts/test.py --jobs 6           at most 6 jobs at a time (default: one more than processors)

Tests of the lab on real servers run only if something changed that they depend on since they last passed on this
machine (LAB_INPUTS); `--lab` runs them always.
"""

import argparse
import collections
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The same directory as in the Makefile, also for cargo.
TARGET = pathlib.Path(os.environ.setdefault("CARGO_TARGET_DIR", os.path.expanduser("~/.cache/loginson/target")))
# What outlives a run: logs, the seconds of each job, and what the lab was last tested on.
KEPT = TARGET / "test-runs"
# A job that takes longer is stuck, on any machine; it is killed and fails. `--stuck-minutes` sets another time.
STUCK_MINUTES = 45
# Lines of a failed job's log that are printed.
LOG_LINES_MAX = 150
# Rows of the table of seconds.
TABLE_ROWS_MAX = 30
# The features with which the workspace is tested. One set for all, so that it is compiled once.
FEATURES = [
    "loginson-lab/real-servers",
    "loginson/real-servers",
    "loginson-cluster/real-servers",
    "loginson-sinks/real-kafka",
    "loginson-alerts/real-servers",
]
TESTED = ["--workspace", "--locked", "--features", ",".join(FEATURES)]
# Paths on which the lab's tests on real servers depend. The API of our own server is what docs/api.md says.
LAB_INPUTS = ["crates/lab", "Cargo.lock", "docs/api.md", "scripts/test-deps.sh", "scripts/servers"]
LAB_MODULES = {"agents", "contract", "servers", "studies"}
# Files of the page's tests that `make test` runs, on a desk. `make browser` runs all on a desk, `make test-long` also as
# a phone shows them.
PAGE_FILES = [
    "tour", "patterns", "login", "provider", "links", "watch", "plan", "ingest", "annotations", "sinks",
    "alerts-real", "size",
]
# Seconds of jobs that did not run on this machine yet; others count as ten. Only the order depends on them.
GUESSED_S = {"browser": 200, "clippy": 300, "licences": 240, "hostile": 150, "lab contract": 300, "lab studies": 300}


@dataclasses.dataclass
class Job:
    """One process of the queue."""

    name: str
    command: list
    directory: pathlib.Path = ROOT
    environment: dict = dataclasses.field(default_factory=dict)
    # Jobs that share a lock do not run at the same time: cargo would only wait for its own.
    lock: str = ""
    seconds: float = 0.0
    status: int = 0
    passed: int = 0
    failed: int = 0

    @property
    def log(self):
        return KEPT / "logs" / (re.sub(r"[^a-z0-9]+", "-", self.name.lower()) + ".log")


# Processes of running jobs, each the leader of a group of its own.
RUNNING = set()


def stop_all(*_):
    """Ends all jobs with all that they started, and this program."""
    for process in list(RUNNING):
        os.killpg(process.pid, signal.SIGKILL)
    os._exit(130)


def run_job(job, stuck_minutes):
    """Runs a job to its end, or kills it and all that it started when it is stuck."""
    begun = time.monotonic()
    environment = {**os.environ, **job.environment}
    with open(job.log, "wb") as log:
        process = subprocess.Popen(
            [str(word) for word in job.command], cwd=job.directory, env=environment, stdin=subprocess.DEVNULL,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )
        RUNNING.add(process)
        try:
            job.status = process.wait(stuck_minutes * 60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            job.status = process.wait()
            log.write(f"\nkilled: this job was stuck for {stuck_minutes} minutes\n".encode())
        RUNNING.discard(process)
    job.seconds = time.monotonic() - begun
    job.passed, job.failed = counted(job)


def counted(job):
    """Passed and failed tests of a job's log; a job whose log tells none counts as one."""
    text = job.log.read_text(errors="replace")
    passed = failed = 0
    for line in re.finditer(r"^test result: \S+ (\d+) passed; (\d+) failed", text, re.M):
        passed, failed = passed + int(line[1]), failed + int(line[2])
    # Playwright, and Vitest with its colours.
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for line in re.finditer(r"^\s*(?:Tests\s+(?:\d+ failed \| )?)?(\d+) passed\b", plain, re.M):
        passed += int(line[1])
    for line in re.finditer(r"^\s*(?:Tests\s+)?(\d+) failed\b", plain, re.M):
        failed += int(line[1])
    if passed + failed == 0:
        passed = int(job.status == 0)
    if job.status != 0:
        failed = max(failed, 1)
    return passed, failed


def run_queue(jobs, places, stuck_minutes):
    """Runs all jobs, at most `places` at a time and the longest first; prints a line at the end of each."""
    waiting = collections.deque(sorted(jobs, key=lambda job: -job.seconds))
    changed = threading.Condition()
    running, locks = set(), set()

    def work():
        while True:
            with changed:
                while True:
                    ready = next((job for job in waiting if job.lock not in locks), None)
                    if ready is not None or not waiting:
                        break
                    changed.wait()
                if ready is None:
                    return
                waiting.remove(ready)
                running.add(ready.name)
                if ready.lock:
                    locks.add(ready.lock)
            run_job(ready, stuck_minutes)
            with changed:
                running.discard(ready.name)
                locks.discard(ready.lock)
                verdict = "ok    " if ready.status == 0 else "FAILED"
                left = len(waiting) + len(running)
                print(f"{verdict} {ready.seconds:6.1f} s  {ready.name} ({ready.passed} passed), {left} jobs left", flush=True)
                changed.notify_all()

    workers = [threading.Thread(target=work) for _ in range(places)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def build(kinds):
    """Compiles the tests; returns (package directory, target, executable) of each test program."""
    done = subprocess.run(
        ["cargo", "test", *TESTED, *kinds, "--no-run", "--message-format=json-render-diagnostics"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )
    if done.returncode != 0:
        sys.exit(done.returncode)
    found = []
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("profile", {}).get("test"):
            directory = pathlib.Path(message["manifest_path"]).parent
            found.append((directory, message["target"], message["executable"]))
    return found


def test_names(executable, directory, ignored):
    """The names of a program's tests: those that are not ignored, or those alone that are."""

    def listed(*more):
        command = [executable, "--list", "--format=terse", *more]
        done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, text=True, check=True)
        lines = [line.rpartition(": ") for line in done.stdout.splitlines()]
        return {name for name, _, kind in lines if kind == "test"}

    left_out = listed("--ignored")
    return sorted(left_out if ignored else listed() - left_out)


def test_jobs(programs, ignored=False):
    """A job for each unit test program, and one for each module of an integration program."""
    jobs = []
    more = ["--ignored", "--nocapture"] if ignored else []
    for directory, target, executable in programs:
        crate = directory.name
        environment = {"CARGO_MANIFEST_DIR": str(directory)}
        names = test_names(executable, directory, ignored)
        if names and "test" not in target["kind"]:
            name = f"{crate} unit" if "lib" in target["kind"] else f"{crate} {target['name']} unit"
            jobs.append(Job(name, [executable, "--test-threads=2", *more], directory, environment))
            continue
        for module, group in itertools.groupby(names, lambda name: name.split("::")[0]):
            command = [executable, "--test-threads=2", *more, "--exact", *group]
            jobs.append(Job(f"{crate} {module}", command, directory, environment))
    return jobs


def state_of(paths):
    """A checksum over files of the work tree that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=ROOT, stdout=subprocess.PIPE, check=True,
    )
    checksum = hashlib.sha256()
    for name in sorted(set(listed.stdout.split(b"\0")) - {b""}):
        path = ROOT / os.fsdecode(name)
        if path.is_file():
            checksum.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return checksum.hexdigest()


def changed_paths(base):
    """Paths that differ from where this branch left BASE, with those that are not committed yet."""
    found = subprocess.run(["git", "merge-base", "HEAD", base], cwd=ROOT, capture_output=True, text=True)
    since = found.stdout.strip() or "HEAD"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if since == head.stdout.strip():
        # On BASE itself: the last commit, and what is not committed.
        since = "HEAD~1"
    paths = subprocess.run(["git", "diff", "--name-only", since, "--"], cwd=ROOT, capture_output=True, text=True, check=True)
    new = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return (paths.stdout + new.stdout).split("\n")


def check_jobs(with_page):
    """Formatting, lints, and the page's own checks."""
    jobs = [
        Job("formatting", ["cargo", "fmt", "--all", "--check"]),
        Job("clippy", ["cargo", "clippy", *TESTED, "--all-targets", "--", "-D", "warnings"], lock="cargo"),
    ]
    if with_page:
        jobs += [
            Job("page check", ["npm", "--prefix", "web", "run", "check"]),
            Job("page unit", ["npm", "--prefix", "web", "run", "test"]),
        ]
    return jobs


def quick_jobs():
    paths = changed_paths(os.environ.get("BASE", "main"))
    crates = {path.split("/")[1] for path in paths if path.startswith("crates/")} | {"xtask"}
    page = any(path.startswith("web/") for path in paths) and (ROOT / "web/node_modules").is_dir()
    programs = [program for program in build(["--lib", "--bins"]) if program[0].name in crates]
    return check_jobs(page) + test_jobs(programs)


def all_jobs():
    jobs = check_jobs(True) + test_jobs(build([]))
    for job in jobs:
        if job.name == "lab contract":
            # `make test-lab` tests the others.
            job.environment["CONTRACT_STORES"] = os.environ.get("CONTRACT_STORES", "redis,files")
    binary = {"LOGINSON_BIN": str(TARGET / "debug/loginson")}
    return jobs + [
        Job("documentation tests", ["cargo", "test", *TESTED, "--doc"], lock="cargo"),
        Job("licences", ["scripts/cargo-deny.sh", "check", "licenses", "bans", "sources"]),
        Job("hostile", ["scripts/hostile/run.py", "--fast"], environment=binary),
        Job("documents", ["scripts/test-documents.py"], environment=binary),
        Job("ways in", ["scripts/ways.py", "--check"]),
        Job("watching", ["scripts/test-watching.py"], environment=binary),
        Job("chart", ["scripts/test-chart.py", "--light"]),
        Job("errors", ["scripts/errors.py", "--check"]),
        # Fuzzing has a workspace of its own, whose lock file nothing else reads.
        Job("lock of fuzzing", ["cargo", "tree", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--depth", "0"]),
        Job("parquet", ["scripts/test-parquet.sh"], environment=binary),
        Job("browser", ["scripts/browser-test.sh", "--grep-invert", "phone", *page_files()], environment=binary),
    ]


def page_files():
    """What Playwright takes for these files alone; of a name without its end, it takes `alerts` for `alerts-real` too."""
    missing = [name for name in PAGE_FILES if not (ROOT / f"web/e2e/{name}.spec.ts").is_file()]
    assert not missing, f"PAGE_FILES names files that are not in web/e2e: {missing}"
    return [f"/{name}\\.spec\\.ts$" for name in PAGE_FILES]


def without_lab(jobs, always):
    """Leaves out the lab's tests on real servers when nothing that they depend on changed since they passed."""
    state, stamp = state_of(LAB_INPUTS), KEPT / "lab-passed"
    if always or not stamp.is_file() or stamp.read_text() != state:
        return jobs, (stamp, state)
    print("The lab's tests on real servers passed on this state before; `make test-long` runs them again.")
    return [job for job in jobs if not is_of_lab(job)], None


def is_of_lab(job):
    return job.name in {f"lab {module}" for module in LAB_MODULES}


def report(jobs, build_s, whole_s):
    """The table of seconds, the logs of failed jobs, and the line that counts; returns the exit status."""
    print(f"\n{'seconds':>8}  what")
    print(f"{build_s:8.1f}  compiling the tests")
    by_time = sorted(jobs, key=lambda job: -job.seconds)
    for job in by_time[:TABLE_ROWS_MAX]:
        print(f"{job.seconds:8.1f}  {job.name} ({job.passed} passed)")
    if rest := by_time[TABLE_ROWS_MAX:]:
        print(f"{sum(job.seconds for job in rest):8.1f}  {len(rest)} shorter jobs")
    print(f"{whole_s:8.1f}  all in all")
    failed = [job for job in jobs if job.status != 0]
    for job in failed:
        lines = job.log.read_text(errors="replace").splitlines()
        print(f"\n=== {job.name} failed (exit {job.status}); whole log: {job.log}")
        print("\n".join(lines[-LOG_LINES_MAX:]))
    if failed:
        print("\nFailed: " + ", ".join(job.name for job in failed))
    print(f"\n{sum(job.passed for job in jobs)} passed, {sum(job.failed for job in jobs)} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only what the crates that differ from BASE need")
    parser.add_argument("--only", action="append", default=[], help="only the jobs whose names contain this; may be repeated")
    parser.add_argument("--jobs", type=int, default=1 + (os.cpu_count() or 1), help="jobs at a time")
    parser.add_argument("--lab", action="store_true", help="the lab on real servers even if nothing changed")
    parser.add_argument("--ignored", action="store_true", help="only the tests that take minutes, which are ignored else")
    parser.add_argument("--stuck-minutes", type=int, default=STUCK_MINUTES, help="after which a job is killed")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, stop_all)
    signal.signal(signal.SIGTERM, stop_all)
    begun = time.monotonic()
    (KEPT / "logs").mkdir(parents=True, exist_ok=True)
    if options.ignored:
        jobs = test_jobs(build([]), ignored=True)
    else:
        jobs = quick_jobs() if options.quick else all_jobs()
    build_s = time.monotonic() - begun
    jobs = [job for job in jobs if not options.only or any(part in job.name for part in options.only)]
    jobs, lab = without_lab(jobs, options.lab or options.ignored)
    times = KEPT / "seconds.json"
    known = json.loads(times.read_text()) if times.is_file() else {}
    for job in jobs:
        job.seconds = known.get(job.name, GUESSED_S.get(job.name, 10))
    print(f"Compiled in {build_s:.0f} s; {len(jobs)} jobs.", flush=True)
    run_queue(jobs, max(options.jobs, 1), options.stuck_minutes)
    times.write_text(json.dumps({**known, **{job.name: round(job.seconds, 1) for job in jobs}}, indent=1))
    of_lab = [job for job in jobs if is_of_lab(job)]
    if lab and not options.ignored and len(of_lab) == len(LAB_MODULES) and all(job.status == 0 for job in of_lab):
        lab[0].write_text(lab[1])
    sys.exit(report(jobs, build_s, time.monotonic() - begun))


if __name__ == "__main__":
    main()
