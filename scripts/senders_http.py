"""Senders that post to a path: Splunk's, Datadog's, Loki's, Elasticsearch's, GELF's, curl, and requests of clouds.

No cloud sends to a test, so its requests are recorded: the body of one that was sent, with our numbers in it, posted until
it is answered with success, as the cloud does.
"""

import subprocess

from senderlib import Way, go, node, python, script

# What scripts of Python begin with: `each` sends every number by 16 threads, each until it succeeds.
PYTHON = """
import base64, gzip, http.client, json, logging, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
way, host, port, lines = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def each(send, step=1, threads=16):
    def until_it_is_sent(begin):
        while True:
            try:
                return send(begin) if step == 1 else send(range(begin, min(lines, begin + step)))
            except Exception as error:
                print(repr(error)[:500], file=sys.stderr)
                time.sleep(0.2)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(until_it_is_sent, range(0, lines, step)))
def line(n):
    return {"n": n, "way": way, "level": "warn", "message": f"line {n} of {way}"}
"""

SPLUNK = PYTHON + """
from splunk_hec_handler import SplunkHecHandler
handler = SplunkHecHandler(host, "any", port=port, proto="http", source=way, endpoint=way.split("-")[-1])
each(lambda n: handler.emit(logging.makeLogRecord({"levelname": "WARN", "msg": line(n)})))
"""

DATADOG = PYTHON + """
from datadog_api_client import ApiClient, Configuration
from datadog_api_client.v2.api.logs_api import LogsApi
from datadog_api_client.v2.model.content_encoding import ContentEncoding
from datadog_api_client.v2.model.http_log import HTTPLog
from datadog_api_client.v2.model.http_log_item import HTTPLogItem
configuration = Configuration(server_index=1, server_variables={"name": f"{host}:{port}", "protocol": "http"})
configuration.api_key["apiKeyAuth"] = "any"
api = LogsApi(ApiClient(configuration))
kind = ContentEncoding(way.split("-")[-1])
def send(numbers):
    items = [HTTPLogItem(ddsource="test", ddtags="env:prod", hostname="web1", service="shop", n=str(n), way=way, status="warn",
                         message=f"line {n} of {way}") for n in numbers]
    api.submit_log(content_encoding=kind, body=HTTPLog(items))
each(send, 500, 4)
"""

LOKI = PYTHON + """
import logging_loki
handler = logging_loki.LokiHandler(url=f"http://{host}:{port}/loki/api/v1/push", tags={"way": way}, version="1")
def send(n):
    record = logging.makeLogRecord({"name": "test", "levelname": "WARNING", "msg": f"n={n} line of {way}"})
    handler.emitter(record, handler.format(record))
each(send)
"""

LOKI_GO = """
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/grafana/loki-client-go/loki"
	"github.com/prometheus/common/model"
)

func main() {
	way, address := os.Args[1], os.Args[2]+":"+os.Args[3]
	lines, _ := strconv.Atoi(os.Args[4])
	config, err := loki.NewDefaultConfig("http://" + address + "/loki/api/v1/push")
	if err != nil {
		panic(err)
	}
	config.BackoffConfig.MaxRetries = 1000
	config.BackoffConfig.MaxBackoff = time.Second
	client, err := loki.New(config)
	if err != nil {
		panic(err)
	}
	labels := model.LabelSet{"way": model.LabelValue(way), "level": "warn"}
	for n := 0; n < lines; n++ {
		if err := client.Handle(labels, time.Now(), fmt.Sprintf("n=%d line of %s", n, way)); err != nil {
			panic(err)
		}
	}
	client.Stop()
}
"""

ELASTIC = PYTHON + """
from elasticsearch import Elasticsearch, helpers
client = Elasticsearch(f"http://{host}:{port}", http_compress=way.endswith("gzip"), request_timeout=30)
def send(numbers):
    helpers.bulk(client, ({"_index": "test", **line(n)} for n in numbers), chunk_size=1000)
each(send, 1000, 4)
"""

ELASTIC_NODE = """
const {Client} = require('@elastic/elasticsearch');
const [way, host, port, lines] = [process.argv[2], process.argv[3], +process.argv[4], +process.argv[5]];
const client = new Client({node: `http://${host}:${port}`, compression: true, maxRetries: 3, requestTimeout: 30000});
(async () => {
  for (let begin = 0; begin < lines; begin += 1000) {
    const operations = [];
    for (let n = begin; n < Math.min(lines, begin + 1000); n++) {
      operations.push({create: {_index: 'test'}}, {n, way, level: 'warn', message: `line ${n} of ${way}`});
    }
    await new Promise((done) => setTimeout(done, 100));
    for (;;) {
      try { if (!(await client.bulk({operations})).errors) break; } catch (error) { console.error(String(error)); }
      await new Promise((done) => setTimeout(done, 200));
    }
  }
})();
"""

