"""On a terminal a long reading says so at once, and leaves nothing behind."""

from __future__ import annotations

import io

import pytest

from tfprobe.cli import common

GONE = "\r\x1b[K"


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_short_reading_shows_one_line_and_takes_it_back(monkeypatch) -> None:
    """Nothing of it stays on the screen."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    with common.progress("Reading captures") as watch:
        before = terminal.getvalue()
        watch(1, 2)

    assert before == "Reading captures ..."
    assert terminal.getvalue() == f"Reading captures ...{GONE}"


def test_a_long_reading_shows_how_far_it_is(monkeypatch) -> None:
    """The bar comes after a second, and has the number of captures."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(common, "QUIET_SECONDS", -1.0)

    with common.progress("Reading captures") as watch:
        watch(1, 4)
        watch(4, 4)

    assert "25%" in terminal.getvalue() or "100%" in terminal.getvalue()
    assert terminal.getvalue().endswith(GONE)


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_written_where_stderr_is_no_terminal(monkeypatch, fails: bool) -> None:
    """A log has no bars in it, whether or not the reading succeeds."""
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)

    try:
        with common.progress("Reading captures") as watch:
            watch(1, 2)
            if fails:
                raise ValueError
    except ValueError:
        assert fails

    assert log.getvalue() == ""
