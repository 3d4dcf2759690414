#!/usr/bin/env python3
"""Counts the instructions of a fixed workload, and compares them with testdata/instructions.toml.

    make instructions                       fails where a phase takes SHARE_MAX more than is written there
    scripts/test-instructions.py --bless    writes what is counted now: after a change that is worth it, or a faster one

A count does not depend on what else the machine does, so a loss of some percent in parsing, sealing or a query is seen anywhere.
`crates/instructions` is the workload, in phases; valgrind (callgrind) counts.

Only functions of Rust are counted: allocator, libc and zstd are C, of which other machines have other builds, and libc chooses its own
copies by the processor. Of Rust, memchr chooses by the processor too; valgrind shows AVX2 wherever the processor has it. Maps are seeded
by the clock, which moves counts by SHARE_NOISE at most (`--noise` measures it; 0.1 % was seen). Each entry has the functions that took most, so that a failure says which of
them changed.

Where valgrind is missing, nothing is compared, unless LOGINSON_COUNT=required. Standard library only.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = ROOT / "testdata/instructions.toml"
TARGET = pathlib.Path(os.environ.setdefault("CARGO_TARGET_DIR", os.path.expanduser("~/.cache/loginson/target")))
# A phase fails when it takes this share more, and some instructions more: short phases jump by a share for nothing.
SHARE_MAX, SLACK = 0.03, 20_000
# Two runs of the same binary must differ by less.
SHARE_NOISE = 0.003
# Functions of a phase that are kept, and that a failure names.
FUNCTIONS_KEPT, FUNCTIONS_NAMED = 30, 8


def build():
    # An incremental build is divided into other units, so other functions are inlined.
    environment = os.environ | {"CARGO_INCREMENTAL": "0"}
    command = ["cargo", "build", "--profile", "counted", "--locked", "-p", "loginson-instructions"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return TARGET / "counted/loginson-instructions"


def count(binary):
    """Instructions of each phase by function."""
    with tempfile.TemporaryDirectory(prefix="instructions.") as directory:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out", "--dump-line=no", "--compress-strings=no"]
        # At the beginning of a phase valgrind writes what was counted since the last one began.
        command += ["--compress-pos=no", "--dump-before=*::begin_phase*", str(binary), directory]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]})
        names = re.findall(r"^phase (\S+)$", done.stdout, re.M)
        texts = [path.read_text() for path in pathlib.Path(directory).glob("out*")]
    parts = {int(found[1]): text for text in texts if (found := re.search(r"^part: (\d+)$", text, re.M))}
    if done.returncode or len(parts) < len(names) or not names:
        sys.exit(f"{' '.join(command)} failed, or wrote {len(parts)} parts for {len(names)} phases:\n{done.stdout}{done.stderr}")
    # The first part is what comes before the first phase, and the last phase has nothing in it.
    phases = {name: functions_of(parts[number]) for number, name in enumerate(names[:-1], 2)}
    return phases


def functions_of(text):
    """Instructions of each function of Rust in a part of callgrind's output, those of functions that it calls left out."""
    found = collections.Counter()
    name, is_call = "", False
    for line in text.splitlines():
        if line.startswith("fn="):
            name = plain_name(line[3:])
        elif line.startswith("calls="):
            # The next line has the instructions of the called function.
            is_call = True
        elif line[:1].isdigit():
            if not is_call and name:
                found[name] += int(line.split()[1])
            is_call = False
    return found


def plain_name(name):
    """The name without the hash of its crate; empty if the function is not of Rust."""
    name = re.sub(r"'\d+$", "", name)
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    return re.sub(r"\[[0-9a-f]{12,16}\]", "", name) if "::" in name else ""


def write(phases):
    lines = ["# Instructions of each phase of crates/instructions, and the functions that take most of them."]
    lines += ["# Written by: scripts/test-instructions.py --bless"]
    for phase, functions in sorted(phases.items()):
        lines += ["", f"[{phase}]", f"total = {sum(functions.values())}", "", f"[{phase}.functions]"]
        kept = functions.most_common(FUNCTIONS_KEPT)
        lines += [f"'{name}' = {instructions}" for name, instructions in kept if "'" not in name]
    COUNTS.write_text("\n".join(lines) + "\n")


def compare(phases, kept):
    """Prints a line for each phase; returns those that take more than they may."""
    worse = []
    for phase in sorted(phases.keys() | kept.keys()):
        if phase not in phases or phase not in kept:
            worse.append(phase)
            print(f"{phase:24} is {'not counted any more' if phase in kept else 'new'}")
            continue
        now, before = sum(phases[phase].values()), kept[phase]["total"]
        change = now / before - 1
        print(f"{phase:24} {now:>13,} of {before:>13,} {change:+8.2%}")
        if change > SHARE_MAX and now - before > SLACK:
            worse.append(phase)
            name_changes(phases[phase], kept[phase]["functions"])
    return worse


def name_changes(functions, before):
    """The functions that changed most; one that is not among those that took most before shows its whole count."""
    changes = {name: functions[name] - before.get(name, 0) for name in functions.keys() | before.keys()}
    for name in sorted(changes, key=lambda name: -abs(changes[name]))[:FUNCTIONS_NAMED]:
        was = f"{before[name]:,}" if name in before else "little or nothing"
        print(f"    {changes[name]:>+13,} from {was}: {name[:160]}")


def main():
    parser = argparse.ArgumentParser(description="Counts instructions of a fixed workload.")
    parser.add_argument("--bless", action="store_true", help="write what is counted to testdata/instructions.toml")
    parser.add_argument("--noise", action="store_true", help="count twice, and compare the two")
    parser.add_argument("--binary", help="count this one instead of building it")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        message = "instructions are not counted: valgrind is missing; install it: apt-get install valgrind"
        sys.exit(message if os.environ.get("LOGINSON_COUNT") == "required" else print(message))
    binary = options.binary or build()
    phases = count(binary)
    if options.bless:
        return write(phases)
    if options.noise:
        again = count(binary)
        shares = {phase: abs(sum(again[phase].values()) / sum(phases[phase].values()) - 1) for phase in phases}
        print("\n".join(f"{phase:24} {share:.4%}" for phase, share in sorted(shares.items())))
        sys.exit("two runs differ too much" if max(shares.values()) > SHARE_NOISE else 0)
    if worse := compare(phases, tomllib.loads(COUNTS.read_text())):
        sys.exit(
            f"more instructions than in {COUNTS.relative_to(ROOT)}: {', '.join(worse)}. If the change is worth them, accept them by:"
            " scripts/test-instructions.py --bless"
        )


if __name__ == "__main__":
    main()
