#!/usr/bin/env python3
"""Asks `loginson-sql` by clients of PostgreSQL, and compares what goes to Loginson with what DataFusion computes itself.

    LOGINSON_BIN=target/release/loginson LOGINSON_SQL_BIN=sql/target/release/loginson-sql scripts/test-sql.py

Two servers of SQL stand in front of one Loginson: one lets Loginson filter and aggregate, the other fetches all rows
(`--no-pushdown`). Random statements have to give the same rows on both. Then psql, psycopg, pandas, SQLAlchemy and the
JDBC driver ask what people, DBeaver and Metabase ask. Installs the Python packages and the driver once into DIR (--clients,
default: ~/.cache/loginson/sql-clients); psql and Java are left out where they are missing. `--seed` repeats a run.
"""

import argparse
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
import venv

PATIENCE_S = 300
PACKAGES = ["psycopg[binary]>=3.2,<4", "pandas>=2", "sqlalchemy>=2"]
DRIVER = "https://repo1.maven.org/maven2/org/postgresql/postgresql/42.7.7/postgresql-42.7.7.jar"
NOON_NS = 1_769_860_800 * 10**9
LINES = 4_000
# Older than the lines that the columns are found by, so that columns of numbers have values that are none.
ODD_LINES = 500
TEXTS = ["a", "ab", "abc", "Abc", "aB", "a%b", "a_b", 'q"x', "back\\slash", "é", "É", "line\nbreak", "10", "007", "9", "o'brien", "*", "a*b", "a b", "#", "b"]
ODD_NUMBERS = ["-", "007", "1e3", "10KB", "+5", "0x1f", "1_000", "1.2.3.4", " 7", "-0", "5m"]

passed, faults = 0, []


def check(what, expected, found):
    global passed
    if expected == found:
        passed += 1
    else:
        faults.append(f"{what}: expected {str(expected)[:400]}, found {str(found)[:400]}")


def lines(draw):
    """Rows with texts that need quotes, values that are missing, and numbers that are none."""
    for n in range(LINES):
        at = NOON_NS + n * 2_500_000_000 + draw.randrange(2_000_000_000)
        odd = n < ODD_LINES
        row = {"_time": stamp(at), "_msg": f"line {n}", "id": str(n), "k": f"k{draw.randrange(4)}"}
        values = {
            "s": draw.choice(TEXTS),
            "t": draw.choice(["", "x", "y", "a"]),
            "n": draw.choice(ODD_NUMBERS) if odd and draw.random() < 0.5 else str(draw.randrange(-50, 500)),
            "x": draw.choice(ODD_NUMBERS) if odd and draw.random() < 0.5 else draw.choice(["1.5", "2.50", "-0.25", "3", "100.125", "0.0"]),
            "big": str(draw.randrange(10**12)),
            "Odd Name": draw.choice(["u", "v"]),
        }
        row.update({name: value for name, value in values.items() if draw.random() < 0.85})
        yield row


def stamp(nanos):
    seconds, rest = divmod(nanos, 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09}Z"


# Random statements.


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def atom(draw):
    text = literal(draw.choice(TEXTS + ["", "zzz"]))
    number = draw.choice([-51, -1, 0, 5, 7, 100, 250, 499, 1000])
    comparison = draw.choice(["=", "<>", "<", "<=", ">", ">="])
    pattern = literal("".join(draw.choice(["a", "b", "A", "%", "_", "é", "q", '"', "(", "."]) for _ in range(draw.randrange(4))))
    at = literal(stamp(NOON_NS + draw.randrange(LINES) * 2_500_000_000))
    column = draw.choice(["s", "t", '"Odd Name"'])
    choices = [
        lambda: f"{column} {comparison} {text}",
        lambda: f"{column} {draw.choice(['LIKE', 'NOT LIKE', 'ILIKE', 'NOT ILIKE'])} {pattern}",
        lambda: f"{column} {draw.choice(['IN', 'NOT IN'])} ({', '.join(literal(t) for t in draw.sample(TEXTS, draw.randrange(1, 7)))})",
        lambda: f"{draw.choice(['s', 't', 'n', 'x', 'k'])} IS {draw.choice(['', 'NOT '])}NULL",
        lambda: f"n {comparison} {number}",
        lambda: f"n {draw.choice(['', 'NOT '])}BETWEEN {number} AND {number + draw.randrange(300)}",
        lambda: f"n {draw.choice(['IN', 'NOT IN'])} ({', '.join(str(draw.randrange(-5, 30)) for _ in range(draw.randrange(1, 8)))})",
        lambda: f"x {comparison} {draw.choice(['1.5', '-0.25', '0.0', '2.5', '1e-7', '3'])}",
        lambda: f"_time {comparison} TIMESTAMPTZ {at}",
        lambda: f"_time >= {at}",
        lambda: f"k = {literal('k' + str(draw.randrange(5)))}",
        lambda: f"n % 7 = {draw.randrange(7)}",
        lambda: "s = t",
        lambda: f"length(s) > {draw.randrange(5)}",
    ]
    return draw.choice(choices)()