# Both modules close the connection without waiting for the answer.
GELF = PYTHON + """
if way.endswith("pygelf"):
    from pygelf import GelfHttpHandler
    handler = GelfHttpHandler(host, port, include_extra_fields=True)
else:
    import graypy
    handler = graypy.GELFHTTPHandler(host, port)
each(lambda n: handler.emit(logging.makeLogRecord({"levelno": 30, "levelname": "WARNING", **{k: v for k, v in line(n).items()
    if k in ("n", "way")}, "msg": f"line {n} of {way}", "name": "test", "pathname": "test.py", "lineno": 1})))
"""

PROMETHEUS = PYTHON + """
from prometheus_remote_writer import RemoteWriter
writer = RemoteWriter(url=f"http://{host}:{port}/api/v1/write")
def send(numbers):
    now = int(time.time() * 1000)
    writer.send([{"metric": {"__name__": "test", "way": way, "n": str(n)}, "values": [n], "timestamps": [now]} for n in numbers])
each(send, 1000, 2)
"""

CURL = """
way=$1 host=$2 port=$3 lines=$4
for begin in $(seq 0 1000 $((lines - 1))); do
  seq "$begin" $((begin + 999)) | awk -v lines="$lines" -v way="$way" \
    '$1 < lines {printf "{\\"n\\":%d,\\"way\\":\\"%s\\",\\"level\\":\\"warn\\",\\"message\\":\\"line %d\\"}\\n", $1, way, $1}' |
    gzip | curl -sS --fail --retry 1000 --retry-delay 1 --retry-all-errors -H 'Content-Encoding: gzip' \
      -H 'Content-Type: application/json' --data-binary @- "http://$host:$port/insert/jsonline" >/dev/null || exit 1
done
"""

RECORDED = PYTHON + """
of_thread = threading.local()
def post(path, body, headers={}):
    connection = getattr(of_thread, "connection", None) or http.client.HTTPConnection(host, port, timeout=30)
    of_thread.connection = None
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise OSError(f"{path}: {answer.status} {text}")
    of_thread.connection = connection
    return text
def base64_of(value):
    return base64.b64encode(value).decode()
def firehose(numbers):
    records = [{"data": base64_of(json.dumps(line(n)).encode())} for n in numbers]
    body = {"requestId": "ed4acda5-034f-9f42-bba1-f29aea6d7d8f", "timestamp": 1769860800000, "records": records}
    post("/insert/firehose", json.dumps(body), {"Content-Type": "application/json", "X-Amz-Firehose-Request-Id": body["requestId"]})
def cloudwatch(numbers):
    events = [{"id": str(n), "timestamp": 1769860800000 + n, "message": f"line {n}"} for n in numbers]
    data = {"messageType": "DATA_MESSAGE", "owner": "123456789012", "logGroup": "shop", "logStream": way, "logEvents": events,
            "subscriptionFilters": ["all"]}
    body = {"requestId": "a", "timestamp": 1769860800000, "records": [{"data": base64_of(gzip.compress(json.dumps(data).encode()))}]}
    post("/insert/firehose", json.dumps(body), {"Content-Type": "application/json", "X-Amz-Firehose-Request-Id": "a"})
def pubsub(n):
    message = {"data": base64_of(json.dumps(line(n)).encode()), "messageId": str(n), "publishTime": "2026-01-31T12:00:00.000Z",
               "attributes": {"logging.googleapis.com/timestamp": "2026-01-31T12:00:00Z"}}
    body = {"message": message, "subscription": "projects/shop/subscriptions/logs"}
    post("/insert/pubsub", json.dumps(body), {"Content-Type": "application/json"})
def eventgrid(numbers):
    events = [{"id": str(n), "topic": "/subscriptions/a", "subject": "blob", "eventType": "Microsoft.Storage.BlobCreated",
               "eventTime": "2026-01-31T12:00:00Z", **line(n), "dataVersion": "", "metadataVersion": "1"} for n in numbers]
    post("/insert/eventgrid", json.dumps(events), {"Content-Type": "application/json", "aeg-event-type": "Notification"})
def logpush(numbers):
    rows = "".join(json.dumps({"EdgeStartTimestamp": "2026-01-31T12:00:00Z", **line(n)}) + "\\n" for n in numbers)
    post("/insert/logpush", gzip.compress(rows.encode()), {"Content-Encoding": "gzip", "Content-Type": "application/json"})
def github(n):
    body = {"action": "opened", "number": n, "repository": {"full_name": "shop/web"}, "sender": {"login": "ada"}, "n": n, "way": way}
    headers = {"X-GitHub-Event": "pull_request", "X-GitHub-Delivery": str(n), "Content-Type": "application/json"}
    post("/insert/github", json.dumps(body), headers)
def logplex(numbers):
    frames = [f"<44>1 2026-01-31T12:00:00.000000+00:00 host {way} web.1 - n={n} line of {way}\\n" for n in numbers]
    body = "".join(f"{len(frame)} {frame}" for frame in frames)
    headers = {"Content-Type": "application/logplex-1", "Logplex-Msg-Count": str(len(frames)), "Logplex-Frame-Id": "a"}
    post("/insert/logplex", body, headers)
def splunk_acks(numbers):
    headers = {"Authorization": "Splunk any", "X-Splunk-Request-Channel": "6e6f6e65-0000-4000-8000-000000000001"}
    events = "".join(json.dumps({"time": 1769860800 + n, "source": way, "event": line(n)}) for n in numbers)
    number = json.loads(post("/services/collector/event", events, headers))["ackId"]
    while not json.loads(post("/services/collector/ack", json.dumps({"acks": [number]}), headers))["acks"][str(number)]:
        time.sleep(0.1)
send = {"recorded-" + name.replace("_", "-"): found for name, found in list(globals().items())}[way]
each(send, 1 if send in (pubsub, github) else 500, 16)
"""

