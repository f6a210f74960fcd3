"""Have a thread do what takes long, so that the server goes on answering others."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, done by a thread of its own.

    Not by starlette's threads: the interpreter waits for those when it ends, and reading a large
    run takes a while that nobody who pressed Ctrl-C wants to wait for.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

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
            loop.call_soon_threadsafe(give, result, problem)

    threading.Thread(target=run, name="answer", daemon=True).start()
    return await done