def condition(draw, depth=0):
    kind = draw.random()
    if depth > 2 or kind < 0.4:
        return atom(draw)
    if kind < 0.55:
        return f"NOT ({condition(draw, depth + 1)})"
    word = " AND " if kind < 0.8 else " OR "
    return "(" + word.join(condition(draw, depth + 1) for _ in range(draw.randrange(2, 4))) + ")"


def aggregate(draw):
    chosen = draw.choice(["count(*)", "count(s)", "count(n)", "sum(n)", "min(n)", "max(n)", "avg(n)", "sum(x)", "avg(x)", "min(x)",
                          "max(_time)", "min(_time)", "count(_time)", "count(x)", "min(s)", "max(s)", "count(DISTINCT s)", "sum(big)",
                          "sum(CAST(n AS DOUBLE))", "sum(n + 1)", "count(1)"])
    return f"{chosen} FILTER (WHERE {atom(draw)})" if "DISTINCT" not in chosen and draw.random() < 0.2 else chosen


def statement(draw):
    table = draw.choice(["json", "json", "logs"])
    where = f" WHERE {condition(draw)}" if draw.random() < 0.85 else ""
    aggregates = ", ".join(f"{aggregate(draw)} AS a{at}" for at in range(draw.randrange(1, 4)))
    keys = draw.sample(["k", "s", "t", "n", "x", '"Odd Name"', "date_trunc('hour', _time)", "date_trunc('minute', _time)",
                        "date_bin(INTERVAL '7 minutes', _time)",
                        f"date_trunc('{draw.choice(['day', 'week', 'month', 'year'])}', _time)"], draw.randrange(1, 3))
    if len([key for key in keys if "_time" in key]) > 1:
        keys = keys[:1]
    by = ", ".join(str(at + 1) for at in range(len(keys)))
    kind = draw.randrange(8)
    if kind == 0:
        columns = ", ".join(draw.sample(["_time", "_msg", "s", "t", "n", "x", "k", "big", '"Odd Name"'], draw.randrange(1, 5)))
        return f"SELECT {columns} FROM {table}{where}"
    if kind in (1, 2):
        return f"SELECT {aggregates} FROM {table}{where}"
    if kind in (3, 4):
        having = draw.choice(["", "", " HAVING count(*) > 3"])
        return f"SELECT {', '.join(keys)}, {aggregates} FROM {table}{where} GROUP BY {by}{having}"
    if kind == 5:
        order = draw.choice(["", " DESC"])
        return f"SELECT id, _time, s FROM {table}{where} ORDER BY _time{order} LIMIT {draw.randrange(1, 50)}"
    if kind == 6:
        return f"SELECT DISTINCT {', '.join(keys)} FROM {table}{where}"
    return (f"SELECT a.k, a.c, b.m FROM (SELECT k, count(*) c FROM {table}{where} GROUP BY k) a "
            f"LEFT JOIN (SELECT k, max(n) m FROM {table} WHERE {condition(draw)} GROUP BY k) b ON a.k = b.k")