IN_PYTHON = ["{installed}/bin/python", "-"]
UNDER_WAY = "it does not wait for the answer: what was under way at the kill"


def from_python(way, sender, package, version, text, **more):
    return Way(way, sender, "http", python(package, version), script(IN_PYTHON, text), **more)


def recorded(way, sender, **more):
    return Way(way, f"recorded requests, {sender}", "http", lambda: ("", None), script(["python3", "-"], RECORDED), **more)


def curl():
    shown = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    return shown.split()[1], None


SENDERS = {
    "curl-gzip": Way(
        "JSON lines, lines", "curl, JSON lines, gzip", "http", curl, script(["bash", "-s", "--"], CURL),
    ),
    "splunk-event": from_python(
        "Splunk HEC", "splunk-hec-handler of Python, events", "splunk-hec-handler", "1.2.0", SPLUNK,
    ),
    "recorded-splunk-acks": recorded("Splunk HEC", "events with acknowledgement by the indexer"),
    "datadog-gzip": from_python(
        "Datadog", "datadog-api-client of Python, gzip", "datadog-api-client", "2.62.0", DATADOG,
    ),
    "datadog-deflate": from_python(
        "Datadog", "datadog-api-client of Python, deflate", "datadog-api-client", "2.62.0", DATADOG,
    ),
    "loki-python": from_python(
        "Grafana Loki", "python-logging-loki, JSON", "python-logging-loki", "0.3.1", LOKI, number="_msg",
    ),
    "loki-go": Way(
        "Grafana Loki", "loki-client-go, protobuf and snappy", "http",
        go("github.com/grafana/loki-client-go", "v0.0.0-20240913122146-e119d400c3a5", LOKI_GO),
        script(["{installed}/sender"], ""), number="_msg",
    ),
    "elastic-python": from_python(
        "Elasticsearch, _bulk", "elasticsearch of Python", "elasticsearch", "8.19.2", ELASTIC,
    ),
    "elastic-python-gzip": from_python(
        "Elasticsearch, _bulk", "elasticsearch of Python, gzip", "elasticsearch", "8.19.2", ELASTIC,
    ),
    "elastic-node": Way(
        "Elasticsearch, _bulk", "@elastic/elasticsearch of Node, gzip", "http", node("@elastic/elasticsearch", "8.19.1"),
        script(["node", "-"], ELASTIC_NODE),
    ),
    "gelf-http-pygelf": from_python(
        "GELF over HTTP", "pygelf", "pygelf", "0.4.3", GELF, filter='_way:="{way}"', number="_n",
        is_answered=False, remark=UNDER_WAY,
    ),
    "gelf-http-graypy": from_python(
        "GELF over HTTP", "graypy", "graypy", "2.1.0", GELF, filter='_way:="{way}"', number="_n",
        is_answered=False, remark=UNDER_WAY,
    ),
    "prometheus-python": from_python(
        "Prometheus remote write", "prometheus-remote-writer of Python", "prometheus-remote-writer", "1.1.3", PROMETHEUS,
        level=None,
    ),
    "recorded-firehose": recorded("Amazon Data Firehose", "lines of JSON"),
    "recorded-cloudwatch": recorded(
        "Amazon Data Firehose", "a subscription of CloudWatch", filter='logStream:="{way}"', number="_msg", level=None,
    ),
    "recorded-pubsub": recorded("Google Pub/Sub", "pushes"),
    "recorded-eventgrid": recorded("Azure Event Grid", "notifications"),
    "recorded-logpush": recorded("Cloudflare Logpush", "files of lines, gzip"),
    "recorded-github": recorded("GitHub webhooks", "pull requests", level=None),
    "recorded-logplex": recorded("Heroku Logplex", "messages behind their lengths", filter='app_name:="{way}"', number="_msg"),
}
