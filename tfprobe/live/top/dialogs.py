"""The screens above the page: how many steps to trace, what keys mean, the report of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Static

from tfprobe.analysis.jobs.fleet import RunRow
from tfprobe.analysis.jobs.job_totals import is_live
from tfprobe.errors import TfprobeError
from tfprobe.live.top.lines import command_text
from tfprobe.live.top.source import Key, TopSnapshot
from tfprobe.printable import printable
from tfprobe.profile.profile import titled

if TYPE_CHECKING:
    from tfprobe.live.top.app import TopPage


# One step is chance; a few show what is usual and cost little.
USUAL_STEPS = "5"
_MOST_DIGITS = 7


class AskSteps(ModalScreen[int | None]):
    """A question; the answer is a number of steps, or None."""

    CSS = """
    AskSteps { align: center middle; }
    #box { width: 60; max-width: 100%; height: auto; border: round ansi_cyan; padding: 0 1; }
    #box Static { height: auto; }
    #steps { border: none; height: 1; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "no", show=False)]

    def __init__(self, run: RunRow, key: Key) -> None:
        """Take whom to ask."""
        super().__init__()
        self._run = run
        self._key = key

    def compose(self) -> ComposeResult:
        """Make the question."""
        with Vertical(id="box"):
            yield Static(f"Trace how many steps of {self._whom()} now?", markup=False)
            yield Input(
                USUAL_STEPS,
                id="steps",
                type="integer",
                max_length=_MOST_DIGITS,
                select_on_focus=True,
            )
            yield Static("enter sends the request, escape cancels", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Let the number be typed at once."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the number, or wait for a better one."""
        steps = int(event.value) if event.value.isdecimal() else 0
        if steps < 1:
            self.query_one(".hint", Static).update("Enter a whole number of at least 1.")
            return
        self.dismiss(steps)

    def action_leave(self) -> None:
        """Ask for nothing."""
        self.dismiss(None)

    def _whom(self) -> str:
        for row in self._run.processes:
            if (row.host, row.folder) == (self._key.host, self._key.folder):
                return printable(titled(f"pid {row.pid}", row.title))
        live = sum(is_live(row.state) for row in self._run.processes)
        name = printable(command_text(self._run))
        return name if live == 1 else f"each of the {live} live processes of {name}"


_KEYS = (
    ("↑ ↓ j k", "choose a line; page up, page down, home, end"),
    ("enter", "open a process; show or hide those of a run"),
    ("← → space", "hide or show the processes of a run"),
    ("t", "trace now: asks for the number of steps, shows who answered"),
    ("o", "the run's report"),
    ("s S", "sort by the next, the previous column; so does a click on a heading"),
    ("r", "reverse the order"),
    ("/", "filter by words of command, host, user, state, pid; escape: all"),
    ("a", "hide or show what has ended"),
    ("p", "pause or resume"),
    ("escape", "back"),
    ("q", "quit"),
)
_COLUMNS = (
    ("steps/s", "completed steps of its busiest loop, over the last 10 s"),
    ("p50 p95", "their time: median and slow ones"),
    ("trend", "the latest step times, newest last; half height is the usual one"),
    ("where", "a cycle of the latest captures: ░ before the accelerator (input), █ on it, "
              "▒ after it, · rest"),
    ("goodput", "share of productive steps in the time since its start"),
    ("cost", "share of the job's time taken by recording"),
    ("samples", "traced steps; +3: three more were requested"),
    ("● running", "alive"),
    ("◌ no step 45s", "alive, but no step for much longer than usual"),
    ("‖ stopped", "by SIGSTOP or a debugger"),
    ("✓ ✗ ?", "finished; killed, or left without exit hooks; on another machine"),
)  # fmt: skip
_WIDE = 14


class HelpScreen(ModalScreen[None]):
    """A page of explanations."""

    CSS = """
    HelpScreen { align: center middle; }
    #help { width: 84; max-width: 100%; height: auto; max-height: 100%;
            border: round ansi_cyan; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", "back")
    ]

    def compose(self) -> ComposeResult:
        """Make the page."""
        with VerticalScroll(id="help"):
            yield Static(_text(), markup=False)


def _text() -> Text:
    text = Text()
    for table in (_KEYS, _COLUMNS):
        for name, meaning in table:
            text.append(f"{name:<{_WIDE}} ", style="bold")
            text.append(f"{meaning}\n")
        text.append("\n")
    text.right_crop(2)
    return text


class LiveScreen(Screen[None]):
    """A screen that shows what is seen."""

    @property
    def page(self) -> TopPage:
        """The application, by its own type."""
        return cast("TopPage", self.app)

    @property
    def is_shown(self) -> bool:
        """Say whether it can be changed: what was read may come when it is gone."""
        return self.is_mounted and self in self.app.screen_stack

    def seen_changed(self, seen: TopSnapshot | None) -> None:
        """Show a new snapshot."""

    def trouble_changed(self) -> None:
        """Show why there is no new snapshot, or that there is one again."""

    def _put(self, selector: str, text: Text) -> None:
        """Change a text if it differs: drawing costs more than comparing."""
        widget = self.query_one(selector, Static)
        if widget.content != text:
            # Its place is fixed: nothing has to be laid out anew.
            widget.update(text, layout=False)


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

        page.do_in_background(lambda: page.source.report(directory, width, watch), self._show)

    def seen_changed(self, seen: TopSnapshot | None) -> None:
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
