"""Say what a table is: its columns, what each means, and what must be read to have its rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """What must be read for a table."""

    # The manifests and first words of a run's files.
    RUN = "run"
    # All files of a process but its captures.
    PROCESS = "process"
    # Captures, which is what takes long: their rows are kept in Parquet files.
    CAPTURES = "captures"
    # Captures, by the answer of `report`, which is kept.
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type` is DuckDB's name of it, `told` what it holds and when it is NULL."""

    name: str
    type: str
    told: str


@dataclass(frozen=True, slots=True)
class Shape:
    """One table."""

    name: str
    told: str
    source: Source
    columns: tuple[Column, ...]

    def named(self, name: str) -> Column:
        """Return the column of this name."""
        return next(column for column in self.columns if column.name == name)


def text(name: str, told: str) -> Column:
    """Return a column of text."""
    return Column(name, "VARCHAR", told)


def texts(name: str, told: str) -> Column:
    """Return a column of lists of text."""
    return Column(name, "VARCHAR[]", told)


def whole(name: str, told: str) -> Column:
    """Return a column of whole numbers: counts, bytes, nanoseconds."""
    return Column(name, "BIGINT", told)


def real(name: str, told: str) -> Column:
    """Return a column of other numbers."""
    return Column(name, "DOUBLE", told)


def truth(name: str, told: str) -> Column:
    """Return a column of truths."""
    return Column(name, "BOOLEAN", told)


RUN_KEY = (text("run", "id of the run: the name of its directory"),)
PROCESS_KEY = (
    *RUN_KEY,
    whole("process", "number of the process in its run, from 0, as in reports"),
    text("host", "name of its host"),
    whole("rank", "rank in a distributed job; NULL: none"),
)
WORK_KEY = (*PROCESS_KEY, whole("work", "number of the loop in its process"))
STEP_KEY = (*WORK_KEY, whole("step", "number of the step in its loop, from 0"))
CAPTURE_KEY = (
    *PROCESS_KEY,
    whole("work", "number of the loop in its process; NULL: not recorded"),
    whole("step", "number of the step in its loop"),
    whole("capture", "number of the capture in its process"),
)
