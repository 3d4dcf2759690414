#!/usr/bin/env python3
"""Sends lines by the senders that people use, kills the server once in between, and counts the lines at the other end.

    LOGINSON_BIN=target/release/loginson scripts/test-senders.py [--lines 100000] [SENDER…]

The senders are those of the files senders_*.py; what is common to them is in senderlib.py. What became of the lines is
written into docs/ways.md, by ways.py. Senders that cannot be installed here are named at the end, and fail the run.
"""

import argparse
import os
import sys

import senders_answered
import senders_http
import senders_syslog
from senderlib import send

SENDERS = {**senders_answered.SENDERS, **senders_http.SENDERS, **senders_syslog.SENDERS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("senders", nargs="*", default=list(SENDERS), metavar="SENDER", help=", ".join(SENDERS))
    parser.add_argument("--lines", type=int, default=100_000)
    options = parser.parse_args()
    binary = os.environ.get("LOGINSON_BIN") or sys.exit("test-senders: LOGINSON_BIN names no binary to test")
    results = [send(name, SENDERS[name], binary, options.lines) for name in options.senders]
    if not all(results):
        sys.exit("some lines are missing, or wrong")
    print("All lines of all senders that wait for answers are there.")


if __name__ == "__main__":
    main()
