"""One connection: what comes before there is a request, from whoever reaches the port.

uvicorn waits for ever for the rest of a request, and takes connections until no file can be opened:
any user of the machine could so keep the pages from who may see them, without any token.
"""

from __future__ import annotations

import asyncio
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tfprobe.web.server import headers

# A browser has six, and one for events. Where more come, who was silent longest has to go.
MOST = 256
# For a request of a few KB to be there as a whole, by a tunnel around the world too.
PATIENCE_S = 20.0
_NO_REQUEST = "This is no request of HTTP, or a longer one than any of ours.\n"


class Connection(H11Protocol):
    """Is closed when its request does not come, and says what is wrong as all answers do."""

    most = MOST
    patience_s = PATIENCE_S
    _heard_at_s = 0.0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; make room where there are too many."""
        super().connection_made(transport)
        self._listen()
        while len(self.connections) > self.most:
            others = (cast("Connection", each) for each in self.connections)
            silent = min(others, key=lambda each: each._heard_at_s)
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
            told = {**headers.ALWAYS, "Content-Type": "text/plain", "Connection": "close"}
            fields = [*told.items(), ("Content-Length", str(len(_NO_REQUEST)))]
            answer = h11.Response(status_code=400, headers=fields, reason=b"Bad Request")
            parts = (answer, h11.Data(data=_NO_REQUEST.encode()), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        self.transport.close()

    def _listen(self) -> None:
        self._heard_at_s = self.loop.time()
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._rest()
        elif self._patience is None:
            self._patience = self.loop.call_later(self.patience_s, self.transport.abort)

    def _rest(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
