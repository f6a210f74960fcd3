"""Lay out the listing of runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath

from tfprobe.errors import Missing
from tfprobe.model.catalogue import RunLine
from tfprobe.terminal import numbers, page
from tfprobe.terminal.page import Column

_COLUMNS = (
    Column("run", is_number=False),
    Column("state", is_number=False),
    Column("processes", may_go=True),
    Column("steps"),
    Column("command", is_number=False, may_be_cut=True),
)


def lay_out(runs: Sequence[RunLine], *, width: int, colour: bool) -> str:
    """Return the listing as text."""
    rows = [
        (
            run.id,
            run.state,
            numbers.count(run.processes),
            numbers.count(run.steps),
            _command(run),
        )
        for run in runs
    ]
    return page.render(
        [page.table(_COLUMNS, rows, width=width, indent=0)], width=width, colour=colour
    )


def _command(run: RunLine) -> str:
    """Write the command with its program's name only: the path would hide what follows."""
    if isinstance(run.command, Missing) or not run.command:
        return "?"
    return shlex.join([PurePath(run.command[0]).name, *run.command[1:]])
