"""Ctrl-C ends a query, even one that DuckDB does not let go of."""

from __future__ import annotations

import signal
import threading

import duckdb
import pytest

from tfprobe.query.tables import database
from tfprobe.query.tables.database import StillWorking, close, interruptibly


class Connection:
    """One whose work ends when it is asked so often to stop."""

    def __init__(self, asked_before_it_ends: int) -> None:
        """Begin with nobody having asked."""
        self.left = asked_before_it_ends
        self.ended = threading.Event()

    def loop(self) -> None:
        """Be interrupted from the keyboard, and work on."""
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        self.ended.wait()

    def interrupt(self) -> None:
        """Take a request to stop."""
        self.left -= 1
        if self.left == 0:
            self.ended.set()


def test_a_query_is_asked_to_stop_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not have begun yet, and forgets what came before."""
    monkeypatch.setattr(database, "_AGAIN_S", 0.001)
    connection = Connection(asked_before_it_ends=3)

    with pytest.raises(KeyboardInterrupt) as stopped:
        interruptibly(connection, connection.loop)

    assert (type(stopped.value), connection.left) == (KeyboardInterrupt, 0)


def test_a_query_that_goes_on_all_the_same_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it: the program ends, and the query with it."""
    monkeypatch.setattr(database, "_PATIENCE_S", 0.05)
    connection = Connection(asked_before_it_ends=-1)

    with pytest.raises(StillWorking):
        interruptibly(connection, connection.loop)

    connection.ended.set()


def test_what_goes_wrong_in_a_query_is_raised_as_it_is() -> None:
    """The thread in which it ran is nobody's business."""

    def wrong() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        interruptibly(Connection(0), wrong)


@pytest.mark.timeout(30)
def test_a_connection_whose_query_has_rows_left_is_closed() -> None:
    """DuckDB waits for the query when it closes; this one would take hours."""
    connection = duckdb.connect()
    endless = "select range from range(100000000000) where range < 2048 or hash(range) = 1"
    connection.execute(endless)
    connection.fetchmany(1)

    close(connection)

    with pytest.raises(duckdb.ConnectionException):
        connection.execute("select 1")