def comparable(rows):
    """Rows without their order, and floats without the last digits, which depend on the order of adding."""
    def value(v):
        if isinstance(v, float):
            return "NaN" if math.isnan(v) else float(f"{v:.10g}") + 0.0
        return v
    return sorted((tuple(value(v) for v in row) for row in rows), key=repr)


class Sql:
    """A `loginson-sql`, and what it logs."""

    def __init__(self, binary, server, *options):
        command = [binary, "--server", server, "--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log, self.marks, self.port, known = [], 0, None, threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                found = re.search(r"may connect to 127\.0\.0\.1:(\d+)", line)
                if found:
                    self.port = int(found.group(1))
                    known.set()
            known.set()

        threading.Thread(target=read, daemon=True).start()
        known.wait(PATIENCE_S)
        if self.port is None:
            sys.exit("test-sql: loginson-sql did not start:\n" + "".join(self.log))

    def connect(self, **options):
        import psycopg
        return psycopg.connect(f"host=127.0.0.1 port={self.port} user=ann dbname=loginson", autocommit=True, **options)

    def asked(self, connection):
        """Queries in LogsQL since the last call. A further query tells that the log was read up to here."""
        self.marks += 1
        mark = f'"s":="mark {self.marks}"'
        connection.execute(f"SELECT count(*) FROM json WHERE s = 'mark {self.marks}'", prepare=False).fetchall()
        end = time.monotonic() + PATIENCE_S
        while not any(mark in line for line in self.log) and time.monotonic() < end:
            time.sleep(0.01)
        queries = [line.split("LogsQL: ", 1)[1].strip() for line in self.log if "LogsQL: " in line and mark not in line]
        self.log.clear()
        return queries

    def stop(self):
        self.process.terminate()
        self.process.wait()


def run(connection, sql):
    try:
        return comparable(connection.execute(sql, prepare=False).fetchall())
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def test_pushdown(pushing, fetching, draw, statements):
    """Random statements have to give the same rows."""
    with pushing.connect() as one, fetching.connect() as other:
        failed, why = 0, ""
        for _ in range(statements):
            sql = statement(draw)
            found, expected = run(one, sql), run(other, sql)
            if isinstance(expected, str):
                failed, why = failed + 1, f"{sql}: {expected}"
                found, expected = isinstance(found, str), True
            check(sql, expected, found)
        check("statements that fail", True, failed < statements / 20)
        if failed:
            print(f"{failed} of {statements} statements failed on both, the last was {why}")
        pushing.asked(one)
        for sql, asked in [
            ("SELECT count(*) FROM json", r'_type:="json" | stats count() as sql_0'),
            ("SELECT count(*) FROM logs WHERE s = 'a'", r'* and "s":="a" | stats count() as sql_0'),
            ("SELECT k, sum(n) FROM logs WHERE n > 5 GROUP BY k",
             '* and ("n":value_type(int64) and "n":>5) | stats by ("k") sum("n") if ("n":value_type(int64)) as sql_0'),
            ("SELECT date_trunc('hour', _time) h, count(*) FROM logs GROUP BY 1 ORDER BY 1", "* | stats by (_time:1h) count() as sql_0"),
            ("SELECT _msg FROM logs ORDER BY _time DESC LIMIT 3", '* | sort by (_time desc) | limit 3 | fields _time, "_msg"'),
            ("SELECT _msg FROM logs LIMIT 3", '* | limit 3 | fields _time, "_msg"'),
        ]:
            one.execute(sql, prepare=False).fetchall()
            check(f"LogsQL of {sql}", [asked], pushing.asked(one))


def test_semantics(pushing, rows):
    """What the documents say about NULL, numbers and times, beside the lines that were sent."""
    with pushing.connect() as connection:
        one = lambda sql, *args: connection.execute(sql, args or None).fetchone()
        check("lines", (len(rows),), one("SELECT count(*) FROM json"))
        empty = sum(not row.get("t") for row in rows)
        check("an empty value is NULL", (empty,), one("SELECT count(*) FROM json WHERE t IS NULL"))
        numbers = [int(row["n"]) for row in rows if re.fullmatch(r"-?[1-9][0-9]*|0", row.get("n", ""))]
        check("numbers", (len(numbers), sum(numbers), min(numbers)), one("SELECT count(n), sum(n), min(n) FROM json"))
        check("a parameter", (sum(row.get("s") == 'q"x' for row in rows),), one("SELECT count(*) FROM json WHERE s = %s", 'q"x'))
        check("no way out of quotes", (0,), one("SELECT count(*) FROM json WHERE s = %s", '" or * or "'))
        first = connection.execute("SELECT _time, id FROM json ORDER BY _time LIMIT 1").fetchone()
        check("a time has a zone", ("0", 0.0), (str(first[1]), first[0].utcoffset().total_seconds()))


def test_read_only(pushing):
    import psycopg
    with pushing.connect() as connection:
        for sql in ["CREATE TABLE t AS SELECT 1", "DROP TABLE logs", "INSERT INTO logs VALUES (1)", "COPY logs TO '/tmp/loginson-sql-copy'",
                    "SELECT 1 AS a INTO t", "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
                    "SET datafusion.runtime.memory_limit = '100G'", "EXPLAIN ANALYZE INSERT INTO logs VALUES (1)"]:
            for prepare in (False, True):
                try:
                    connection.execute(sql, prepare=prepare)
                    check(f"refused: {sql}", "an error", "none")
                except psycopg.Error:
                    check(f"refused: {sql}", True, True)
        check("goes on", (1,), connection.execute("SELECT 1").fetchone())
        with connection.transaction():
            try:
                with connection.transaction():
                    connection.execute("SELECT nothing FROM json")
            except psycopg.Error:
                pass
            check("goes on from a savepoint", (1,), connection.execute("SELECT 1").fetchone())
        shown = "SELECT CAST(date_trunc('day', _time) AS TEXT), CAST(min(_time) OVER () AS TEXT) FROM json ORDER BY _time LIMIT 1"
        with pushing.connect() as other:
            before = other.execute(shown).fetchone()
            for sql in ("SET timezone = 'Asia/Tokyo'", "SET LOCAL TIME ZONE 'Asia/Tokyo'", "SET TIME ZONE 'Asia/Tokyo'", "DISCARD ALL", "DEALLOCATE ALL"):
                connection.execute(sql, prepare=False)
                check(f"{sql} does not reach others", before, other.execute(shown).fetchone())


def test_limits(binary, server):
    import psycopg
    small = Sql(binary, server, "--rows-max", "1000")
    try:
        with small.connect() as connection:
            try:
                connection.execute("SELECT * FROM json").fetchall()
                check("rows_max", "an error", "none")
            except psycopg.Error as e:
                check("rows_max says how to narrow", True, "--rows-max" in str(e) and "_time" in str(e))
            check("counts pass", (LINES,), connection.execute("SELECT count(*) FROM json").fetchone())
    finally:
        small.stop()
    opened = subprocess.run([binary, "--server", server, "--listen", "0.0.0.0:0"], capture_output=True, text=True, timeout=PATIENCE_S)
    check("open to others without a password", (True, True), (opened.returncode != 0, "--password-file" in opened.stderr))
    with tempfile.TemporaryDirectory() as directory:
        secret = pathlib.Path(directory) / "password"
        secret.write_text("s3cret\n")
        guarded = Sql(binary, server, "--password-file", str(secret))
        try:
            check("password", (1,), guarded.connect(password="s3cret").execute("SELECT 1").fetchone())
            for wrong in ("wrong", None):
                try:
                    guarded.connect(password=wrong)
                    check(f"password {wrong}", "an error", "none")
                except psycopg.Error:
                    check(f"password {wrong}", True, True)
        finally:
            guarded.stop()
        if not shutil.which("openssl"):
            print("openssl is not there: TLS is left out")
            return
        key, certificate = (str(pathlib.Path(directory) / name) for name in ("key.pem", "certificate.pem"))
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost"]
        subprocess.run(made, check=True, capture_output=True)
        hidden = Sql(binary, server, "--password-file", str(secret), "--tls-certificate", certificate, "--tls-key", key)
        try:
            with hidden.connect(password="s3cret", sslmode="require") as connection:
                check("TLS", (True, (1,)), (connection.pgconn.ssl_in_use, connection.execute("SELECT 1").fetchone()))
        finally:
            hidden.stop()


def test_psql(port):
    if not shutil.which("psql"):
        print("psql is not there: left out")
        return
    def psql(command):
        asked = subprocess.run(["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "ann", "-d", "loginson", "-A", "-t", "-c", command],
                               capture_output=True, text=True, timeout=PATIENCE_S)
        check(f"psql {command} ends well", (0, ""), (asked.returncode, asked.stderr))
        return asked.stdout
    check("psql counts", f"{LINES}\n", psql("SELECT count(*) FROM json"))
    check("psql \\dt", True, "json" in psql("\\dt"))
    described = psql("\\d json")
    check("psql \\d", True, all(name in described for name in ("_time", "timestamp", "Odd Name", "bigint", "double precision")))
    check("psql \\l", True, "loginson" in psql("\\l"))
    check("psql \\dn", True, "public" in psql("\\dn"))


def test_pandas(port):
    import pandas
    import sqlalchemy
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{port}/loginson")
    frame = pandas.read_sql("SELECT k, count(*) AS c, avg(x) AS m FROM json GROUP BY k ORDER BY k", engine)
    check("pandas", (["k", "c", "m"], LINES), (list(frame.columns), int(frame.c.sum())))
    frame = pandas.read_sql(sqlalchemy.text("SELECT _time, n FROM json WHERE k = :k"), engine, params={"k": "k1"})
    check("pandas knows times", True, "datetime64" in str(frame.dtypes["_time"]))
    looks = sqlalchemy.inspect(engine)
    check("SQLAlchemy's tables", True, {"json", "logs"} <= set(looks.get_table_names()))
    named = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'json'"
    columns = dict(zip(*(pandas.read_sql(named, engine)[name] for name in ("column_name", "data_type"))))
    check("names of columns", ("Int64", "Float64", "Utf8"), (columns["n"], columns["x"], columns["s"]))


# What DBeaver and Metabase ask the driver, and a prepared statement with the parameters that they bind.
JAVA = r'''
import java.sql.*;
import java.util.*;

public class Asks {
    public static void main(String[] args) throws Exception {
        try (Connection c = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + args[0] + "/loginson", "ann", "")) {
            DatabaseMetaData about = c.getMetaData();
            List<String> tables = new ArrayList<>(), columns = new ArrayList<>(), schemas = new ArrayList<>();
            try (ResultSet r = about.getSchemas()) { while (r.next()) schemas.add(r.getString("TABLE_SCHEM")); }
            try (ResultSet r = about.getTables(null, "public", "%", new String[] {"TABLE"})) { while (r.next()) tables.add(r.getString("TABLE_NAME")); }
            try (ResultSet r = about.getColumns(null, "public", "json", "%")) {
                while (r.next()) columns.add(r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME"));
            }
            for (ResultSet r : List.of(about.getPrimaryKeys(null, "public", "json"), about.getImportedKeys(null, "public", "json"),
                    about.getIndexInfo(null, "public", "json", false, true), about.getTablePrivileges(null, "public", "json"))) {
                while (r.next()) throw new Exception("a key");
            }
            System.out.println("schemas " + schemas);
            System.out.println("tables " + tables);
            System.out.println("columns " + columns);
            c.setReadOnly(true);
            c.setAutoCommit(false);
            for (int round = 0; round < 7; round++) {
                try (PreparedStatement s = c.prepareStatement("SELECT \"json\".\"k\" AS \"k\", COUNT(*) AS \"count\" FROM \"public\".\"json\" WHERE \"public\".\"json\".\"n\" > ? AND \"s\" <> ? GROUP BY \"json\".\"k\" ORDER BY \"json\".\"k\" ASC")) {
                    s.setLong(1, 5);
                    s.setString(2, "a");
                    s.setFetchSize(2);
                    StringBuilder rows = new StringBuilder();
                    try (ResultSet r = s.executeQuery()) { while (r.next()) rows.append(r.getString(1)).append('=').append(r.getLong(2)).append(' '); }
                    System.out.println("rows " + rows);
                }
            }
            c.commit();
        }
    }
}
'''


def test_jdbc(port, home, rows):
    if not shutil.which("java") or not shutil.which("javac"):
        print("Java is not there: left out")
        return
    driver = home / DRIVER.rsplit("/", 1)[1]
    if not driver.exists():
        part = driver.with_suffix(".part")
        urllib.request.urlretrieve(DRIVER, part)
        part.rename(driver)
    source = home / "Asks.java"
    source.write_text(JAVA)
    asked = subprocess.run(["java", "-cp", str(driver), str(source), str(port)], capture_output=True, text=True, timeout=PATIENCE_S)
    check("JDBC ends well", (0, ""), (asked.returncode, asked.stderr[-1500:]))
    found = dict(line.split(" ", 1) for line in asked.stdout.splitlines())
    check("JDBC's schemas", True, "public" in found.get("schemas", ""))
    check("JDBC's tables", True, "json" in found.get("tables", "") and "logs" in found.get("tables", ""))
    columns = found.get("columns", "")
    check("JDBC's columns", True, all(one in columns for one in ("_time timestamptz", "n int8", "x float8", "s text", "Odd Name text")))
    counts = {}
    for row in rows:
        if re.fullmatch(r"[1-9][0-9]*", row.get("n", "")) and int(row["n"]) > 5 and row.get("s", "a") != "a":
            counts[row["k"]] = counts.get(row["k"], 0) + 1
    check("JDBC's rows", "".join(f"{k}={counts[k]} " for k in sorted(counts)), found.get("rows"))


def start(binary, directory):
    """A Loginson in a directory, and its address."""
    ready = directory / "ready.json"
    command = [binary, "--data-dir", directory / "data", "--http-listen", "127.0.0.1:0", "--ready-file", ready]
    command += ["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]
    with open(directory / "log", "w") as log:
        server = subprocess.Popen(command, stderr=log)
    begun = time.monotonic()
    while not ready.exists():
        if server.poll() is not None or time.monotonic() - begun > PATIENCE_S:
            sys.exit("test-sql: the server did not start:\n" + (directory / "log").read_text())
        time.sleep(0.05)
    return server, "http://" + json.loads(ready.read_text())["http"]


def inside(home):
    """Runs this script by the Python that has the packages, which is made once."""
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (home / "ready").touch()
    if pathlib.Path(sys.prefix) != home:
        os.execv(python, [str(python), *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--clients", type=pathlib.Path, default=pathlib.Path.home() / ".cache/loginson/sql-clients")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--statements", type=int, default=600)
    options = parser.parse_args()
    binaries = [os.environ.get(name) or sys.exit(f"test-sql: {name} names no binary to test") for name in ("LOGINSON_BIN", "LOGINSON_SQL_BIN")]
    loginson, sql = map(os.path.abspath, binaries)
    inside(options.clients.absolute())
    print(f"seed {options.seed}")
    draw = random.Random(options.seed)
    rows = list(lines(draw))
    with tempfile.TemporaryDirectory() as directory:
        server, address = start(loginson, pathlib.Path(directory))
        running = []
        try:
            body = "".join(json.dumps(row) + "\n" for row in rows).encode()
            urllib.request.urlopen(urllib.request.Request(f"{address}/insert/jsonline", body), timeout=PATIENCE_S).read()
            pushing = Sql(sql, address)
            running.append(pushing)
            fetching = Sql(sql, address, "--no-pushdown")
            running.append(fetching)
            for test in [
                lambda: test_semantics(pushing, rows),
                lambda: test_pushdown(pushing, fetching, draw, options.statements),
                lambda: test_read_only(pushing),
                lambda: test_psql(pushing.port),
                lambda: test_pandas(pushing.port),
                lambda: test_jdbc(pushing.port, options.clients, rows),
                lambda: test_limits(sql, address),
            ]:
                try:
                    test()
                except Exception:
                    faults.append(traceback.format_exc()[-1500:])
        finally:
            for one in running:
                one.stop()
            server.terminate()
            server.wait()
    print(f"{passed} checks passed, {len(faults)} failed")
    for fault in faults[:40]:
        print(f"  {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
