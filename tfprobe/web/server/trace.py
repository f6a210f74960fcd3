"""Send a step, or all steps, as a file for Perfetto and chrome://tracing, while it is written."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from starlette.responses import StreamingResponse

from tfprobe.analysis.distributed.aligned import Aligned
from tfprobe.errors import NoAnswer
from tfprobe.export.run_timeline import run_timeline
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.timeline.step_timeline import chosen_capture
from tfprobe.web.params import Params
from tfprobe.web.together import aligned_of

# This much is written before it is sent, and before other tasks get a turn.
_PIECE_BYTES = 1 << 18
# A fast machine on a slow line: the least packed is packed ten times, and no waiting for it.
_LEVEL = 1


def traced(run: OpenRun, question: Params) -> Aligned:
    """Return the profile with the requested capture, or with all captures, on one clock.

    Raises NoAnswer where no step was traced.
    """
    with run.lock:
        profile = run.profile
        if not profile.captures:
            raise NoAnswer("No step of this run was traced.")
        together = aligned_of(run)
        if not question.text("capture"):
            return together
        chosen = together.profile.captures[chosen_capture(run, question).index]
        return replace(together, profile=together.profile.only((chosen,)))


def sent(together: Aligned, *, name: str, is_packed: bool) -> StreamingResponse:
    """Return the answer, packed by gzip where the browser takes that."""
    pieces = _pieces(together)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Vary": "Accept-Encoding",
        **({"Content-Encoding": "gzip"} if is_packed else {}),
    }
    return StreamingResponse(
        _in_threads(_packed(pieces) if is_packed else pieces),
        media_type="application/json",
        headers=headers,
    )


def _pieces(together: Aligned) -> Iterator[bytes]:
    waiting: list[str] = []
    length = 0
    for piece in run_timeline(together):
        waiting.append(piece)
        length += len(piece)
        if length >= _PIECE_BYTES:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting, length = [], 0
    yield "".join(waiting).encode("utf-8", "replace")


def _packed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_LEVEL, wbits=31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Have a thread make each piece, so that others are answered meanwhile."""
    while (piece := await in_thread(lambda: next(pieces, None))) is not None:
        yield piece


T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, done by a thread of its own.

    Not by starlette's threads: the interpreter waits for those when it ends, and reading a large
    run takes a while that nobody who pressed Ctrl-C wants to wait for.
    """
    event_loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = event_loop.create_future()

    def give(result: T | None, problem: BaseException | None) -> None:
        if done.cancelled():
            return
        if problem is not None:
            done.set_exception(problem)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, problem = None, None
        try:
            result = work()
        except BaseException as exc:  # handed to who waits
            problem = exc
        # The loop is closed where the server has ended meanwhile: nobody waits then.
        with contextlib.suppress(RuntimeError):
            event_loop.call_soon_threadsafe(give, result, problem)

    threading.Thread(target=run, name="answer", daemon=True).start()
    return await done
