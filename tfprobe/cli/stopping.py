"""End a command at a signal with everything cleaned up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class _Stopped(BaseException):
    """A signal asks to end. Not an Exception: no code on the way may take it for a failure."""


@contextmanager
def until_stopped() -> Iterator[None]:
    """End the block quietly at SIGINT or SIGTERM; a second one ends what is being cleaned up."""
    before = {each: signal.signal(each, _stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except _Stopped:
        pass
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def until_terminated() -> Iterator[None]:
    """End the block at SIGTERM as at an error, so that it cleans up, and then die of the signal."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    except _Stopped:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_number: int, _frame: object) -> NoReturn:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    raise _Stopped
