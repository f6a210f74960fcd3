"""Let Ctrl-C end what DuckDB works on, even where DuckDB itself does not look whether it shall."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")

# From one request to stop to the next.
_AGAIN_S = 0.05
# So long somebody who has pressed Ctrl-C is let wait: DuckDB does not look for requests while it
# parses and plans, which takes minutes where somebody wants it to.
_PATIENCE_S = 2.0


class StillWorking(KeyboardInterrupt):
    """DuckDB was asked to stop and goes on. Nothing ends it but the end of this process."""


def interruptibly(connection: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Return what work gives that may take long; what ends this thread's waiting ends the work.

    In a thread of its own: while DuckDB works it does not look whether a signal has come, and
    Python's handlers run in the main thread alone, which waits for it here.

    Raises StillWorking where the work cannot be ended.
    """
    working: Future[T] = Future()
    try:
        _start(work, working)
        return working.result()
    except BaseException as exc:
        # Cancelled is what has not begun: a signal may come while the thread starts.
        if not working.cancel() and not _stopped(connection, working):
            raise StillWorking from exc
        raise


def close(connection: DuckDBPyConnection) -> None:
    """Close a connection, and end what it still works on: of a query whose rows were not all taken.

    Raises StillWorking where that cannot be ended.
    """
    # Closing waits for it, and would wait for ever.
    working: Future[None] = Future()
    _start(connection.close, working)
    if not _stopped(connection, working):
        raise StillWorking
    working.result()


def _start(work: Callable[[], T], working: Future[T]) -> None:
    def run() -> None:
        if not working.set_running_or_notify_cancel():
            return
        try:
            working.set_result(work())
        except BaseException as exc:
            working.set_exception(exc)

    threading.Thread(target=run, name="tfprobe-query", daemon=True).start()


def _stopped(connection: DuckDBPyConnection, working: Future[T]) -> bool:
    """Ask for a stop, again and again: work may not have begun, and forgets what came before."""
    for _ in range(round(_PATIENCE_S / _AGAIN_S)):
        if wait([working], timeout=_AGAIN_S).done:
            return True
        _ask_to_stop(connection)
    return False


def _ask_to_stop(connection: DuckDBPyConnection) -> None:
    import duckdb

    try:
        connection.interrupt()
    except duckdb.Error:
        pass  # closed by now, which is all that was wanted
