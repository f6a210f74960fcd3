"""Under which names a browser may ask for this server, which is what DNS rebinding is stopped by.

A page from elsewhere can have its own name lead to 127.0.0.1 a moment after it was loaded, and then
ask us as if we were its server. It cannot have the browser say another name than its own in `Host`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tfprobe.web.server.errors import is_api

_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+)(?::(?P<port>[0-9]{1,5}))?")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WIDE = ("0.0.0.0", "::")
_HTTP_PORT = 80


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names allowed, at any port: `ssh -L` may give another one to the browser."""

    names: frozenset[str]
    any_address: bool = False

    def allow(self, header: str) -> bool:
        """Say whether this `Host` is one of them."""
        match = _HOST.fullmatch(header)
        if match is None:
            return False
        name = match["name"].lower()
        # An address in figures cannot be made to lead elsewhere.
        return name in self.names or (self.any_address and _is_address(name))


def hosts_of(host: str, *, machine: str | None = None) -> Hosts:
    """Return the names that a server bound to `host` goes by; `machine` is this one's own name."""
    named = {*_LOOPBACK, _bracketed(host.lower())}
    if not is_wide(host):
        return Hosts(frozenset(named))
    own = (machine or socket.gethostname()).lower()
    return Hosts(frozenset({*named, own, own.partition(".")[0]}), any_address=True)


def is_wide(host: str) -> bool:
    """Say whether it stands for all addresses of the machine."""
    return host in _WIDE


def is_loopback(host: str) -> bool:
    """Say whether only programs of this machine reach a server there."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def port_of(header: str) -> int:
    """Return the port that a `Host` names: that of the browser's end of a tunnel."""
    match = _HOST.fullmatch(header)
    return int(match["port"]) if match is not None and match["port"] else _HTTP_PORT


def url_of(host: str, port: int) -> str:
    """Return the address of a server; of one that is bound to all, the one on this machine."""
    name = "127.0.0.1" if is_wide(host) else _bracketed(host)
    return f"http://{name}:{port}/"


def headers_of(name: bytes, headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """Return what a request says under one name; names are in lower case, as ASGI has them."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


# Nothing from elsewhere, no script or style in the markup, and no framing by other pages.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "frame-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
ALWAYS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Headers:
    """Adds to each answer the headers that it does not have itself."""

    def __init__(self, app: ASGIApp) -> None:
        """Take what answers."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caching = "no-store" if is_api(scope["path"]) else "no-cache"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {**ALWAYS, "Cache-Control": caching}.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
