"""Render tables and paragraphs to text of a width, with or without colour."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from tfprobe.analysis.steps.step_times import HistogramBar
from tfprobe.printable import printable, printable_lines

# No table is legible in fewer columns; the terminal wraps it.
NARROWEST = 60
# A name cut shorter than this is useless.
NARROWEST_TEXT = 8
# Columns with `may_go` are dropped before a name is cut shorter than this.
USEFUL_TEXT = 20
_GAP = "  "
# The directory that packages are installed in.
_INSTALLED = re.compile("/(?:site|dist)-packages/")
# This many parts of a path are enough to tell files apart.
_LAST = 2
# A number and its unit stay on one line: while text is wrapped, this character is between them.
_JOINED = "\ue000"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:[KMGT]?i?B|[mµn]?s|min|h)(?!\w))")


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column: its heading, numbers to the right or text to the left."""

    heading: str
    is_number: bool = True
    # Text of one of these columns is cut with an ellipsis where the page is too narrow.
    may_be_cut: bool = False
    # The column is left out where the page is too narrow.
    may_go: bool = False
    # The column is left out where even cutting names to nearly nothing does not make room.
    may_go_last: bool = False


def render(parts: Iterable[RenderableType], *, width: int, colour: bool) -> str:
    """Return the parts as text, each line without trailing blanks."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(width, NARROWEST),
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    console.push_render_hook(_Filter())
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


class _Filter(RenderHook):
    """Keeps control characters in texts away from the terminal; only our styles write codes."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Filter the text of each part of a page."""
        return [_Printed(part) for part in renderables]


@dataclass(frozen=True, slots=True)
class _Printed:
    """A part of a page whose text is filtered."""

    part: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.part, options):
            yield Segment(printable_lines(segment.text), segment.style)


def table(
    columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], *, width: int, indent: int = 2
) -> Text:
    """Return a table without lines: headings dim, numbers aligned right and never cut.

    rich would shrink all columns of a narrow page; here only those with `may_be_cut` are cut.
    """
    columns, rows = _kept(columns, rows, width=width - indent)
    widths = _fitted(columns, rows, width=width - indent)
    lines = [_line([c.heading for c in columns], columns, widths, indent)]
    lines += [_line(row, columns, widths, indent) for row in rows]
    text = Text("\n".join(lines), no_wrap=True, overflow="crop")
    text.stylize("dim", 0, len(lines[0]))
    return text


def _kept(
    columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], *, width: int
) -> tuple[Sequence[TextColumn], Sequence[Sequence[str]]]:
    """Drop columns that may go, the last first, while the page is too narrow."""
    going = [(column, USEFUL_TEXT) for column in reversed(columns) if column.may_go]
    going += [(column, NARROWEST_TEXT) for column in reversed(columns) if column.may_go_last]
    for column, text in going:
        if _width(columns, rows, text) > width:
            i = columns.index(column)
            columns = [*columns[:i], *columns[i + 1 :]]
            rows = [[*row[:i], *row[i + 1 :]] for row in rows]
    return columns, rows


def _width(columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], text: int) -> int:
    """Return the width if each column with `may_be_cut` is cut to `text` characters."""
    widths = [
        min(wide, text) if column.may_be_cut else wide
        for column, wide in zip(columns, _natural(columns, rows), strict=True)
    ]
    return sum(widths) + len(_GAP) * (len(columns) - 1)


def _natural(columns: Sequence[TextColumn], rows: Sequence[Sequence[str]]) -> list[int]:
    lines = [[column.heading for column in columns], *rows]
    return [max(cell_len(printable(line[i])) for line in lines) for i in range(len(columns))]


def _fitted(
    columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], *, width: int
) -> list[int]:
    """Return the width of each column; those with `may_be_cut` share the remaining space."""
    natural = _natural(columns, rows)
    elastic = [i for i, column in enumerate(columns) if column.may_be_cut]
    excess = sum(natural) + len(_GAP) * (len(columns) - 1) - width
    for i in elastic:
        kept = max(natural[i] - max(excess, 0), min(natural[i], NARROWEST_TEXT))
        excess -= natural[i] - kept
        natural[i] = kept
    return natural


