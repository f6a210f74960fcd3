"""The one table that `tfprobe top` prints without a terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.support.fleets import process_row, run_row, seen
from tfprobe.live.top.snapshot_table import lay_out
from tfprobe.profile.profile import Problem


def ranks(count):
    return [process_row(pid=100 + at, rank=at, role="worker") for at in range(count)]


def test_a_run_is_one_line_with_the_numbers_of_the_page():
    """State, rate, step times, trend and shares, as on the live page."""
    text = lay_out(seen(run_row()), width=100, colour=False)

    (line,) = [line for line in text.splitlines() if "● running" in line]
    for told in ("train.py --name r1", "28.3", "35.0 ms", "51.0 ms", "▄▅▅█▅", "655 MiB"):
        assert told in line


def test_every_live_process_is_shown():
    """Nobody can unfold a line of a table."""
    text = lay_out(seen(run_row("pool", *ranks(64))), width=100, colour=False)

    assert sum("worker" in line for line in text.splitlines()) == 64


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_page(width):
    """With many columns or few."""
    look = seen(run_row("dist", *ranks(3)), run_row("漢字" * 40, command=("python", "漢字" * 80)))

    text = lay_out(look, width=width, colour=False)

    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


def test_problems_stand_below_the_table():
    """What could not be read is told, the first of it in words."""
    problems = tuple(Problem(f"node7/{at}", "steps.bin is half a header") for at in range(7))

    text = lay_out(seen(run_row("r", problems=problems)), width=100, colour=False)

    assert "node7/0: steps.bin is half a header" in text
    assert "and 2 more problems; --json has all" in text
