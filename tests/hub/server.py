"""Sockets and bytes: one listener per origin, answers sent as faults would have them."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.hub.answers import Answer
from tests.hub.faults import Drop
from tests.hub.log import Entry

if TYPE_CHECKING:
    from tests.hub.hub import Hub

MOST_POSTED = 4_000_000


class Listener(ThreadingHTTPServer):
    """One origin. Its threads end when it is closed, whatever they were doing."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, hub: Hub, origin: str, host: str, respond: Callable[[Entry, str], Answer]
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub, self.origin, self.respond = hub, origin, respond
        self.url = f"http://{host}:{self.server_address[1]}"
        self.resets: set[socket.socket] = set()
        """Connections to be ended by RST."""
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        if request in self.resets:
            self.resets.discard(request)
            request.close()  # with linger 0: a reset, no farewell
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.hub.errors.append(repr(error))

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        with self._lock:
            left = list(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener
    server_version = "loopback-hub"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        # Small buffers: bytes counted as sent are about the bytes that a client took.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 * 1024)

    def _serve(self) -> None:
        raw, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        entry = Entry(self.command, unquote(raw), query, self.server.origin, headers)
        log = self.server.hub.log_book
        log.begin(entry)
        try:
            length = int(headers.get("content-length") or 0)
            entry.posted = self.rfile.read(min(length, MOST_POSTED))
            answer = self.server.respond(entry, raw)
            entry.file = answer.file or entry.file
            self._send(answer, entry)
        except Drop as drop:
            self._drop(str(drop))
        except OSError:
            self.close_connection = True
        finally:
            log.end(entry)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = _serve

    def _send(self, answer: Answer, entry: Entry) -> None:
        entry.status = answer.status
        size = answer.claims if answer.claims is not None else answer.body.size
        chunked = answer.chunked or (size is None and not answer.closes)
        lines = [f"HTTP/1.1 {answer.status} {self.responses.get(answer.status, ('Status',))[0]}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        if answer.closes:
            lines.append("Connection: close")
            self.close_connection = True
        elif chunked:
            lines.append("Transfer-Encoding: chunked")
        elif answer.status != 304:
            lines.append(f"Content-Length: {size}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        self._send_head(head, answer, entry)
        if entry.method == "HEAD":
            return
        self._send_body(answer, entry, chunked and not answer.closes)
        if answer.claims is not None and answer.claims != answer.body.size:
            self.close_connection = True

    def _send_head(self, head: bytes, answer: Answer, entry: Entry) -> None:
        if answer.again:
            self._put(answer.before, entry)
            while not self.server.hub.closing.is_set():
                self._put(answer.again * 100, entry)
            raise Drop("fin")
        for piece in self._paced(head, answer) if answer.slow_head else (head,):
            self._put(piece, entry)

    def _send_body(self, answer: Answer, entry: Entry, chunked: bool) -> None:
        for whole in answer.body.pieces():
            for piece in self._paced(whole, answer):
                if answer.cut_after is not None and entry.body + len(piece) >= answer.cut_after:
                    piece = piece[: answer.cut_after - entry.body]
                    if piece:
                        self._put(_chunk(piece) if chunked else piece, entry)
                        entry.body += len(piece)
                    raise Drop(answer.cut_how)
                self._put(_chunk(piece) if chunked else piece, entry)
                entry.body += len(piece)
        if answer.cut_after is not None:
            raise Drop(answer.cut_how)
        if chunked:
            self._put(b"0\r\n\r\n", entry)

    def _paced(self, piece: bytes, answer: Answer) -> Any:
        if answer.pace is None:
            yield piece
            return
        count, seconds = answer.pace
        for at in range(0, len(piece), count):
            yield piece[at : at + count]
            if self.server.hub.closing.wait(seconds):
                raise Drop("fin")

    def _put(self, data: bytes, entry: Entry) -> None:
        self.connection.sendall(data)
        entry.wire += len(data)

    def _drop(self, how: str) -> None:
        self.close_connection = True
        if how == "rst":
            linger = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.server.resets.add(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
