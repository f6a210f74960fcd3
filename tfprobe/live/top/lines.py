"""Choose and order the lines of the page: runs with their processes below, folded, filtered."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from tfprobe.analysis.jobs.fleet import ProcessRow, RunRow
from tfprobe.analysis.jobs.job_totals import is_live, run_total
from tfprobe.errors import Missing
from tfprobe.live.top.source import Key, TopSnapshot

# What a line is ordered by; None where it is not known.
Value = float | str | None
# More processes than this make a run start folded: a launch of 64 would hide all others.
UNFOLDED_PROCESSES = 8


@dataclass(frozen=True, slots=True)
class ListLine:
    """One line: a run, alone or with its processes below it, or one of those processes.

    `row` is the process, or the total of a run. `is_last` ends a branch of the tree.
    """

    key: Key
    run: RunRow
    row: ProcessRow | Missing
    at_unix_ns: int
    is_process: bool = False
    is_last: bool = False
    is_open: bool | None = None


@dataclass(frozen=True, slots=True)
class LineOrder:
    """What lines are ordered by: a value of theirs, and whether the largest come first.

    Where not `of_processes`, those of a run stay by rank: their starts differ by chance.
    """

    value: Callable[[ListLine], Value]
    largest_first: bool
    of_processes: bool = True


def process_key(run: RunRow, row: ProcessRow) -> Key:
    """Return which line a process is."""
    return Key(run.directory, row.host, row.folder)


def starts_open(run: RunRow) -> bool:
    """Say whether a run shows its processes by default."""
    return is_live(run.state) and len(run.processes) <= UNFOLDED_PROCESSES


def lines(
    seen: TopSnapshot, *, order: LineOrder, turned: Collection[str], wanted: str, live_only: bool
) -> tuple[ListLine, ...]:
    """Return the lines in order: runs that live first, then by `order`; of equals the newest.

    `turned` holds the directories of runs whose fold is not as it started.
    """
    runs = [run for run in seen.runs if is_live(run.state) or not live_only]
    words = wanted.casefold().split()
    kept = [(run, shown) for run in runs if (shown := _matching(run, words)) is not None]
    tops = {run.directory: _run_line(run, seen, turned) for run, _ in kept}
    ordered = _ordered([tops[run.directory] for run, _ in kept], order)
    below = {run.directory: shown for run, shown in kept}
    list_lines: list[ListLine] = []
    for line in ordered:
        list_lines.append(line)
        if line.is_open:
            list_lines += _process_lines(line, below[line.run.directory], order)
    return tuple(list_lines)


def command_text(run: RunRow) -> str:
    """Write what a run runs: the script and its arguments, without the interpreter before it."""
    if isinstance(run.command, Missing) or not run.command:
        return run.id
    words = _without_interpreter(run.command)
    return shlex.join([PurePath(words[0]).name or words[0], *words[1:]])


def _without_interpreter(command: tuple[str, ...]) -> tuple[str, ...]:
    if not PurePath(command[0]).name.startswith("python"):
        return command
    for at, word in enumerate(command[1:], 1):
        if word == "-m" and at + 1 < len(command):
            return command[at + 1 :]
        if not word.startswith("-"):
            return command[at:]
        if word != "-u":
            # -c, -X ...: what follows is no script.
            break
    return command


def _matching(run: RunRow, words: list[str]) -> tuple[ProcessRow, ...] | None:
    """Return the processes to show of a run, or None where nothing of it matches."""
    if _has(_run_text(run), words):
        return run.processes
    fits = tuple(row for row in run.processes if _has(f"{_run_text(run)} {_text(row)}", words))
    return fits or None


def _has(text: str, words: list[str]) -> bool:
    return all(word in text for word in words)


def _run_text(run: RunRow) -> str:
    texts = (run.command, run.host, run.user)
    command, host, user = ("" if isinstance(text, Missing) else text for text in texts)
    return f"{' '.join(command)} {host} {user} {run.state} {run.id}".casefold()


def _text(row: ProcessRow) -> str:
    rank = "" if row.rank is None else f"{row.role or 'rank'} {row.rank}"
    return f"{row.host} {row.pid} {row.state} {rank} {row.title}".casefold()


def _run_line(run: RunRow, seen: TopSnapshot, turned: Collection[str]) -> ListLine:
    key = Key(run.directory)
    if len(run.processes) > 1:
        is_open = starts_open(run) != (run.directory in turned)
        return ListLine(key, run, run_total(run), seen.at_unix_ns, is_open=is_open)
    return ListLine(key, run, run_total(run), seen.at_unix_ns)


def _process_lines(
    line: ListLine, rows: tuple[ProcessRow, ...], order: LineOrder
) -> Iterator[ListLine]:
    run = line.run
    found = [
        ListLine(process_key(run, row), run, row, line.at_unix_ns, is_process=True) for row in rows
    ]
    ordered = _ordered(found, order) if order.of_processes else sorted(found, key=_rank)
    for at, each in enumerate(ordered):
        is_last = at == len(ordered) - 1
        yield ListLine(each.key, run, each.row, each.at_unix_ns, is_process=True, is_last=is_last)


def _rank(line: ListLine) -> int:
    rank = None if isinstance(line.row, Missing) else line.row.rank
    return -1 if rank is None else rank


def _ordered(found: list[ListLine], order: LineOrder) -> list[ListLine]:
    """Order lines; what has no value comes last, whichever way round."""
    known = [line for line in found if order.value(line) is not None]
    unknown = [line for line in found if order.value(line) is None]
    # Any: values of one order are all numbers or all texts.
    known.sort(key=order.value, reverse=order.largest_first)  # type: ignore[arg-type]
    return sorted([*known, *unknown], key=lambda line: not _lives(line))


def _lives(line: ListLine) -> bool:
    return is_live(line.run.state if isinstance(line.row, Missing) else line.row.state)
