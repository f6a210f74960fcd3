"""Show a scrollable report that is updated while its run goes on."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.widgets import Static

from tfprobe.errors import Missing
from tfprobe.findings.engine import Advice
from tfprobe.printable import printable
from tfprobe.report.documents.run_report import LoopReport, Report
from tfprobe.report.format import numbers
from tfprobe.report.text.report import render_report

_S = 1_000_000_000


def line(report: Report, *, at_unix_ns: int) -> str:
    """Return one line: the time in UTC, the state, and the loop with the most time."""
    at = datetime.fromtimestamp(at_unix_ns // _S, tz=timezone.utc)
    processes = len(report.processes)
    facts = [
        f"{at:%Y-%m-%d %H:%M:%S} {report.run.state}",
        "1 process" if processes == 1 else f"{processes} processes",
        *_steps(report),
    ]
    captures = sum(process.process.captures for process in report.processes)
    facts.append("1 capture" if captures == 1 else f"{numbers.count(captures)} captures")
    return printable(" · ".join(facts))


def _steps(report: Report) -> list[str]:
    loops = [loop for process in report.processes for loop in process.loops]
    if not loops:
        return ["no step yet" if report.run.state == "running" else "no step"]
    busiest = max(loops, key=lambda item: item.loop.times.sum_ns)
    count = sum(item.loop.count for item in loops)
    return [f"{numbers.count(count)} steps", _loop(busiest)]


def _loop(item: LoopReport) -> str:
    name = f"{item.loop.kind} {item.loop.name}"
    if isinstance(item.times, Missing):
        return name
    return f"{name} p50 {numbers.duration(item.times.p50_ns)}"


# Signals that end a program, and what a shell's status of one that they ended begins from.
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_SIGNALLED = 128
INTERRUPTED = _SIGNALLED + signal.SIGINT
# Nobody is there to see how soon. After this time the page waits for a terminal that is gone.
_LOST_S = 2.0
_PATIENCE_S = 5.0


class LivePage(App[None]):
    """A page that leaves the terminal as it found it, however it ends."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        """Begin without a terminal; `ansi_color` is textual's."""
        super().__init__(ansi_color=ansi_color)
        self._left = threading.Event()

    class Happened(Message):
        """Another thread has finished something; `then` handles it in the page's thread."""

        def __init__(self, then: Callable[[], None]) -> None:
            """Take the function to call in the page's thread."""
            self.then = then
            super().__init__()

    def on_mount(self) -> None:
        """Let signals end the page as its keys do: textual alone leaves the terminal as it is."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self.end_by, number)
        if _terminal_is_there():
            threading.Thread(target=self._watch_terminal, name="terminal", daemon=True).start()

    def on_unmount(self) -> None:
        """Stop watching the terminal."""
        self._left.set()

    def on_live_page_happened(self, event: Happened) -> None:
        """Call the function that another thread has posted."""
        event.then()

    def do_here(self, then: Callable[[], None]) -> None:
        """Call a function in the page's thread, from any other thread."""
        self.post_message(self.Happened(then))

    def end_by(self, number: int) -> None:
        """End with the status of a program that a signal ended."""
        self.exit(return_code=_SIGNALLED + number)

    def _watch_terminal(self) -> None:
        """End when the terminal is gone and no signal came: a shell may have kept it from us.

        textual's output queue is full by then or soon, and its event loop waits for space in it
        forever. Nothing is left to restore, so the process exits.
        """
        while not self._left.wait(_LOST_S):
            if _terminal_is_there():
                continue
            self.do_here(lambda: self.end_by(signal.SIGHUP))
            time.sleep(_PATIENCE_S)
            os._exit(_SIGNALLED + signal.SIGHUP)


def _terminal_is_there() -> bool:
    """Say whether stdin, which textual reads keys from, is a terminal that answers."""
    try:
        descriptor = -1 if sys.__stdin__ is None else sys.__stdin__.fileno()
        termios.tcgetattr(descriptor)
    except (termios.error, OSError, ValueError):
        return False
    return os.isatty(descriptor)


# The scroll bar and the space before it.
_MARGIN = 2
# After this time a person should know what the page is waiting for.
_SLOW_S = 2.0
# From here on minutes are easier to read than seconds.
_MINUTES_S = 180


@dataclass(frozen=True, slots=True)
class ShownReport:
    """A report and when its run was read."""

    report: Report
    advice: Advice
    at_unix_ns: int


class ReportSource(Protocol):
    """Where reports come from."""

    @property
    def has_ended(self) -> bool:
        """Say whether the latest report is the last."""

    def next(self, watch: Callable[[int, int], None]) -> ShownReport | Missing:
        """Return the report as it is now, or why there is no new one."""

    def pause_s(self) -> float:
        """Return how long to wait before the next look."""


