"""End a command that goes on until somebody ends it: interrupting is no error of it."""

from __future__ import annotations

import signal
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


def _stop(_number: int, _frame: object) -> NoReturn:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    raise _Stopped
