"""Listen at an address, and serve until a signal comes."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import uvicorn

from tfprobe.errors import UsageError
from tfprobe.web.server.app import Complain, Pages
from tfprobe.web.server.connection import Connection
from tfprobe.web.server.events import Events
from tfprobe.web.server.hosts import hosts_of, is_wide, url_of
from tfprobe.web.server.keys import Keys

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

        `complain` is told of failures of ours. Raises UsageError where it cannot be bound.
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
