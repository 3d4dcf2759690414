#!/usr/bin/env python3
"""Writes the index of errors, docs/errors.md: `scripts/errors.py`; `--check` finds rows that the code no longer says.

A message of Loginson says what is wrong, then after a semicolon what to do. This script finds such texts in the code,
without its tests, and lists them with `…` for what varies. `--check` is a part of `make test`: a message that changed has
to be written anew by this script. New messages do not fail it.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "docs/errors.md"
# The verbs with which a remedy begins.
REMEDIES = (
    "ask", "check", "cancel", "choose", "delete", "end", "free", "give", "install", "leave", "look", "lower", "make", "move",
    "name", "put", "raise", "remove", "restart", "restore", "run", "see", "set", "start", "stop", "try", "upgrade", "use", "wait",
    "write",
)
# Texts of a remedy alone, and texts that are no errors.
SHORT_MAX = 40
# Where errors come from, by crate.
PARTS = {
    "The data directory and the disk": ("store", "segment", "platform", "record"),
    "Queries": ("query", "logql", "elastic", "text"),
    "Calls of the API, and access": ("api",),
    "Sources and collectors": ("collector",),
    "The node: backups, clusters, results, tables": ("node", "cluster"),
    "Commands and settings": ("loginson",),
    "Alerts": ("alerts",),
    "Sinks": ("sinks",),
    "Programs": ("programs", "analysis"),
}
HEAD = """# Errors

Every message says what is wrong and what to do. This page lists those that name a remedy, for people who search for
a text they saw; `…` stands for names and numbers. `scripts/errors.py` writes it from the code.

| exit code of a command | meaning |
|---|---|
| 0 | it did what was asked |
| 1 | it did not, or what it examined is not well (`doctor`, `status`, `verify`, `check-config`); the last line says why |
| 2 | its arguments are wrong |

| status of HTTP | meaning |
|---|---|
| 400 | the request or its query is wrong: the text says where. Sending it again changes nothing |
| 401, 403 | nobody said who they are, or their role does not cover the call ([access.md](access.md)); 403 also for unknown names of hosts |
| 404 | there is no such call or thing; for senders, the right path is named |
| 408 | the body came too slowly; whole lines that came are kept |
| 409 | it conflicts with something that is there |
| 413, 415 | too large; or a form or compression that is not taken |
| 429 | too much of it runs or waits: try again after `Retry-After` |
| 500 | a bug, or damage of a file: the server's log says more |
| 501 | it is not there in this shape, such as a cluster: the text says what to do instead |
| 502 | another node, a store, a directory or a provider of logins did not do its part |
| 503 | the server starts, stops, or a budget is used up: try again after `Retry-After` |
| 507 | the disk is full; the text says how many lines are kept |
"""


def texts(crate):
    """Literals of a crate, with lines joined, without those of its tests."""
    for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
        if "tests" in file.parts or file.name == "tests.rs":
            continue
        code = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
        code = re.sub(r"\\\n\s*", "", "\n".join(line for line in code.split("\n") if not line.lstrip().startswith("//")))
        yield from re.findall(r'"((?:[^"\\\n]|\\.)*)"', code)


def shown(text):
    """A text as a cell of a table: `…` for what is filled in."""
    text = text.replace("{{", "\1").replace("}}", "\2")
    text = re.sub(r"\{[^{}]*\}", "…", text).replace("\1", "{").replace("\2", "}")
    return re.sub(r"\\(.)", r"\1", text).replace("|", "\\|").strip()


def found():
    """{part: [(what is wrong, what to do)]}."""
    index = {}
    for part, crates in PARTS.items():
        rows = {}
        for crate in crates:
            for text in texts(crate):
                whole = shown(text)
                split = re.search(rf"; (?=(?:{'|'.join(REMEDIES)})\b)", whole)
                if split and len(whole) >= SHORT_MAX and split.start() >= 8 and "<" not in whole:
                    rows.setdefault(whole[: split.start()], whole[split.end() :])
        index[part] = sorted(rows.items(), key=lambda row: re.sub(r"^[^a-zA-Z]*", "", row[0]).lower())
    return index


def code(text):
    """In backquotes; a text with backquotes has two."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def page(index):
    lines = [HEAD]
    for part, rows in index.items():
        lines += [f"## {part}", "", "| what is wrong | what to do |", "|---|---|"]
        lines += [f"| {code(wrong)} | {remedy} |" for wrong, remedy in rows]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    index = found()
    if sys.argv[1:] != ["--check"]:
        PLACE.write_text(page(index))
        return
    known = {f"| {code(wrong)} | {remedy} |" for rows in index.values() for wrong, remedy in rows}
    listed = [line for line in PLACE.read_text().partition("\n## ")[2].split("\n") if line.startswith("| `")]
    gone = [line for line in listed if line not in known]
    for line in gone:
        print(f"docs/errors.md: the code does not say this any more; run scripts/errors.py: {line}")
    if not PLACE.read_text().startswith(HEAD):
        gone.append("head")
        print("docs/errors.md: its head differs from scripts/errors.py")
    print(f"{len(listed) - len(gone)} passed, {len(gone)} failed")
    sys.exit(1 if gone else 0)


if __name__ == "__main__":
    main()
