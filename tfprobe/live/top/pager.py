"""Show the report of a run, as `tfprobe report` prints it."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from tfprobe.errors import TfprobeError
from tfprobe.live.top.live_screen import LiveScreen
from tfprobe.live.top.source import Key, Seen
from tfprobe.printable import printable

# The scroll bar and the space before it.
_MARGIN = 2


class ReportScreen(LiveScreen):
    """A text to scroll through."""

    CSS = """
    #state { height: 1; text-style: dim; }
    #report { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,o", "app.pop_screen", "back"),
        Binding("q", "app.quit", "quit"),
        Binding("R", "read", "read again"),
        Binding("j", "scroll(1)", "down", show=False),
        Binding("k", "scroll(-1)", "up", show=False),
        Binding("space", "page_down", "page down", show=False),
        Binding("g", "home", "first line", show=False),
        Binding("G", "end", "last line", show=False),
    ]

    def __init__(self, key: Key) -> None:
        """Take whose report it is."""
        super().__init__()
        self.key = key

    def compose(self) -> ComposeResult:
        """Make the widgets from top to bottom."""
        yield Static("Reading ...", id="state", markup=False)
        with VerticalScroll():
            yield Static(id="report", markup=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(VerticalScroll).focus()
        self.action_read()

    def action_read(self) -> None:
        """Read the run, again."""
        self._put("#state", Text("Reading ..."))
        width = self.page.size.width - _MARGIN
        directory, page = self.key.directory, self.page

        def watch(done: int, count: int) -> None:
            page.do_here(lambda: self._reading(done, count))

        page.do_beside(lambda: page.source.report(directory, width, watch), self._show)

    def seen_changed(self, seen: Seen | None) -> None:
        """Say when the run has been removed; what was read stays."""
        if seen is not None and self.page.run_of(self.key) is None:
            self._put("#state", Text("Its directory was removed meanwhile."))

    def action_scroll(self, by: int) -> None:
        """Scroll some lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_page_down(self) -> None:
        """Scroll a page."""
        self.query_one(VerticalScroll).scroll_page_down(animate=False)

    def action_home(self) -> None:
        """Show the first line."""
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_end(self) -> None:
        """Show the last line."""
        self.query_one(VerticalScroll).scroll_end(animate=False)

    def _reading(self, done: int, count: int) -> None:
        if self.is_shown:
            self._put("#state", Text(f"Reading captures: {done} of {count} ..."))

    def _show(self, found: str | TfprobeError) -> None:
        if not self.is_shown:
            return
        if isinstance(found, TfprobeError):
            self._put("#state", Text(printable(str(found))))
            return
        self._put("#state", Text(""))
        self.query_one("#report", Static).update(Text.from_ansi(found))
