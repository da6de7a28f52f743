"""A real HTTP server on loopback that plays a model server, good or bad."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = Callable[[BaseHTTPRequestHandler], None]
Answer = Mapping[str, Any] | str | list[Any] | Act
"""Recorded ({"status", "headers", "body"}), a plain text, several in turn, or an act."""


def answer(body: Any, status: int = 200, **headers: str) -> dict[str, Any]:
    """An answer in the form of the recordings; underscores in header names become hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"status": status, "headers": named, "body": body}


class Fake:
    """Serves the routes given and remembers what was asked."""

    def __init__(self, routes: Mapping[str, Answer], host: str = "127.0.0.1") -> None:
        self.routes = dict(routes)
        self.asked: list[tuple[str, str]] = []
        self.keys: list[str | None] = []
        self.bodies: list[Any] = []
        self._turn: dict[str, int] = {}
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.play(self, self.path)

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.body = json.loads(raw)
                fake.bodies.append(self.body)
                fake.play(self, f"POST {self.path}")

            def log_message(self, *_: object) -> None:
                """Quiet."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A client that hangs up is what some tests are about."""

        self.server = Server((host, 0), Handler)
        shown = f"[{host}]" if ":" in host else host
        self.port = self.server.server_address[1]
        self.url = f"http://{shown}:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def play(self, handler: BaseHTTPRequestHandler, route: str) -> None:
        self.asked.append((handler.command, handler.path))
        self.keys.append(handler.headers.get("Authorization"))
        found = self.routes.get(route, self.routes.get("*", answer("Not Found", 404)))
        if isinstance(found, list):
            turn = self._turn.get(route, 0)
            self._turn[route] = turn + 1
            found = found[min(turn, len(found) - 1)]
        if callable(found):
            found(handler)
            return
        send(handler, answer(found) if isinstance(found, str) else found)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def send(handler: BaseHTTPRequestHandler, recorded: Mapping[str, Any]) -> None:
    body = recorded["body"]
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else None
    if raw is None:
        raw = json.dumps(body).encode()
    headers = dict(recorded.get("headers", {}))
    handler.send_response_only(recorded["status"])
    for name, value in headers.items():
        handler.send_header(name, value)
    if "Content-Length" not in headers:
        handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)