def _line(
    cells: Sequence[str], columns: Sequence[TextColumn], widths: Sequence[int], indent: int
) -> str:
    shown = []
    for text, column, width in zip(cells, columns, widths, strict=True):
        cell = printable(text)
        fitted = cell if cell_len(cell) <= width else f"{set_cell_size(cell, width - 1).rstrip()}…"
        blanks = " " * (width - cell_len(fitted))
        shown.append(blanks + fitted if column.is_number else fitted + blanks)
    return " " * indent + _GAP.join(shown).rstrip()


def heading(text: str) -> Text:
    """Return the first line of a section."""
    return Text(printable(text), style="bold", no_wrap=True, overflow="ellipsis")


def paragraph(text: str, *, indent: int = 2, style: str = "") -> Padding:
    """Return text wrapped to the page."""
    return Padding(_Paragraph(printable(text), style), (0, 0, 0, indent))


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """Text that is wrapped between words, but not between a number and its unit."""

    text: str
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        joined = Text(_BEFORE_UNIT.sub(_JOINED, self.text), style=self.style)
        for wrapped in joined.wrap(console, options.max_width):
            wrapped.plain = wrapped.plain.replace(_JOINED, " ")
            yield wrapped


def line(text: str, *, indent: int = 2) -> Padding:
    """Return text on one line, cut where the page ends."""
    # Padded also where nothing is indented: rich joins bare texts and then wraps them.
    return Padding(Text(printable(text), no_wrap=True, overflow="ellipsis"), (0, 0, 0, indent))


def blank() -> Text:
    """Return an empty line."""
    return Text("")


def short_path(path: str) -> str:
    """Return the last parts of a path, and the package of an installed file.

    `keras/src/backend/tensorflow/trainer.py` is `keras/…/tensorflow/trainer.py`.
    """
    *_, inside = _INSTALLED.split(path)
    parts = inside.split("/")
    if inside == path or len(parts) <= _LAST:
        return "/".join(parts[-_LAST:])
    return "/".join([parts[0], *["…"][: len(parts) - _LAST - 1], *parts[-_LAST:]])


_HEIGHTS = "▁▂▃▄▅▆▇█"


def histogram_sparkline(bars: Sequence[HistogramBar], wide: int) -> str:
    """Draw counts over durations on a logarithmic axis, from the least to the longest.

    A blank is a count of 0; any other count is visible.
    """
    low, high = math.log(bars[0].low_ns), math.log(bars[-1].high_ns)
    wide = min(
        wide, max(len(bars), round((high - low) / math.log(bars[0].high_ns / bars[0].low_ns)))
    )
    cells = np.zeros(wide)
    for bar in bars:
        middle = (math.log(bar.low_ns) + math.log(bar.high_ns)) / 2
        cells[min(int((middle - low) / (high - low) * wide), wide - 1)] += bar.count
    return "".join(_height(count / cells.max()) for count in cells)


def _height(ratio: float) -> str:
    if not ratio:
        return " "
    return _HEIGHTS[min(int(ratio * len(_HEIGHTS)), len(_HEIGHTS) - 1)]


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(
    values: Sequence[float], *, width: int, least: float | None = None, most: float | None = None
) -> str:
    """Return a bar for each value, from `least` (default: the smallest) to `most` (the largest).

    What is below `least` has the lowest bar, what is above `most` the highest. Of more values than
    there is room for, each bar is the largest of its neighbours.
    """
    if not values or width < 1:
        return ""
    parts = min(len(values), width)
    tops = [
        max(values[at * len(values) // parts : (at + 1) * len(values) // parts])
        for at in range(parts)
    ]
    low = min(values) if least is None else least
    high = max(tops) if most is None else most
    span = high - low
    if span <= 0:
        return _BARS[0] * parts
    last = len(_BARS) - 1
    return "".join(_BARS[round(min(max(top - low, 0) / span, 1) * last)] for top in tops)
