"""Send pages what is new, as server-sent events. Runs are read only while a page listens.

One look a second serves all listeners. What one of them has not taken yet is sent in one piece
later: a page that lags behind keeps nothing here but the newest word of each run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from tfprobe.errors import TfprobeError
from tfprobe.profile.snapshots import FleetSnapshot, RunSnapshot
from tfprobe.web.server.trace import in_thread

EVERY_S = 1.0
# Proxies and tunnels close what is silent for a minute, and a page knows by it that we are there.
HEARTBEAT_S = 10.0
# Browsers come again by themselves after so long.
_RETRY_MS = 2000

_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
# What is sent of a run; None if it is gone. Any: JSON values.
Word = Mapping[str, Any] | None


class Events:
    """The streams of one server. For the one thread of its event loop."""

    def __init__(
        self,
        look: Callable[[], FleetSnapshot],
        *,
        note: Callable[[Iterable[str]], None] = lambda _: None,
        every_s: float = EVERY_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """Take what looks at all runs; `note` gets those with news, before any page does."""
        self._look = look
        self._note = note
        self._every_s = every_s
        self._heartbeat_s = heartbeat_s
        self._listeners: set[_Listener] = set()
        self._looking: asyncio.Task[None] | None = None
        self._sent: dict[str, Word] = {}
        self._has_ended = False

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def is_looking(self) -> bool:
        """Whether runs are looked at."""
        return self._looking is not None

    def end(self) -> None:
        """End all streams: the server stops."""
        self._has_ended = True
        for listener in self._listeners:
            listener.woken.set()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Give events until the server stops; first how all runs stand."""
        listener = _Listener(dict(self._sent))
        self._listeners.add(listener)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield b"retry: %d\n\n" % _RETRY_MS
            while not self._has_ended:
                yield await self._next(listener)
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._rest()

    async def _next(self, listener: _Listener) -> bytes:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(listener.woken.wait(), self._heartbeat_s)
        return b"" if self._has_ended else listener.take()

    async def _look_on(self) -> None:
        while True:
            # A directory that cannot be looked at now may be back at the next look.
            with contextlib.suppress(TfprobeError, OSError):
                self._tell(_words(await in_thread(self._look)))
            await asyncio.sleep(self._every_s)

    def _tell(self, words: dict[str, Word]) -> None:
        gone: dict[str, Word] = {run: None for run in self._sent if run not in words}
        news = {run: word for run, word in words.items() if self._sent.get(run) != word}
        self._sent = words
        self._note(news)
        for listener in self._listeners:
            listener.hear({**gone, **news})

    def _rest(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking, self._sent = None, {}


class Stream:
    """The answer that goes on: an ASGI application for one listener."""

    def __init__(self, events: Events) -> None:
        """Take what tells."""
        self._events = events

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client has gone, or the server stops."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_has_gone(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        async with contextlib.aclosing(self._events.stream()) as stream:
            async for content in stream:
                await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Listener:
    """One page, and what was not sent to it yet."""

    def __init__(self, waiting: dict[str, Word]) -> None:
        self.woken = asyncio.Event()
        self._waiting = waiting
        self._is_first = True
        if waiting:
            self.woken.set()

    def hear(self, words: Mapping[str, Word]) -> None:
        self._waiting.update(words)
        if words or self._is_first:
            self.woken.set()

    def take(self) -> bytes:
        """Return an event, or a comment that says that we are there."""
        if not self.woken.is_set():
            return b": still here\n\n"
        self.woken.clear()
        name = "all" if self._is_first else "news"
        self._is_first = False
        words, self._waiting = self._waiting, {}
        text = json.dumps(words, separators=(",", ":"))
        return f"event: {name}\ndata: {text}\n\n".encode()


async def _has_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _words(look: FleetSnapshot) -> dict[str, Word]:
    return {run.run.id: _word(run) for run in look.runs}


def _word(look: RunSnapshot) -> Word:
    """Say what tells an older page from a newer one."""
    loops = (loop for process in look.processes for loop in process.loops)
    return {
        "state": look.run.state,
        "steps": sum(loop.count for loop in loops),
        "captures": sum(process.process.captures for process in look.processes),
        "processes": len(look.processes),
    }
