"""Render the rows of a query as a table, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from tfprobe.printable import printable
from tfprobe.report.format import numbers, page

# Any: values of cells, of whatever type a query returns.
Batches = Iterable[Sequence[tuple[Any, ...]]]
_GAP = "  "
_NUMBERS = ("BIGINT", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "SMALLINT", "TINYINT")
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def render_rows(
    columns: Sequence[tuple[str, str]], batches: Batches, *, width: int, colour: bool
) -> Iterator[str]:
    """Yield a table; columns are as wide as the first batch needs, and cut where `width` ends."""
    are_numbers = [kind.removeprefix("U").startswith(_NUMBERS) for _, kind in columns]
    heading = [printable(name) for name, _ in columns]
    widths: list[int] = []
    count = 0
    for batch in batches:
        shown = [[_cell(value) for value in row] for row in batch]
        if not widths:
            widths = _widths([heading, *shown], are_numbers, width)
            yield _heading(heading, widths, are_numbers, colour=colour)
        yield "".join(_line(row, widths, are_numbers) for row in shown)
        count += len(batch)
    if not count:
        yield _heading(heading, [*map(cell_len, heading)], are_numbers, colour=colour)
    yield f"{numbers.count(count)} row{'' if count == 1 else 's'}\n"


def _cell(value: Any) -> str:
    if value is None:
        return numbers.NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(str(value))


def _heading(
    cells: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool], *, colour: bool
) -> str:
    text = _line(cells, widths, are_numbers)
    return f"{_DIM}{text.rstrip()}{_PLAIN}\n" if colour else text


def _widths(lines: Sequence[Sequence[str]], are_numbers: Sequence[bool], width: int) -> list[int]:
    """Return the width of each column: texts give way, the widest first; numbers never do."""
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    texts = [at for at, is_number in enumerate(are_numbers) if not is_number]
    for at in texts:
        widths[at] = min(widths[at], max(width, page.NARROWEST_TEXT))
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0 and max((widths[at] for at in texts), default=0) > page.NARROWEST_TEXT:
        widths[max(texts, key=lambda at: widths[at])] -= 1
        excess -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool]) -> str:
    shown = []
    for text, width, is_number in zip(cells, widths, are_numbers, strict=True):
        fits = is_number or cell_len(text) <= width
        fitted = text if fits else f"{set_cell_size(text, max(width - 1, 0)).rstrip()}…"
        blanks = " " * (width - cell_len(fitted))
        shown.append(blanks + fitted if is_number else fitted + blanks)
    return f"{_GAP.join(shown).rstrip()}\n"
