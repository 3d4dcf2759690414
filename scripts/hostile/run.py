#!/usr/bin/env python3
"""Hostile inputs against the real binary: `scripts/hostile/run.py [--fast] [--only PART] [--list]`.

LOGINSON_BIN names the binary. `--fast` runs those that take a moment; without it all of them run, which takes a while.
What a case is and when it fails is told in harness.py.
"""

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness
import inserts
import queries
import asked

CASES_MIN = 300


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="only those that take a moment")
    parser.add_argument("--only", default="", help="only those whose names have this part")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--ceiling-mib", type=int, default=harness.CEILING_BYTES >> 20)
    arguments = parser.parse_args()
    corpus = harness.Corpus()
    for module in (asked, inserts, queries):
        module.cases(corpus)
    cases = [case for case in corpus.cases if arguments.only in case.name and (case.fast or not arguments.fast)]
    if arguments.list:
        for case in cases:
            print(case.name)
        print(f"{len(cases)} cases", file=sys.stderr)
        return 0
    assert len(corpus.cases) >= CASES_MIN, "the corpus has shrunk"
    binary = os.environ.get("LOGINSON_BIN")
    if not binary or not os.path.exists(binary):
        print("LOGINSON_BIN names no binary; build it first", file=sys.stderr)
        return 2
    begun = time.time()
    distinct = queries.DISTINCT_FAST if arguments.fast else queries.DISTINCT
    failed = harness.run(binary, cases, prepare=queries.prepare(distinct), ceiling=arguments.ceiling_mib << 20)
    for name, reason in failed:
        print(f"FAILED {name}: {reason[:500]}")
    print(f"{len(cases)} cases in {time.time() - begun:.0f} s, {len(failed)} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
