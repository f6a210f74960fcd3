"""Listen at an address, and serve until a signal comes."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tfprobe.errors import UsageError
from tfprobe.web.server.app import Complain, Pages
from tfprobe.web.server.auth import Keys
from tfprobe.web.server.events import Events
from tfprobe.web.server.hosts import ALWAYS, hosts_of, is_wide, url_of

# Far from 6006 and 8888, which TensorBoard and Jupyter take on the same machines.
DEFAULT_PORT = 8470
# As many servers of one machine find a port by themselves.
PORTS_TRIED = 50
# For answers that are being sent; whoever waits for a large run to be read is dropped.
GOODBYE_S = 1
_HINTS = {
    errno.EADDRINUSE: "Another program, maybe another `tfprobe ui`, has that port: choose one with "
    "--port, or leave it out.",
    errno.EACCES: "Choose a port above 1023 with --port.",
}


class Site:
    """The server of a directory, at one address."""

    def __init__(self, directory: Path, *, host: str, port: int | None, complain: Complain) -> None:
        """Bind the address; without a port the first free one from DEFAULT_PORT on.

        `complain` receives failures of ours. Raises UsageError if it cannot be bound.
        """
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._host = host
        self._keys = Keys()
        pages = Pages(directory, complain=complain)
        config = uvicorn.Config(
            pages.guarded(keys=self._keys, hosts=hosts_of(host)),
            access_log=False,
            date_header=False,
            http=Connection,
            lifespan="off",
            loop="asyncio",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GOODBYE_S,
            ws="none",
            # We complain ourselves, in sentences.
            log_level="critical",
        )
        self._server = _Server(config, pages.events)

    def address(self, *, once: bool = False) -> str:
        """Return what a browser opens, with a token in it that is good for one time or always."""
        token = self._keys.once() if once else self._keys.token
        return f"{url_of(self._host, self.port)}#token={token}"

    def serve(self) -> None:
        """Answer until SIGINT or SIGTERM, which is then raised again for whoever called."""
        self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Give the address back."""
        self._socket.close()


class _Server(uvicorn.Server):
    """Ends the streams of events first: uvicorn waits for all that is being answered."""

    def __init__(self, config: uvicorn.Config, events: Events) -> None:
        super().__init__(config)
        self._events = events

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._events.end()
        await super().shutdown(sockets)


def _bound(host: str, port: int | None) -> socket.socket:
    ports = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if port is None else (port,)
    for tried in ports:
        try:
            return _listening(host, tried)
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE and tried != ports[-1]:
                continue
            raise UsageError(
                f"The pages cannot be served at {host}:{tried}: {exc.strerror or exc}.",
                hint=_HINTS.get(exc.errno or 0, "Name an address of this machine with --host."),
            ) from exc
    raise AssertionError("there is at least one port")


def _listening(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and is_wide(host):
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
        # Now, and not when the first is accepted: of two that bind one port, the second fails here.
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening


# A browser has six, and one for events. Where more come, who was silent longest has to go.
MOST = 256
# For a request of a few KB to be there as a whole, by a tunnel around the world too.
PATIENCE_S = 20.0
_NO_REQUEST = "This is no request of HTTP, or a longer one than any of ours.\n"


class Connection(H11Protocol):
    """Is closed when its request does not come, and says what is wrong as all answers do."""

    most = MOST
    patience_s = PATIENCE_S
    _last_read_s = 0.0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; make room where there are too many."""
        super().connection_made(transport)
        self._listen()
        while len(self.connections) > self.most:
            others = (cast("Connection", connection) for connection in self.connections)
            silent = min(others, key=lambda other: other._last_read_s)
            self.connections.discard(silent)
            silent.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._listen()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._rest()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are not ours
        """Say that this is no request, unless an answer is on its way already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = {**ALWAYS, "Content-Type": "text/plain", "Connection": "close"}
            fields = [*headers.items(), ("Content-Length", str(len(_NO_REQUEST)))]
            answer = h11.Response(status_code=400, headers=fields, reason=b"Bad Request")
            parts = (answer, h11.Data(data=_NO_REQUEST.encode()), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        self.transport.close()

    def _listen(self) -> None:
        self._last_read_s = self.loop.time()
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._rest()
        elif self._patience is None:
            self._patience = self.loop.call_later(self.patience_s, self.transport.abort)

    def _rest(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
