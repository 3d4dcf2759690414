#!/usr/bin/env python3
"""SQLite as a store of the lab: see docs/lab/own-store.md.

A table is a table, a row a row. Texts that are searched by words are in an index of FTS5, which
triggers keep. The lab runs one process of this program for each connection.
"""

import json
import os
import re
import sqlite3
import sys

DESCRIPTION = {
    "abilities": [
        "insert", "insert_many", "read", "update", "scan", "count", "delete", "aggregate",
        "search", "regex",
    ],
    "options": [
        {"name": "synchronous", "default": "full", "help": "full: a commit is on disk; normal"},
    ],
    "durability": [
        {"level": "each", "loses": "nothing", "options": {"synchronous": "full"}},
        {"level": "none", "loses": "all since the last checkpoint",
         "options": {"synchronous": "normal"}},
    ],
}
FILE = "sqlite.db"
TYPES = {"integer": "INTEGER", "text": "TEXT"}


class Store:
    """A connection of the lab, and its table."""

    def __init__(self):
        self.db = sqlite3.connect(FILE, timeout=60, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.create_function("REGEXP", 2, lambda regex, text: bool(re.search(regex, text)),
                                deterministic=True)

    def version(self):
        return {"text": sqlite3.sqlite_version}

    def open(self, schema, options):
        self.table = schema["table"]
        self.key = TYPES[schema["key"]]
        self.columns = schema["columns"]
        self.words = [column["name"] for column in self.columns if column["words"]]
        self.db.execute(f"PRAGMA synchronous={'FULL' if options['synchronous'] == 'full' else 'NORMAL'}")
        return {"done": True}

    def create(self):
        names = ", ".join(self.words)
        indexed = [c["name"] for c in self.columns if c["indexed"] or c["time"]]
        columns = [f"{c['name']} {TYPES[c['kind']]}" for c in self.columns]
        script = [
            f"DROP TABLE IF EXISTS {self.table}",
            f"DROP TABLE IF EXISTS {self.table}_words",
            f"CREATE TABLE {self.table} (id INTEGER PRIMARY KEY, k {self.key} UNIQUE, {', '.join(columns)})",
        ]
        script += [f"CREATE INDEX {self.table}_{name} ON {self.table} ({name})" for name in indexed]
        if self.words:
            new = ", ".join(f"new.{name}" for name in self.words)
            old = ", ".join(f"old.{name}" for name in self.words)
            index = f"{self.table}_words"
            add = f"INSERT INTO {index} (rowid, {names}) VALUES (new.id, {new});"
            remove = f"INSERT INTO {index} ({index}, rowid, {names}) VALUES ('delete', old.id, {old});"
            script += [
                f"CREATE VIRTUAL TABLE {index} USING fts5({names}, content={self.table}, content_rowid=id)",
                f"CREATE TRIGGER {index}_i AFTER INSERT ON {self.table} BEGIN {add} END",
                f"CREATE TRIGGER {index}_d AFTER DELETE ON {self.table} BEGIN {remove} END",
                f"CREATE TRIGGER {index}_u AFTER UPDATE ON {self.table} BEGIN {remove} {add} END",
            ]
        self.write(lambda: [self.db.execute(statement) for statement in script])
        return {"done": True}

    def write(self, work):
        """One transaction, which has the right to write from its beginning."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            work()
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def settle(self, until):
        if until != "visible":
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return {"done": True}

    def size(self):
        files = [FILE, FILE + "-wal"]
        return {"bytes": sum(os.path.getsize(file) for file in files if os.path.exists(file))}

    def insert(self, rows):
        places = ", ".join("?" * (len(self.columns) + 1))
        names = ", ".join(["k"] + [column["name"] for column in self.columns])
        add = f"INSERT INTO {self.table} ({names}) VALUES ({places})"
        self.write(lambda: self.db.executemany(add, rows))
        return {"done": True}

    def rows(self, rest, values):
        names = ", ".join(["k"] + [column["name"] for column in self.columns])
        found = self.db.execute(f"SELECT {names} FROM {self.table} {rest}", values)
        return {"rows": [list(row) for row in found]}

    def read(self, key):
        return self.rows("WHERE k = ?", [key])

    def scan(self, rows_max, **asked):
        return self.rows("WHERE k >= ? ORDER BY k LIMIT ?", [asked["from"], rows_max])

    def update(self, key, changes):
        names = ", ".join(f"{name} = ?" for name, _ in changes)
        cursor = self.db.execute(f"UPDATE {self.table} SET {names} WHERE k = ?",
                                 [value for _, value in changes] + [key])
        return {"done": cursor.rowcount == 1}

    def delete(self, key):
        self.db.execute(f"DELETE FROM {self.table} WHERE k = ?", [key])
        return {"done": True}

    def where(self, conditions, within=None, text=None):
        parts, values = [f"{name} = ?" for name, _ in conditions], [value for _, value in conditions]
        if within:
            parts += [f"{within['column']} >= ?", f"{within['column']} < ?"]
            values += [within["from"], within["to"]]
        if text and text["kind"] == "regex":
            parts.append(f"{text['column']} REGEXP ?")
            values.append(text["value"])
        elif text:
            # Words in a row, in the column; a phrase also has one space between two.
            words = text["value"].replace('"', '""')
            parts.append(f"id IN (SELECT rowid FROM {self.table}_words WHERE {text['column']} MATCH ?)")
            values.append(f'"{words}"')
            if text["kind"] == "phrase":
                parts.append(f"instr({text['column']}, ?) > 0")
                values.append(text["value"])
        return ("WHERE " + " AND ".join(parts) if parts else ""), values

    def one(self, what, where, values):
        return self.db.execute(f"SELECT {what} FROM {self.table} {where}", values).fetchone()

    def count(self, conditions):
        return {"count": self.one("count(*)", *self.where(conditions))[0]}

    def aggregate(self, function, column, conditions, within):
        rows, value = self.one(f"count(*), {function}({column})", *self.where(conditions, within))
        return {"aggregate": {"rows": rows, "value": value}}

    def search(self, text, conditions, time, want):
        where, values = self.where(conditions, time, text)
        if want == "count":
            return {"count": self.one("count(*)", where, values)[0]}
        kind, want = next(iter(want.items()))
        if kind == "latest":
            return self.rows(f"{where} ORDER BY {want['column']} DESC LIMIT {want['rows_max']}", values)
        by = want["column"]
        if kind == "count_over":
            by = f"{by} / {want['step_ms']} * {want['step_ms']}"
        groups = self.db.execute(f"SELECT {by}, count(*) FROM {self.table} {where} GROUP BY 1", values)
        return {"groups": [list(group) for group in groups]}


def main():
    if sys.argv[1] == "describe":
        print(json.dumps(DESCRIPTION))
        return
    store = Store()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(store, request.pop("do"))(**request)
        except sqlite3.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


main()
