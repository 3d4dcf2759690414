"""A small HTTP server in front of chDB, the engine of ClickHouse in process: front.py PORT DATABASE.

The body of a POST is a query, the response its result, or status 500 with the engine's error, as
ClickHouse's own server has it; parameters of the URL are passed over. The engine gets one query at
a time. It listens on loopback, without passwords.
"""

import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chdb import session

# A longer body is refused, so that a request is never more than this in memory.
BODY_BYTES_MAX = 256 << 20


class Front(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that wait to be accepted: as many as generators open at once.
    request_queue_size = 1024

    def __init__(self, address, database):
        super().__init__(address, Handler)
        self.database = database
        self.turn = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet for each response: two would wait for each other's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(413, b"the query is longer than %d bytes\n" % BODY_BYTES_MAX)
        query = self.rfile.read(length)
        try:
            text = query.decode()
            with self.server.turn:
                result = self.server.database.query(text, "TabSeparated").bytes()
        except Exception as error:
            return self.answer(500, f"{error}\n".encode())
        self.answer(200, result or b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Errors are answered, and requests are not logged."""


def main():
    port, path = sys.argv[1:]
    front = Front(("127.0.0.1", int(port)), session.Session(path))

    def stop(*_):
        # `shutdown` waits for `serve_forever`, which this very thread runs.
        threading.Thread(target=front.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    front.serve_forever()
    with front.turn:
        front.database.close()


main()
