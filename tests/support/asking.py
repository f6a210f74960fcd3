"""Ask an ASGI application, byte for byte: no client in between makes a hostile request decent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class Answer:
    """What was answered."""

    status: int
    headers: Headers
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        """What the content says as JSON."""
        return json.loads(self.content)


@dataclass
class Browser:
    """Asks, and keeps cookies. `origin` is what it calls the server, and what pages it is on."""

    app: ASGIApp
    origin: str = "http://127.0.0.1:8470"
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, target: str, **headers: str | bytes) -> Answer:
        """Ask to read; underscores in names of headers stand for hyphens."""
        return self.ask("GET", target, headers)

    def post(self, target: str, content: object, **headers: str | bytes) -> Answer:
        """Post bytes as they are, or a JSON value, from a page of the server."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.ask("POST", target, {"origin": self.origin, **headers}, body)

    def ask(
        self, method: str, target: str, headers: Mapping[str, str | bytes], body: bytes = b""
    ) -> Answer:
        """Ask anything."""
        path, _, query = target.partition("?")
        told = {"host": self.origin.split("//")[1], **headers}
        if self.cookies:
            told.setdefault("cookie", "; ".join(f"{k}={v}" for k, v in self.cookies.items()))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.replace("_", "-").encode(), _bytes(v)) for k, v in told.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8470),
        }
        answer = asyncio.run(_asked(self.app, scope, body))
        for text in answer.headers.getlist("set-cookie"):
            self.cookies.update({k: v.value for k, v in SimpleCookie(text).items()})
        return answer


async def _asked(app: ASGIApp, scope: dict[str, Any], body: bytes) -> Answer:
    sent: list[Message] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()  # it is still there when all is answered
        return waiting.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    try:
        await app(scope, receive, send)
    except Exception:
        # As a server does: the answer was sent, and starlette raises once more for its log.
        if not sent:
            raise
    start, *parts = sent
    content = b"".join(part.get("body", b"") for part in parts)
    headers = Headers(raw=list(start["headers"]))
    return Answer(start["status"], headers, b"" if scope["method"] == "HEAD" else content)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")
