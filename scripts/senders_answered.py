"""Senders of Fluent forward, Beats and RELP: protocols with answers."""

import subprocess

from senderlib import Way, go, node, python, rsyslog, script

FLUENT_PYTHON = """
import sys, time
from fluent import sender
way, host, port, lines = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
logger = sender.FluentSender(way, host=host, port=port, bufmax=64 << 20, nanosecond_precision=True)
for n in range(lines):
    logger.emit("test", {"n": n, "way": way, "level": "warn", "message": f"line {n} of {way}", "deep": {"a": [n]}})
    if n % 1000 == 0:
        time.sleep(0.05)
# What is left goes out once the server is there again.
while logger.pendings:
    logger._send(b"")
    time.sleep(0.1)
logger.close()
"""

FLUENT_NODE = """
const {FluentClient} = require('@fluent-org/logger');
const [way, host, port, lines] = [process.argv[2], process.argv[3], +process.argv[4], +process.argv[5]];
const eventMode = {message: 'Message', forward: 'Forward', packed: 'PackedForward', gzip: 'CompressedPackedForward'}[way.split('-')[2]];
const client = new FluentClient(way, {
  eventMode, ack: {ackTimeout: 5000}, flushInterval: 20, eventRetry: {attempts: 100, minDelay: 200, maxDelay: 1000},
  socket: {host, port, reconnect: {minDelay: 100, maxDelay: 500}},
  security: process.argv[6] ? {clientHostname: 'test', sharedKey: process.argv[6]} : undefined,
});
client.on && client.on('error', () => {});
const AT_ONCE = 2000;
(async () => {
  let left = [];
  for (let n = 0; n < lines; n++) {
    const record = {n, way, level: 'warn', message: `line ${n} of ${way}`, deep: {a: [n]}};
    const emit = async () => {
      for (;;) {
        try { return await client.emit('test', record); } catch (error) { await new Promise((done) => setTimeout(done, 200)); }
      }
    };
    left.push(emit());
    if (left.length === AT_ONCE) { await Promise.all(left); left = []; }
  }
  await Promise.all(left);
  await client.disconnect();
})();
"""

BEATS_GO = """
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	v2 "github.com/elastic/go-lumber/client/v2"
)

func main() {
	way, address := os.Args[1], net.JoinHostPort(os.Args[2], os.Args[3])
	lines, _ := strconv.Atoi(os.Args[4])
	level := 0
	if strings.HasSuffix(way, "zlib") {
		level = 3
	}
	var client *v2.SyncClient
	send := func(events []interface{}) {
		for len(events) > 0 {
			if client == nil {
				var err error
				client, err = v2.SyncDial(address, v2.CompressionLevel(level), v2.Timeout(30*time.Second))
				if err != nil {
					client = nil
					time.Sleep(200 * time.Millisecond)
					continue
				}
			}
			taken, err := client.Send(events)
			events = events[taken:]
			if err != nil {
				client.Close()
				client = nil
			}
		}
	}
	var held []interface{}
	for n := 0; n < lines; n++ {
		held = append(held, map[string]interface{}{
			"@timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			"@metadata":  map[string]interface{}{"beat": "filebeat", "version": "8.0.0"},
			"message":    fmt.Sprintf("line %d of %s", n, way),
			"log":        map[string]interface{}{"level": "warn"},
			"host":       map[string]interface{}{"name": "web1"},
			"n":          n, "way": way, "deep": map[string]interface{}{"a": []int{n}},
		})
		if len(held) == 1000 || n == lines-1 {
			send(held)
			held = nil
		}
	}
	client.Close()
}
"""

RSYSLOG = """
global(workDirectory="{folder}")
module(load="imfile" mode="polling" pollingInterval="1")
module(load="omrelp")
template(name="line" type="string" string="<12>1 %timegenerated:::date-rfc3339% web1 {way} - - - %msg%\\n")
input(type="imfile" File="{folder}/lines" Tag="{way}" ruleset="send")
ruleset(name="send") {{
  action(type="omrelp" target="{host}" port="{port}" template="line" action.resumeRetryCount="-1"
         action.resumeInterval="1" queue.type="LinkedList" queue.size="200000" queue.timeoutShutdown="60000")
}}
"""


def start_rsyslog(way, installed, folder, address, lines, errors):
    host, port = address.rsplit(":", 1)
    with open(f"{folder}/lines", "w") as file:
        file.writelines(f"n={n} line of {way}\n" for n in range(lines))
    with open(f"{folder}/rsyslog.conf", "w") as file:
        file.write(RSYSLOG.format(folder=folder, way=way, host=host, port=port))
    return subprocess.Popen(
        ["rsyslogd", "-n", "-f", f"{folder}/rsyslog.conf", "-i", f"{folder}/pid"], stderr=errors, stdout=errors,
    )


def shared_key(folder):
    with open(f"{folder}/key", "w") as file:
        file.write(KEY)
    return f'fluent_shared_key_file = "{folder}/key"\n'


def fluent_node(mode, *key):
    return Way(
        "Fluent forward", f"@fluent-org/logger, {mode}" + (", shared key" if key else ""), "fluent",
        node("@fluent-org/logger", "1.0.10"), script(["node", "-"], FLUENT_NODE, *key), configure=shared_key if key else None,
    )


def beats_go(name):
    return Way(
        "Beats", f"go-lumber, {name}", "beats", go("github.com/elastic/go-lumber", "v0.1.0", BEATS_GO),
        script(["{installed}/sender"], ""),
    )


KEY = "0123456789abcdef"
SENDERS = {
    "fluent-python": Way(
        "Fluent forward", "fluent-logger of Python, message", "fluent", python("fluent-logger", "0.11.1"),
        script(["{installed}/bin/python", "-"], FLUENT_PYTHON), is_answered=False,
        remark="what was under way at the kill",
    ),
    "fluent-node-message": fluent_node("message"),
    "fluent-node-forward": fluent_node("forward"),
    "fluent-node-packed": fluent_node("packed"),
    "fluent-node-gzip": fluent_node("gzip"),
    "fluent-node-packed-key": fluent_node("packed", KEY),
    "beats-go-plain": beats_go("plain"),
    "beats-go-zlib": beats_go("zlib"),
    "relp-rsyslog": Way(
        "RELP", "rsyslog, omrelp", "relp", rsyslog, start_rsyslog, filter='app_name:="{way}"', number="_msg",
        is_service=True,
    ),
}
