"""What `sql` and `export --to parquet` share: tables of runs, open while they are needed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tfprobe.cli.common import until_terminated
from tfprobe.cli.main import INTERRUPTED, complain
from tfprobe.errors import UsageError

if TYPE_CHECKING:
    from tfprobe.cli.common import Workers
    from tfprobe.query.tables.loader import TableLoader
    from tfprobe.runs.layout import RunFolder


@contextmanager
def opened(
    runs: Sequence[RunFolder], workers: Workers, *, rank: int | None = None
) -> Iterator[TableLoader]:
    """Open the tables of runs, which `workers` read; nothing is left of them behind.

    Raises NoAnswer when no process has the rank, UsageError without a temporary directory.
    """
    from tfprobe.query.tables.database import StillWorking
    from tfprobe.query.tables.loader import TableLoader, look_at
    from tfprobe.runs.liveness import this_machine

    choose = workers.on(runs[0])
    with until_terminated(), _scratch() as scratch:
        here = this_machine()
        entries, shards = look_at(runs, here, rank=rank)
        tables = TableLoader(entries, shards, scratch, here=here, rank=rank, choose=choose)
        try:
            try:
                yield tables
            finally:
                tables.close()
        except StillWorking:
            # The end of Python would wait for it.
            shutil.rmtree(scratch, ignore_errors=True)
            os._exit(INTERRUPTED)


def warn(tables: TableLoader) -> None:
    """Say on stderr what of the recordings is not in the answer."""
    count = len(tables.problems)
    if count:
        first = tables.problems[0]
        complain(
            f"{count} part{'s' if count > 1 else ''} of the recordings could not be used; "
            f"the table `problems` lists them. The first: {first.where}: {first.what}"
        )


@contextmanager
def _scratch() -> Iterator[Path]:
    try:
        scratch = tempfile.mkdtemp(prefix="tfprobe-")
    except OSError as exc:
        hint = "Set TMPDIR to a writable directory."
        raise UsageError(f"A temporary directory cannot be created: {exc}.", hint=hint) from exc
    try:
        yield Path(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
