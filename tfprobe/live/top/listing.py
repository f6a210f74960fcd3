"""The list on the page: draws the lines one sees, and of those again only what has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tfprobe.live.top.cells import Cell
from tfprobe.live.top.columns import GAP, Fitted, ListColumn, fit, shown
from tfprobe.live.top.lines import ListLine
from tfprobe.live.top.source import Key

_UP, _DOWN = " ▲", " ▼"
# Colours of cells would make a motley bar of the chosen line; its marks and words stay. What is
# drawn with blocks is left as it is: turned round, it would show the opposite.
_CHOSEN = Style.parse("reverse")
# The scroll bar's place is kept free, so that nothing moves when it appears.
_SCROLL_BAR = 1


class Headings(Widget):
    """The names of the columns; a click on one orders by it."""

    DEFAULT_CSS = "Headings { height: 1; }"

    class Clicked(Message):
        """A person clicked on this column."""

        def __init__(self, column: ListColumn) -> None:
            """Take the column."""
            self.column = column
            super().__init__()

    def __init__(self) -> None:
        """Begin without columns."""
        super().__init__()
        self._fitted: tuple[Fitted, ...] = ()
        self._ordered_by = ""
        self._mark = _DOWN

    def show(self, fitted: tuple[Fitted, ...], *, ordered_by: str, largest_first: bool) -> None:
        """Show these columns, and by which one lines are ordered.

        It is drawn at every look, changed or not: a terminal that became smaller and larger again
        within a moment has cut it, and nothing else would ever draw it again.
        """
        self._fitted, self._ordered_by = fitted, ordered_by
        self._mark = _DOWN if largest_first else _UP
        self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - textual's signature
        """Draw the one line."""
        parts: list[Segment] = []
        for column in self._fitted:
            parts += [Segment(text, Style.parse(style)) for text, style in self._heading(column)]
            parts.append(Segment(" " * GAP))
        return Strip(parts).adjust_cell_length(self.size.width)

    def on_click(self, event: events.Click) -> None:
        """Order by the column under the pointer."""
        for column in self._fitted:
            if column.start <= event.x < column.start + column.width + GAP:
                self.post_message(self.Clicked(column.column))

    def _heading(self, each: Fitted) -> Cell:
        column = each.column
        if column.name != self._ordered_by:
            return shown(((column.heading, "dim"),), each)
        # Where there is no room for both, the mark matters more than the unit behind a slash.
        room = max(each.width - len(self._mark), 0)
        return shown(((column.heading[:room] + self._mark, "bold"),), each)


class RunListing(ScrollView, can_focus=True):
    """Lines of which one is chosen. The choice stays on its process when lines move."""

    DEFAULT_CSS = """
    RunListing { height: 1fr; scrollbar-size: 0 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "first", "first", show=False),
        Binding("end,G", "last", "last", show=False),
    ]

    class Chosen(Message):
        """Another line is chosen, or none."""

    class LaidOut(Message):
        """Other columns are shown, or as wide as before no more."""

    class Entered(Message):
        """A person clicked twice on the chosen line."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self.lines: tuple[ListLine, ...] = ()
        self.fitted: tuple[Fitted, ...] = ()
        self._at = 0
        self._drawn: dict[int, tuple[Cell, ...]] = {}

    @property
    def chosen(self) -> ListLine | None:
        """The line that keys act on."""
        return self.lines[self._at] if self.lines else None

    @property
    def page_size(self) -> int:
        """How many lines one sees."""
        return max(self.size.height, 1)

    def show(self, lines: Sequence[ListLine]) -> bool:
        """Show these lines; say whether the chosen one is still among them."""
        key = self.chosen.key if self.chosen else None
        self.lines = tuple(lines)
        at = self._place(key)
        stays = at is not None or key is None
        was_in_sight = self._is_in_sight()
        before, self._at = self._at, at if at is not None else self._nearest(self._at)
        if before != self._at:
            self._refresh_lines_of(before, self._at)
        self._lay_out()
        if before != self._at and was_in_sight:
            self._keep_in_sight()
        return stays

    def choose(self, key: Key) -> None:
        """Choose the line with this key, if there is one."""
        at = self._place(key)
        if at is not None:
            self._move_to(at)

    def action_move(self, by: int) -> None:
        """Choose a line further down or up."""
        self._move_to(self._at + by)

    def action_page(self, by: int) -> None:
        """Choose a line a page further down or up."""
        self._move_to(self._at + by * max(self.page_size - 1, 1))

    def action_first(self) -> None:
        """Choose the first line."""
        self._move_to(0)

    def action_last(self) -> None:
        """Choose the last line."""
        self._move_to(len(self.lines) - 1)

    def on_resize(self) -> None:
        """Choose the columns for the new width."""
        self._lay_out()
        self._keep_in_sight()

    def on_click(self, event: events.Click) -> None:
        """Choose the line under the pointer; the second click enters it."""
        at = self.scroll_offset.y + event.y
        if at >= len(self.lines):
            return
        self._move_to(at)
        if event.chain > 1:
            self.post_message(self.Entered())

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        at = self.scroll_offset.y + y
        width = self.size.width
        if at >= len(self.lines):
            return Strip.blank(width)
        drawn = self._drawn[at] = self._cells(at)
        parts = [
            Segment(text, self._style(at, i // 2, style))
            for i, cell in enumerate(drawn)
            for text, style in cell
        ]
        return Strip(parts).adjust_cell_length(width)

    def _style(self, at: int, column: int, style: str) -> Style:
        is_drawing = column < len(self.fitted) and self.fitted[column].column.is_drawing
        return Style.parse(style) if at != self._at or is_drawing else _CHOSEN

    def _cells(self, at: int) -> tuple[Cell, ...]:
        line = self.lines[at]
        gap: Cell = ((" " * GAP, ""),)
        cells: list[Cell] = []
        for column in self.fitted:
            cells += [shown(column.column.cell(line, column.width), column), gap]
        return tuple(cells[:-1])

    def _lay_out(self) -> None:
        fitted = fit(self.lines, max(self.size.width - _SCROLL_BAR, 1))
        height = len(self.lines)
        if fitted != self.fitted or self.virtual_size.height != height:
            self.fitted = fitted
            self.virtual_size = Size(self.size.width, height)
            self._drawn.clear()
            self.refresh()
            self.post_message(self.LaidOut())
        self._refresh_changed()

    def _refresh_changed(self) -> None:
        """Have drawn again what one sees and is not as it was drawn."""
        top = self.scroll_offset.y
        for at in range(top, min(top + self.page_size, len(self.lines))):
            before = self._drawn.get(at)
            if before is None:
                continue
            now = self._cells(at)
            if before != now:
                self._refresh_cells(at - top, before, now)

    def _refresh_cells(self, y: int, before: tuple[Cell, ...], now: tuple[Cell, ...]) -> None:
        changed = [each for i, each in enumerate(self.fitted) if before[2 * i] != now[2 * i]]
        first, last = changed[0], changed[-1]
        self.refresh(Region(first.start, y, last.start + last.width - first.start, 1))

    def _move_to(self, at: int) -> None:
        at = self._nearest(at)
        if at == self._at:
            return
        before, self._at = self._at, at
        self._refresh_lines_of(before, at)
        self._keep_in_sight()
        self.post_message(self.Chosen())

    def _nearest(self, at: int) -> int:
        return min(max(at, 0), max(len(self.lines) - 1, 0))

    def _refresh_lines_of(self, *places: int) -> None:
        for at in places:
            self.refresh(Region(0, at - self.scroll_offset.y, self.size.width, 1))

    def _is_in_sight(self) -> bool:
        """Say whether one sees the chosen line; whoever turned the wheel looks at others."""
        return 0 <= self._at - self.scroll_offset.y < self.page_size

    def _keep_in_sight(self) -> None:
        top = self.scroll_offset.y
        if self._at < top:
            self.scroll_to(y=self._at, animate=False)
        elif self._at >= top + self.page_size:
            self.scroll_to(y=self._at - self.page_size + 1, animate=False)

    def _place(self, key: Key | None) -> int | None:
        return next((at for at, line in enumerate(self.lines) if line.key == key), None)
