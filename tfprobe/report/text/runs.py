"""Lay out the listing of runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath

from tfprobe.errors import Missing
from tfprobe.profile.profile import Run
from tfprobe.profile.snapshots import RunLine
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import Column


def lay_out(runs: Sequence[RunLine], now_unix_ns: int, *, width: int, colour: bool) -> str:
    """Return the listing as text, with sizes where any was measured, names where any was given."""
    with_size = any(not isinstance(run.size_bytes, Missing) for run in runs)
    with_labels = any(labels(run) for run in runs)
    columns = (
        Column("run", is_number=False),
        Column("state", is_number=False),
        Column("age", may_go_last=True),
        Column("processes", may_go=True),
        Column("steps", may_go_last=True),
        *([Column("size")] if with_size else []),
        *([Column("name", is_number=False, may_be_cut=True)] if with_labels else []),
        Column("command", is_number=False, may_be_cut=True),
    )
    rows = [_row(run, now_unix_ns, with_size=with_size, with_labels=with_labels) for run in runs]
    return page.render(
        [page.table(columns, rows, width=width, indent=0)], width=width, colour=colour
    )


def age(run: RunLine, now_unix_ns: int) -> str:
    """Write how long ago a run gave its last sign of life."""
    if run.is_ahead(now_unix_ns):
        return numbers.NOTHING
    age_ns = run.age_ns(now_unix_ns)
    return numbers.NOTHING if isinstance(age_ns, Missing) else numbers.age(age_ns)


def size(run: RunLine) -> str:
    """Write what a run occupies on disk."""
    return numbers.NOTHING if isinstance(run.size_bytes, Missing) else numbers.size(run.size_bytes)


def labels(run: RunLine | Run) -> str:
    """Write the name and the tags of a run, "" where it was given none."""
    name = [] if isinstance(run.name, Missing) else [run.name]
    return " · ".join([*name, *(f"{key}={value}" for key, value in run.tags)])


def _row(run: RunLine, now_unix_ns: int, *, with_size: bool, with_labels: bool) -> tuple[str, ...]:
    return (
        run.id,
        run.state,
        age(run, now_unix_ns),
        numbers.count(run.processes),
        numbers.count(run.steps),
        *([size(run)] if with_size else []),
        *([labels(run) or numbers.NOTHING] if with_labels else []),
        _command(run),
    )


def _command(run: RunLine) -> str:
    """Write the command with its program's name only: the path would hide what follows."""
    if isinstance(run.command, Missing) or not run.command:
        return "?"
    return shlex.join([PurePath(run.command[0]).name, *run.command[1:]])
