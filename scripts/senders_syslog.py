"""Senders of syslog, GELF and StatsD by TCP, TLS and UDP. None of them waits for answers: there are none."""

import subprocess

from senderlib import Way, certificate, node, python, rsyslog, script

RSYSLOG = """
global(workDirectory="{folder}" defaultNetstreamDriverCAFile="{folder}/server/certificate.pem")
module(load="imfile" mode="polling" pollingInterval="1")
template(name="line" type="string" string="<12>1 %timegenerated:::date-rfc3339% web1 {way} - - - %msg%\\n")
input(type="imfile" File="{folder}/lines" Tag="{way}" ruleset="send")
ruleset(name="send") {{
  action(type="omfwd" target="{host}" port="{port}" template="line" action.resumeRetryCount="-1" action.resumeInterval="1"
         queue.type="LinkedList" queue.size="200000" queue.timeoutShutdown="60000" queue.dequeueBatchSize="100"
         queue.dequeueSlowdown="5000" {more})
}}
"""
UNDER_WAY = "what was under way at the kill"
AWAY = "datagrams while the server was away"


def omfwd(more):
    """Starts rsyslog, which follows a file and forwards its lines, about 20,000 in a second."""

    def start(way, installed, folder, address, lines, errors):
        host, port = address.rsplit(":", 1)
        with open(f"{folder}/lines", "w") as file:
            file.writelines(f"n={n} line of {way}\n" for n in range(lines))
        with open(f"{folder}/rsyslog.conf", "w") as file:
            file.write(RSYSLOG.format(folder=folder, way=way, host=host, port=port, more=more))
        return subprocess.Popen(
            ["rsyslogd", "-n", "-f", f"{folder}/rsyslog.conf", "-i", f"{folder}/pid"], stderr=errors, stdout=errors,
        )

    return start


def rsyslog_sends(way, what, listen, more, remark=UNDER_WAY, **others):
    return Way(
        way, f"rsyslog, omfwd, {what}", listen, rsyslog, omfwd(more), filter='app_name:="{way}"', number="_msg",
        is_answered=False, is_service=True, remark=remark, **others,
    )


# Each tenth message has 4,000 letters that do not compress well, so that it goes in several datagrams. A thousand are sent
# in a tenth of a second: nobody says that they come too fast.
GELF = """
import logging, random, sys, time
way, host, port, lines = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
transport, module = way.split("-")[1:]
if module == "pygelf":
    import pygelf
    handler = {"udp": pygelf.GelfUdpHandler, "tcp": pygelf.GelfTcpHandler}[transport](host, port, include_extra_fields=True)
else:
    import graypy
    handler = {"udp": graypy.GELFUDPHandler, "tcp": graypy.GELFTCPHandler}[transport](host, port)
if transport == "tcp":
    handler.retryMax = 1.0
logging.raiseExceptions = False
for n in range(lines):
    text = f"line {n} of {way}"
    if n % 10 == 9:
        text += "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4000))
    handler.emit(logging.makeLogRecord({"levelno": 30, "levelname": "WARNING", "n": n, "way": way, "msg": text, "name": "test",
                                        "pathname": "test.py", "lineno": 1}))
    if n % 1000 == 999:
        time.sleep(0.1)
handler.close()
"""

LOG4JS = """
const log4js = require('log4js');
const [way, host, port, lines] = [process.argv[2], process.argv[3], +process.argv[4], +process.argv[5]];
log4js.configure({
  appenders: {gelf: {type: '@log4js-node/gelf', host, port, customFields: {_way: way}}},
  categories: {default: {appenders: ['gelf'], level: 'info'}},
});
const logger = log4js.getLogger('test');
(async () => {
  for (let n = 0; n < lines; n++) {
    logger.warn({GELF: true, _n: n}, `line ${n} of ${way}`);
    if (n % 500 === 499) await new Promise((done) => setTimeout(done, 50));
  }
  log4js.shutdown(() => process.exit(0));
})();
"""

STATSD = """
import sys, time
import statsd
way, host, port, lines = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = statsd.StatsClient(host, port, prefix=way)
for n in range(lines):
    client.gauge(f"of.{n}", n)
    # Slowly enough that the server writes some of its rows, every ten seconds, before the last one is sent.
    if n % 1000 == 999:
        time.sleep(0.4)
"""

IN_PYTHON = ["{installed}/bin/python", "-"]


def gelf(transport, package, version):
    way = "Syslog and GELF over " + transport.upper()
    return Way(
        way, f"{package}, GELF" + (", compressed, in several datagrams" if transport == "udp" else ""), f"syslog-{transport}",
        python(package, version), script(IN_PYTHON, GELF), filter='_way:="{way}"', number="_n", is_answered=False, remark=AWAY if transport == "udp" else UNDER_WAY,
    )


SENDERS = {
    "syslog-udp": rsyslog_sends("Syslog and GELF over UDP", "plain", "syslog-udp", 'protocol="udp"', remark=AWAY),
    "syslog-udp-zip": rsyslog_sends(
        "Syslog and GELF over UDP", "each message compressed (ZipLevel)", "syslog-udp", 'protocol="udp" zipLevel="9"', remark=AWAY,
    ),
    "gelf-udp-pygelf": gelf("udp", "pygelf", "0.4.3"),
    "gelf-udp-graypy": gelf("udp", "graypy", "2.1.0"),
    "gelf-udp-log4js": Way(
        "Syslog and GELF over UDP", "@log4js-node/gelf, compressed", "syslog-udp", node("@log4js-node/gelf", "1.0.2", "log4js"),
        script(["node", "-"], LOG4JS), filter='_way:="{way}"', number="_n", is_answered=False,
        remark=AWAY,
    ),
    "syslog-tcp": rsyslog_sends("Syslog and GELF over TCP", "plain", "syslog-tcp", 'protocol="tcp"'),
    "syslog-tcp-counted": rsyslog_sends(
        "Syslog and GELF over TCP", "behind their lengths", "syslog-tcp", 'protocol="tcp" tcp_framing="octet-counted"',
    ),
    "syslog-tcp-zip": rsyslog_sends(
        "Syslog and GELF over TCP", "each message compressed (ZipLevel)", "syslog-tcp",
        'protocol="tcp" tcp_framing="octet-counted" zipLevel="9"',
    ),
    "syslog-tcp-stream": rsyslog_sends(
        "Syslog and GELF over TCP", "the stream compressed", "syslog-tcp",
        'protocol="tcp" zipLevel="9" compression.mode="stream:always" compression.stream.flushOnTXEnd="on"',
    ),
    "gelf-tcp-pygelf": gelf("tcp", "pygelf", "0.4.3"),
    "gelf-tcp-graypy": gelf("tcp", "graypy", "2.1.0"),
    "syslog-tls": rsyslog_sends(
        "Syslog over TLS", "gtls", "syslog-tls",
        'protocol="tcp" streamDriver="gtls" streamDriverMode="1" streamDriverAuthMode="x509/certvalid"', configure=certificate,
    ),
    "statsd": Way(
        "StatsD", "statsd of Python, gauges", "statsd", python("statsd", "4.0.1"), script(IN_PYTHON, STATSD),
        filter='name:="{way}.of."*', number="name", level=None, is_answered=False,
        remark="datagrams while the server was away, and up to ten seconds of samples that it had not written",
    ),
}