class FollowedReport(LivePage):
    """The latest report of a run, until the run has ended or a person has seen enough."""

    CSS = """
    #report { height: auto; }
    #standing { dock: bottom; height: 1; text-style: reverse; }
    VerticalScroll { scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "quit", "quit"),
        Binding("ctrl+c", "interrupt", "interrupt", priority=True),
        Binding("ctrl+z", "suspend_process", "suspend", show=False),
        Binding("j", "scroll(1)", "down", show=False),
        Binding("k", "scroll(-1)", "up", show=False),
        Binding("space,f", "page(1)", "page down", show=False),
        Binding("b", "page(-1)", "page up", show=False),
        Binding("g", "home", "first line", show=False),
        Binding("G", "end", "last line", show=False),
    ]

    def __init__(
        self, source: ReportSource, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take where reports come from; `clock` counts seconds."""
        super().__init__()
        # The terminal's own sixteen colours, on its own ground: light or dark is the user's choice.
        self.theme = "ansi-dark"
        self.shown: ShownReport | None = None
        self.trouble: Exception | None = None
        self._source = source
        self._clock = clock
        self._doing = "reading the run"
        # When the look that is under way began; when the latest did, and the one that is shown.
        self._began_s: float | None = None
        self._looked_s = self._changed_s = self._next_s = clock()
        self._leaves = threading.Event()

    def compose(self) -> ComposeResult:
        """Make the widgets from top to bottom."""
        with VerticalScroll():
            yield Static(id="report", markup=False)
        yield Static(id="standing", markup=False)

    def on_mount(self) -> None:
        """Start to follow the run."""
        self.query_one(VerticalScroll).focus()
        self.set_interval(1.0, self._tell_standing)
        self._tell_standing()
        # No worker of textual's: those are waited for at exit, however long a look takes.
        threading.Thread(target=self._follow, name="tfprobe report", daemon=True).start()

    def on_unmount(self) -> None:
        """Stop following the run."""
        self._leaves.set()

    def on_resize(self, event: Resize) -> None:
        """Lay the report out for the new width."""
        self._draw(event.size.width)

    def action_interrupt(self) -> None:
        """Exit with the status of an interrupted program."""
        self.end_by(signal.SIGINT)

    def action_scroll(self, by: int) -> None:
        """Scroll some lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll a page."""
        pages = self.query_one(VerticalScroll)
        (pages.scroll_page_down if by > 0 else pages.scroll_page_up)(animate=False)

    def action_home(self) -> None:
        """Show the first line."""
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_end(self) -> None:
        """Show the last line."""
        self.query_one(VerticalScroll).scroll_end(animate=False)

    def standing(self) -> str:
        """Return the state of the run, and the age of the report."""
        if self.shown is None:
            return f"{self._doing} · q quits"
        now_s = self._clock()
        facts = [self.shown.report.run.state, f"as of {_seconds(now_s - self._looked_s)} ago"]
        if self._began_s is not None and now_s - self._began_s >= _SLOW_S:
            facts.append(self._doing)
        elif self._changed_s != self._looked_s:
            facts.append(f"nothing new for {_seconds(now_s - self._changed_s)}")
        elif self._next_s - now_s >= _SLOW_S:
            facts.append(f"next in {_seconds(self._next_s - now_s)}")
        return " · ".join([*facts, "arrows scroll", "q quits"])

    def _follow(self) -> None:
        """Update the report until the run ends; runs in a thread of its own."""
        while not self._leaves.is_set():
            self._began_s = began_s = self._clock()
            try:
                found = self._source.next(self._reading)
            except Exception as exc:
                # Whatever its type, the caller reports it when the page has closed.
                self._tell(functools.partial(self._fail, exc))
                return
            has_ended = self._source.has_ended
            self._tell(functools.partial(self._take, found, began_s, has_ended=has_ended))
            if has_ended:
                return
            pause_s = self._source.pause_s()
            self._next_s = self._clock() + pause_s
            self._leaves.wait(pause_s)

    def _reading(self, done: int, count: int) -> None:
        doing = f"reading capture {done + 1} of {count}" if done < count else "making the report"
        self._tell(functools.partial(self._say, doing))

    def _tell(self, then: Callable[[], None]) -> None:
        if not self._leaves.is_set():
            self.do_here(then)

    def _fail(self, trouble: Exception) -> None:
        self.trouble = trouble
        self.exit()

    def _take(self, found: ShownReport | Missing, began_s: float, *, has_ended: bool) -> None:
        self._began_s, self._looked_s = None, began_s
        if isinstance(found, Missing):
            self._doing = found.reason
        else:
            self.shown, self._changed_s = found, began_s
            self._draw(self.size.width)
        self._tell_standing()
        if has_ended:
            self.exit()

    def _say(self, doing: str) -> None:
        self._doing = doing
        self._tell_standing()

    def _tell_standing(self) -> None:
        self._put("#standing", Text(printable(self.standing())))

    def _put(self, place: str, text: Text) -> None:
        # While the page closes, its widgets go one by one, and messages still arrive.
        for part in self.query(place).results(Static):
            part.update(text)

    def _draw(self, width: int) -> None:
        if self.shown is None:
            return
        text = render_report(
            self.shown.report, self.shown.advice, width=width - _MARGIN, colour=True
        )
        self._put("#report", Text.from_ansi(text))


def _seconds(duration_s: float) -> str:
    """Write whole seconds, of long times whole minutes."""
    whole_s = max(round(duration_s), 1)
    return f"{whole_s} s" if whole_s < _MINUTES_S else f"{whole_s // 60} min"
