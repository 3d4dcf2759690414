#!/usr/bin/env python3
"""Asks a running Loginson by the official clients of Elasticsearch and OpenSearch.

    LOGINSON_BIN=target/release/loginson scripts/test-elastic.py [--clients DIR]

Installs the Python clients `elasticsearch` 8 and 9 and `opensearch-py`, and the Node client `@elastic/elasticsearch`,
once into DIR (default: ~/.cache/loginson/elastic-clients). Each client sends lines by its own bulk helper, searches,
aggregates, scrolls, reads in pages behind a point in time, and compares with what Python computes of the same lines.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv

PATIENCE_S = 300
NOON_MS = 1_769_860_800_000
LINES = 1_500
CLIENTS = {
    "elasticsearch-8": ["elasticsearch>=8,<9"],
    "elasticsearch-9": ["elasticsearch>=9,<10"],
    "opensearch": ["opensearch-py"],
}


def documents(source):
    """Lines with known numbers; `source` tells the lines of one client from those of others."""
    for n in range(LINES):
        yield {
            "@timestamp": NOON_MS + n * 1_000,
            "message": f"Request {n} from 10.0.{n % 7}.1 to /shop/item{n % 11} took {n % 97} ms",
            "source": source,
            "level": ["info", "warn", "error"][n % 3],
            "took": n % 97,
            "user": {"name": f"user{n % 13}"},
        }


# What one client does; run by the Python of its own environment.
ASKS = r'''
import json, sys, importlib, itertools
name, address, lines, source = sys.argv[1], sys.argv[2], [json.loads(l) for l in sys.stdin], sys.argv[3]
is_open = name == "opensearch"
module = importlib.import_module("opensearchpy" if is_open else "elasticsearch")
helpers = module.helpers if hasattr(module, "helpers") else importlib.import_module(module.__name__ + ".helpers")
if is_open:
    helpers = importlib.import_module("opensearchpy.helpers")
    client = module.OpenSearch([address], timeout=300)
else:
    helpers = importlib.import_module("elasticsearch.helpers")
    client = module.Elasticsearch(address, request_timeout=300)
passed, faults = 0, []

def check(what, expected, found):
    global passed
    if expected == found:
        passed += 1
    else:
        faults.append(f"{what}: expected {str(expected)[:300]}, found {str(found)[:300]}")

def search(**body):
    return client.search(index="logs-*", body=body) if is_open else client.search(index="logs-*", **body)

mine = {"term": {"source.keyword": source}}
only = lambda *more: {"bool": {"filter": [mine, *more]}}
count = lambda test: sum(1 for line in lines if test(line))

check("info", True, int(client.info()["version"]["number"].split(".")[0]) >= 8)
check("ping", True, client.ping())
actions = ({"_op_type": "create", "_index": "logs-json", "_source": line} for line in lines)
check("bulk", (len(lines), []), helpers.bulk(client, actions))
client.indices.refresh(index="logs-json")
check("health", "green", client.cluster.health()["status"])
found = client.count(index="logs-*", body={"query": mine}) if is_open else client.count(index="logs-*", query=mine)
check("count", len(lines), found["count"])
found = search(query=only({"term": {"level": "error"}}), size=3, sort=[{"took": "desc"}, {"@timestamp": "asc"}], track_total_hits=True)
check("total", count(lambda l: l["level"] == "error"), found["hits"]["total"]["value"])
errors = sorted((l for l in lines if l["level"] == "error"), key=lambda l: (-l["took"], l["@timestamp"]))
check("hits", 3, len(found["hits"]["hits"]))
for expected, hit in zip(errors, found["hits"]["hits"]):
    check("source", expected, {name: hit["_source"].get(name) for name in expected})
check("match", count(lambda l: " 77 " in l["message"]), search(query=only({"match": {"message": "77"}}), size=0)["hits"]["total"]["value"])
check("phrase", count(lambda l: "from 10.0.3.1 to" in l["message"]), search(query=only({"match_phrase": {"message": "FROM 10.0.3.1 to"}}), size=0)["hits"]["total"]["value"])
check("query_string", count(lambda l: l["level"] != "info" and 10 <= l["took"] < 20),
      search(query=only({"query_string": {"query": "level:(error OR warn) AND took:[10 TO 20}"}}), size=0)["hits"]["total"]["value"])
check("wildcard", count(lambda l: l["user"]["name"].startswith("user1")), search(query=only({"wildcard": {"user.name": "user1*"}}), size=0)["hits"]["total"]["value"])
check("regexp", count(lambda l: l["user"]["name"] in ("user2", "user3")), search(query=only({"regexp": {"user.name": "user[23]"}}), size=0)["hits"]["total"]["value"])
check("range", count(lambda l: l["took"] >= 90), search(query=only({"range": {"took": {"gte": 90}}}), size=0)["hits"]["total"]["value"])
check("should", count(lambda l: l["took"] == 5 or l["level"] == "warn"),
      search(query=only({"bool": {"should": [{"term": {"took": 5}}, {"term": {"level": "warn"}}]}}), size=0)["hits"]["total"]["value"])

aggs = {
    "levels": {"terms": {"field": "level"}, "aggs": {"mean": {"avg": {"field": "took"}}, "users": {"cardinality": {"field": "user.name"}}}},
    "minutes": {"date_histogram": {"field": "@timestamp", "fixed_interval": "5m"}, "aggs": {"most": {"max": {"field": "took"}}}},
    "took": {"stats": {"field": "took"}},
    "steps": {"histogram": {"field": "took", "interval": 20}},
    "slow": {"filter": {"range": {"took": {"gte": 90}}}},
}
found = search(query=only(), size=0, aggs=aggs)["aggregations"]
check("levels", 3, len(found["levels"]["buckets"]))
for bucket in found["levels"]["buckets"]:
    took = [l["took"] for l in lines if l["level"] == bucket["key"]]
    check("terms", (len(took), round(sum(took) / len(took), 6), 13), (bucket["doc_count"], round(bucket["mean"]["value"], 6), bucket["users"]["value"]))
check("minutes", len({l["@timestamp"] // 300_000 for l in lines}), len(found["minutes"]["buckets"]))
for bucket in found["minutes"]["buckets"]:
    took = [l["took"] for l in lines if l["@timestamp"] // 300_000 * 300_000 == bucket["key"]]
    check("date_histogram", (len(took), float(max(took))), (bucket["doc_count"], bucket["most"]["value"]))
took = [l["took"] for l in lines]
check("stats", (len(took), 0.0, 96.0, float(sum(took))), tuple(found["took"][part] for part in ("count", "min", "max", "sum")))
check("histogram", [count(lambda l: step <= l["took"] < step + 20) for step in range(0, 100, 20)], [b["doc_count"] for b in found["steps"]["buckets"]])
check("filter", count(lambda l: l["took"] >= 90), found["slow"]["doc_count"])

scanned = [hit["_source"]["@timestamp"] for hit in helpers.scan(client, index="logs-*", query={"query": mine}, size=400)]
check("scan", sorted(l["@timestamp"] for l in lines), sorted(scanned))
scanned = [hit["_source"]["took"] for hit in helpers.scan(client, index="logs-*", query={"query": mine, "sort": [{"took": "asc"}]}, size=400, preserve_order=True)]
check("scan in order", sorted(took), scanned)

if is_open:
    pit = client.create_pit(index="logs-*", params={"keep_alive": "1m"})["pit_id"]
else:
    pit = client.open_point_in_time(index="logs-*", keep_alive="1m")["id"]
pages, after = [], None
while True:
    body = {"size": 500, "query": mine, "sort": [{"level": "asc"}, {"@timestamp": "desc"}], "pit": {"id": pit, "keep_alive": "1m"}, "track_total_hits": False}
    if after:
        body["search_after"] = after
    hits = (client.search(body=body) if is_open else client.search(**body))["hits"]["hits"]
    if not hits:
        break
    pages += [(hit["_source"]["level"], hit["_source"]["@timestamp"]) for hit in hits]
    after = hits[-1]["sort"]
check("pages", sorted(((l["level"], l["@timestamp"]) for l in lines), key=lambda p: (p[0], -p[1])), pages)
if is_open:
    client.delete_pit(body={"pit_id": [pit]})
else:
    check("close", True, client.close_point_in_time(id=pit)["succeeded"])

searches = [{"index": "logs-*"}, {"query": mine, "size": 0}, {"index": "logs-*"}, {"query": {"nonsense": {}}}]
found = client.msearch(body=searches) if is_open else client.msearch(searches=searches)
check("msearch", [200, 400], [one["status"] for one in found["responses"]])
check("msearch total", len(lines), found["responses"][0]["hits"]["total"]["value"])
caps = client.field_caps(index="logs-*", params={"fields": "took,message"}) if is_open else client.field_caps(index="logs-*", fields="took,message")
check("field_caps", {"took": ["long"], "message": ["text"]}, {name: list(kinds) for name, kinds in caps["fields"].items()})
check("mapping", "long", client.indices.get_mapping(index="logs-json")["logs-json"]["mappings"]["properties"]["took"]["type"])
check("indices", True, "logs-json" in str(client.cat.indices(format="json")))
check("exists", (True, False), (bool(client.indices.exists(index="logs-json")), bool(client.indices.exists(index="none"))))
if not is_open:
    started = client.async_search.submit(index="logs-*", query=mine, size=1, wait_for_completion_timeout="0ms", keep_on_completion=True)
    done = client.async_search.get(id=started["id"], wait_for_completion_timeout="200s")
    check("async", (False, len(lines)), (done["is_running"], done["response"]["hits"]["total"]["value"]))
    client.async_search.delete(id=started["id"])
    check("resolve", ["logs-json"], [i["name"] for i in client.indices.resolve_index(name="logs-json")["indices"]])
hit = search(query=mine, size=1)["hits"]["hits"][0]
check("get", hit["_source"], client.get(index=hit["_index"], id=hit["_id"])["_source"])
try:
    search(query={"fuzzy": {"a": "b"}})
    check("refused", "an error", "an answer")
except Exception as error:
    check("refused", True, "parsing_exception" in str(error))
print(json.dumps({"passed": passed, "faults": faults}))
'''

NODE = r'''
const { Client } = require('@elastic/elasticsearch');
const [address, source] = process.argv.slice(1);
const lines = require('fs').readFileSync(0, 'utf8').trim().split('\n').map(JSON.parse);
const client = new Client({ node: address, requestTimeout: 300000 });
let passed = 0; const faults = [];
const check = (what, expected, found) => {
  JSON.stringify(expected) === JSON.stringify(found) ? passed++ : faults.push(`${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`);
};
(async () => {
  const query = { term: { 'source.keyword': source } };
  const done = await client.helpers.bulk({ datasource: lines, onDocument: () => ({ create: { _index: 'logs-json' } }) });
  check('bulk', [lines.length, 0], [done.successful, done.failed]);
  check('count', lines.length, (await client.count({ index: 'logs-*', query })).count);
  const all = [];
  for await (const document of client.helpers.scrollDocuments({ index: 'logs-*', query, size: 400 })) all.push(document.took);
  check('scroll', lines.map((line) => line.took).sort((a, b) => a - b), all.sort((a, b) => a - b));
  const found = await client.search({ index: 'logs-*', query, size: 0, aggs: { levels: { terms: { field: 'level' }, aggs: { mean: { avg: { field: 'took' } } } } } });
  check('levels', 3, found.aggregations.levels.buckets.length);
  for (const bucket of found.aggregations.levels.buckets) {
    const took = lines.filter((line) => line.level === bucket.key).map((line) => line.took);
    check('terms', [took.length, (took.reduce((a, b) => a + b) / took.length).toFixed(6)], [bucket.doc_count, bucket.mean.value.toFixed(6)]);
  }
  const several = client.helpers.msearch();
  const one = await several.search({ index: 'logs-*' }, { query, size: 1 });
  check('msearch', lines.length, one.body.hits.total.value);
  several.stop();
  console.log(JSON.stringify({ passed, faults }));
})().catch((error) => { console.log(JSON.stringify({ passed, faults: [...faults, String(error.stack)] })); });
'''


def serve(binary, directory):
    """A server on a free port, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    command = [binary, "serve", "--data-dir", directory, "--http-listen", address]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/ready").close()
            return server, f"http://{address}/elastic"
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                sys.exit(f"the server did not start: {server.stderr.read().decode()}")
            time.sleep(0.1)


