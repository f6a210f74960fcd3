"""Choose which captures of many processes are read where all would be too many rows.

The newest of each work of each process come first, then the second newest of each, and so on: so
that every process is there, and ranks that stepped together have the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# What a row of a capture takes in its file at least: below, nobody need look how many there are.
LEAST_BYTES_A_ROW = 8


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A capture of a process, `work` as its name tells. `rows` is None until it is decoded."""

    name: str
    work: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not read of a run: `captures` of `of`, and of `processes` none at all."""

    captures: int
    of: int
    processes: int

    def __str__(self) -> str:
        """Return it as a sentence, with what to do."""
        none = f", and none of {_processes(self.processes)}" if self.processes else ""
        return (
            f"Of {self.of:,} recorded steps the newest {self.of - self.captures:,} are read{none}:"
            " all would take too much memory. Step times are those of all steps."
        )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"


Places = Sequence[Sequence[CaptureFile]]


def may_exceed(files: Places, most_rows: int) -> bool:
    """Say whether these captures, by process, may have more rows than that."""
    whole_bytes = sum(each.bytes for of_process in files for each in of_process)
    return whole_bytes > most_rows * LEAST_BYTES_A_ROW


def typical(files: Places) -> list[tuple[int, CaptureFile]]:
    """Return the smallest, the middle and the largest capture with the places of their processes.

    One that has no byte has no row either, and tells nothing.
    """
    every = [(at, each) for at, of_process in enumerate(files) for each in of_process if each.bytes]
    every.sort(key=lambda each: each[1].bytes)
    return [every[0], every[len(every) // 2], every[-1]] if every else []


def newest_within(files: Places, most_rows: int, rows_per_byte: float) -> list[frozenset[str]]:
    """Return for each process the names of those that are read; `files` are as they were taken.

    Of a capture that was not decoded the rows are guessed by its size. The first is read anyway.
    """
    chosen: list[set[str]] = [set() for _ in files]
    rows = 0.0
    for at, each in _in_rounds(files):
        rows += each.bytes * rows_per_byte if each.rows is None else each.rows
        if rows > most_rows and any(chosen):
            break
        chosen[at].add(each.name)
    return [frozenset(each) for each in chosen]


def left_out(files: Places, chosen: Sequence[frozenset[str]]) -> LeftOut | None:
    """Return what is not among the chosen, None where all is."""
    of = sum(len(of_process) for of_process in files)
    read = sum(len(names) for names in chosen)
    none = sum(bool(had) and not names for had, names in zip(files, chosen, strict=True))
    return LeftOut(of - read, of, none) if read < of else None


def _in_rounds(files: Places) -> Iterator[tuple[int, CaptureFile]]:
    """Give the newest of each work of each process, then those before, process by process."""
    ordered = []
    for at, of_process in enumerate(files):
        later: dict[int, int] = {}
        for each in reversed(of_process):
            nth = later[each.work] = later.get(each.work, -1) + 1
            ordered.append((nth, at, each.work, each))
    ordered.sort(key=lambda row: row[:3])
    return ((at, each) for _, at, _, each in ordered)
