"""Reads exported Parquet files with DuckDB, pandas and pyarrow, and compares them with what was sent.

Called by scripts/test-parquet.sh with the ready file of an empty server.
"""

import json
import sys
import tempfile
import urllib.parse
import urllib.request

import duckdb
import pandas
import pyarrow
import pyarrow.parquet

with open(sys.argv[1]) as ready:
    SERVER = f"http://{json.load(ready)['http']}"


def post(path, body):
    with urllib.request.urlopen(urllib.request.Request(SERVER + path, data=body)) as answer:
        return json.load(answer)


def export(directory, name, **parameters):
    address = f"{SERVER}/api/v1/export?{urllib.parse.urlencode(parameters)}"
    file = f"{directory}/{name}.parquet"
    urllib.request.urlretrieve(address, file)
    return file


def sent_lines():
    """Syslog and JSON lines, awkward bytes, keys that come late, names alike but for case, and more names than columns."""
    lines = []
    for i in range(120_000):
        if i % 2 == 0:
            lines.append(b"<%d>1 2026-01-31T12:%02d:%02d.%06dZ web%d app%d %d - - message %d" % (i % 100, i // 60 % 60, i % 60, i, i % 9, i % 4, i, i))
        else:
            key = "late" if i > 110_000 else "early"
            row = {"n": i, "Host": "upper", "host": "lower", "": "no name", "a": {"b": i % 7}, key: "v" * (i % 800)}
            lines.append(json.dumps(row).encode())
    lines += [b"", b"nul \0 inside", b"not utf-8: \xff\xfe", b"x" * 3_000_000]
    lines += [json.dumps({f"key{k}": "v" for k in range(j * 500, j * 500 + 500)}).encode() for j in range(3)]
    return lines


def check(directory):
    lines = sent_lines()
    for at in range(0, len(lines), 20_000):
        post("/insert/lines?file=test", b"\n".join(lines[at : at + 20_000]) + b"\n")
    file = export(directory, "all", format="parquet", include="_line,_line_id", query="*")

    table = pyarrow.parquet.read_table(file)
    assert table.num_rows == len(lines), table.num_rows
    assert pyarrow.parquet.ParquetFile(file).metadata.num_row_groups > 1
    assert table.schema.field("_time").type == pyarrow.timestamp("ns", "UTC")
    assert table.schema.field("_received").type == pyarrow.timestamp("ns", "UTC")
    assert table.schema.field("_line").type == pyarrow.binary()
    assert table.schema.field("hostname").type == pyarrow.string()
    assert sorted(table.column("_line").to_pylist()) == sorted(lines), "byte for byte"
    assert len(set(table.column("_line_id").to_pylist())) == len(lines)
    late = sum(b'"late"' in line for line in lines)
    assert table.num_rows - table.column("late").null_count == late
    more = [json.loads(text) for text in table.column("_more").to_pylist() if text]
    kept = sum(len(row) for row in more) + sum(name.startswith("key") for name in table.column_names)
    assert more and kept == 1500, kept

    frame = pandas.read_parquet(file)
    assert len(frame) == len(lines)
    assert str(frame["_time"].dtype) == "datetime64[ns, UTC]"
    web1 = frame[frame["hostname"] == "web1"]
    assert len(web1) == sum(b" web1 " in line for line in lines)
    assert web1["_time"].min() == pandas.Timestamp("2026-01-31T12:00:10.000010Z"), web1["_time"].min()

    ask = lambda sql: duckdb.sql(sql.replace("FILE", f"'{file}'")).fetchall()
    assert ask("SELECT count(*), count(late), max(CAST(n AS INT)) FROM FILE") == [(len(lines), late, 119_999)]
    early = sum(b"T12:00:0" in line for line in lines)
    # Lines without a time have that of the line before them.
    assert ask("SELECT count(*) FROM FILE WHERE _time < '2026-01-31 12:00:10Z' AND _msg LIKE 'message%'") == [(early,)]
    by_app = ask("SELECT app_name, count(*) FROM FILE WHERE app_name LIKE 'app%' GROUP BY 1 ORDER BY 1")
    assert by_app == [("app0", 30_000), ("app2", 30_000)], by_app
    assert ask("SELECT count(*) FROM FILE WHERE _msg = 'message 7776'") == [(1,)]

    made = export(directory, "made", format="parquet", query="message | stats by (_time:1m, app_name) count() n")
    rows = duckdb.sql(f"SELECT sum(CAST(n AS INT)), count(DISTINCT _time) FROM '{made}'").fetchall()
    assert rows == [(60_000, 60)], rows
    renamed = export(directory, "renamed", format="parquet", query="message 7776 | fields app_name | rename app_name as _time")
    assert pyarrow.parquet.read_table(renamed).column("_more").to_pylist() == ['{"_time":"app0"}']
    nothing = export(directory, "nothing", format="parquet", query="nothinglikethis")
    assert pandas.read_parquet(nothing).empty and duckdb.sql(f"SELECT * FROM '{nothing}'").fetchall() == []


with tempfile.TemporaryDirectory() as directory:
    check(directory)
print(f"Parquet is read by DuckDB {duckdb.__version__}, pandas {pandas.__version__}, pyarrow {pyarrow.__version__}")