def python_of(name, packages, directory):
    """The Python of an environment with a client; made once."""
    home = directory / name
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([home / "bin" / "pip", "-q", "install", *packages], check=True)
    return python


def main():
    parser = argparse.ArgumentParser()
    cache = pathlib.Path.home() / ".cache" / "loginson" / "elastic-clients"
    parser.add_argument("--clients", type=pathlib.Path, default=cache)
    parser.add_argument("--only", choices=[*CLIENTS, "node"])
    options = parser.parse_args()
    options.clients.mkdir(parents=True, exist_ok=True)
    faults = 0
    with tempfile.TemporaryDirectory() as directory:
        server, address = serve(os.environ["LOGINSON_BIN"], f"{directory}/data")
        try:
            for name in [*CLIENTS, "node"]:
                if options.only and name != options.only:
                    continue
                lines = "\n".join(json.dumps(line) for line in documents(name)) + "\n"
                if name == "node":
                    home = options.clients / "node"
                    if not (home / "node_modules").exists():
                        home.mkdir(exist_ok=True)
                        subprocess.run(["npm", "--prefix", home, "install", "--silent", "@elastic/elasticsearch@8"], check=True)
                    command = ["node", "-e", NODE, address, name]
                    ran = subprocess.run(command, input=lines, text=True, capture_output=True, cwd=home)
                else:
                    python = python_of(name, CLIENTS[name], options.clients)
                    command = [python, "-W", "ignore", "-c", ASKS, name, address, name]
                    ran = subprocess.run(command, input=lines, text=True, capture_output=True)
                try:
                    found = json.loads(ran.stdout.strip().splitlines()[-1])
                except (IndexError, ValueError):
                    found = {"passed": 0, "faults": [ran.stderr[:1500] + ran.stderr[-1500:]]}
                if not found["passed"] and not found["faults"]:
                    found["faults"].append("nothing was checked")
                for fault in found["faults"]:
                    print(f"FAILED: {name}: {fault}")
                faults += len(found["faults"])
                print(f"{name}: {found['passed']} checks passed, {len(found['faults'])} failed")
        finally:
            server.terminate()
            server.wait()
    sys.exit(1 if faults else 0)


main()
