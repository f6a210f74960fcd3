"""The screen of one process: its loops live, and what its latest captures say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static, Tab, Tabs

from tfprobe.analysis.jobs.fleet import ProcessRow, RunRow
from tfprobe.errors import TfprobeError
from tfprobe.live.top import pages
from tfprobe.live.top.columns import BY_NAME
from tfprobe.live.top.dialogs import LiveScreen
from tfprobe.live.top.lines import ListLine
from tfprobe.live.top.source import Key, TopSnapshot
from tfprobe.printable import printable
from tfprobe.report.format import page as text_page

# Each snapshot has the first; the others are read when they are opened.
TABS = ("loops", "ops", "findings", "log")
_READ_TABS = TABS[1:]
_PACE = (
    "state", "steps/s", "p50", "p95", "where", "goodput", "cpus", "memory", "gpu", "cost", "trend",
)  # fmt: skip
# The scroll bar and the space before it.
_MARGIN = 2


class ProcessScreen(LiveScreen):
    """One process. It goes away with a word when the process's directory does."""

    CSS = """
    #about { height: 3; }
    #pace { height: 1; }
    #state { height: 1; text-style: dim; }
    #text { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "back"),
        Binding("t", "app.sample", "trace"),
        Binding("o", "app.report", "report"),
        Binding("question_mark", "app.help", "help", key_display="?"),
        Binding("q", "app.quit", "quit"),
        Binding("1", "tab('loops')", "loops"),
        Binding("2", "tab('ops')", "ops"),
        Binding("3", "tab('findings')", "findings"),
        Binding("4", "tab('log')", "log"),
        Binding("tab,right", "next(1)", "next", show=False),
        Binding("shift+tab,left", "next(-1)", "previous", show=False),
        Binding("R", "read", "read again"),
        Binding("p", "app.pause", "pause"),
    ]

    def __init__(self, key: Key) -> None:
        """Take which process it is."""
        super().__init__()
        self.key = key
        # Of each tab that was opened: what was read, and how many captures there were then.
        self._read: dict[str, tuple[int, object]] = {}
        self._reading: set[str] = set()
        self._progress = ""

    def compose(self) -> ComposeResult:
        """Make the widgets from top to bottom."""
        yield Static(id="about", markup=False)
        yield Static(id="pace", markup=False)
        yield Tabs(*(Tab(f"{at} {name}", id=name) for at, name in enumerate(TABS, 1)))
        yield Static(id="state", markup=False)
        with VerticalScroll():
            yield Static(id="text", markup=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show what there is and begin to read the rest."""
        self.query_one(VerticalScroll).focus()
        self.seen_changed(self.page.seen)

    def on_resize(self) -> None:
        """Write tables for the new width."""
        self.call_after_refresh(self._show)

    def on_tabs_tab_activated(self) -> None:
        """Show another tab."""
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._read_anew()
        self._show()

    def seen_changed(self, seen: TopSnapshot | None) -> None:
        """Show a new snapshot, and read new captures."""
        if not self.is_shown or seen is None:
            return
        found = self._found()
        if found is None:
            self._go()
            return
        self._read_anew()
        self._show()

    def trouble_changed(self) -> None:
        """Show why there is no new snapshot, or that there is one again."""
        self._show()

    def action_tab(self, name: str) -> None:
        """Show this tab."""
        self.query_one(Tabs).active = name

    def action_next(self, by: int) -> None:
        """Show the next tab."""
        at = TABS.index(self._tab()) + by
        self.query_one(Tabs).active = TABS[at % len(TABS)]

    def action_read(self) -> None:
        """Read what this tab shows again."""
        self._read.pop(self._tab(), None)
        self._read_anew()
        self._show()

    def _read_anew(self) -> None:
        """Begin to read what the tab shows, where that is not known or there are new captures."""
        tab, found = self._tab(), self._found()
        if found is None or tab not in _READ_TABS or tab in self._reading:
            return
        run, row = found
        if self._read.get(tab, (-1, None))[0] == row.captures:
            return
        self._reading.add(tab)
        self._progress = f"reading {tab} ..."
        page, source = self.page, self.page.source
        key = Key(run.directory, row.host, row.folder)

        def watch(done: int, count: int) -> None:
            page.do_here(lambda: self._tell_progress(tab, done, count))

        reads: dict[str, Callable[[], object]] = {
            "ops": lambda: source.ops(key, watch),
            "findings": lambda: source.findings(key, watch),
            "log": lambda: source.notes(key, watch),
        }
        page.do_in_background(reads[tab], lambda answer: self._take(tab, row.captures, answer))

    def _take(self, tab: str, captures: int, answer: object) -> None:
        self._reading.discard(tab)
        self._progress = ""
        self._read[tab] = (captures, answer)
        self._show()

    def _tell_progress(self, tab: str, done: int, count: int) -> None:
        self._progress = f"reading {tab}: {done} of {count} captures ..."
        self._show_state()

    def _go(self) -> None:
        """Leave: the process is no longer in the snapshot."""
        self.page.say("This process is gone: its directory was removed.")
        if self in self.page.screen_stack:
            # Whatever was opened from here is about it, too.
            while self.page.screen is not self:
                self.page.pop_screen()
            self.page.pop_screen()

    def _found(self) -> tuple[RunRow, ProcessRow] | None:
        run = self.page.run_of(self.key)
        if run is None or not run.processes:
            return None
        if not self.key.folder:
            return run, run.processes[0]
        named = (self.key.host, self.key.folder)
        return next(((run, row) for row in run.processes if (row.host, row.folder) == named), None)

    def _tab(self) -> str:
        return self.query_one(Tabs).active or TABS[0]

    def _show(self) -> None:
        if not self.is_shown:
            return
        seen, found = self.page.seen, self._found()
        if seen is None or found is None:
            return
        run, row = found
        line = ListLine(self.key, run, row, seen.at_unix_ns, is_process=True)
        self._put("#about", pages.about(line, seen, width=self.size.width))
        self._put("#pace", _pace(line, self.size.width))
        self._show_state()
        self._show_text(row)

    def _show_state(self) -> None:
        if self.is_shown:
            facts = [fact for fact in (self._progress, self.page.clock()) if fact]
            self._put("#state", Text(" · ".join(facts), justify="right"))

    def _show_text(self, row: ProcessRow) -> None:
        widget = self.query_one("#text", Static)
        content = self._text(row, self.size.width - _MARGIN)
        if isinstance(content, Text) and widget.content == content:
            return
        widget.update(content)

    def _text(self, row: ProcessRow, width: int) -> RenderableType:
        # Any: each tab draws what its own reading gave.
        tab = self._tab()
        if tab == "loops":
            return pages.loops(row, width)
        _, answer = self._read.get(tab, (0, None))
        if answer is None:
            return text_page.paragraph("Reading ...")
        if isinstance(answer, TfprobeError):
            return text_page.paragraph(str(answer))
        draw: dict[str, Callable[[Any, int], RenderableType]] = {
            "ops": pages.ops,
            "findings": pages.findings,
            "log": pages.notes,
        }
        return draw[tab](answer, width)


def _pace(line: ListLine, width: int) -> Text:
    """Return the columns that matter most as one line with their names, as many as fit."""
    text = Text()
    for name in _PACE:
        column = BY_NAME[name]
        part = Text(f"  {column.heading} " if text else "", style="dim")
        for cell_text, style in column.cell(line, max(column.width, column.grows_to)):
            part.append(printable(cell_text), style=f"not dim {style}")
        if text.cell_len + part.cell_len > width:
            break
        text.append_text(part)
    return text
