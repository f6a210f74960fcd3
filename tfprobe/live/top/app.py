"""The application of `tfprobe top`: hands snapshots to its screens and requests traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from tfprobe.analysis.jobs.fleet import RunRow
from tfprobe.errors import TfprobeError
from tfprobe.live.top import pages
from tfprobe.live.top.dialogs import AskSteps, HelpScreen, LiveScreen, ReportScreen
from tfprobe.live.top.overview import Overview
from tfprobe.live.top.process import ProcessScreen
from tfprobe.live.top.source import Key, Result, TopSnapshot, TopSource, Watching, in_background
from tfprobe.printable import printable
from tfprobe.report.format.followed import LivePage

# On a page this low the list needs all lines.
_LOW = 16
# A message about a request stays long enough to be read.
_SAID_S = 8.0
# A snapshot takes milliseconds; after this time the page says that it waits for one.
_SLOW_LOOK_S = 3.0


class TopPage(LivePage):
    """All runs, kept up to date until `q`."""

    TITLE = "tfprobe top"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (_LOW, "-high")]  # noqa: RUF012 - as textual has it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "to the shell", show=False, priority=True),
    ]

    def __init__(self, source: TopSource, *, every_s: float) -> None:
        """Take where snapshots come from, and how often."""
        # The terminal's own sixteen colours, on its own ground: light or dark is the user's choice.
        # With NO_COLOR textual then drops them all; of colours of its own it would make greys.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.source = source
        self.seen: TopSnapshot | None = None
        self.trouble: TfprobeError | None = None
        self.is_paused = False
        self._watching = Watching(source, every_s=every_s, tell=self._tell)

    def on_mount(self) -> None:
        """Show the overview and start the snapshots."""
        self.push_screen(Overview())
        self._watching.start()
        self.set_interval(_SLOW_LOOK_S, self._tick)

    def on_unmount(self) -> None:
        """Stop the snapshots."""
        self._watching.end()

    def take(self, found: TopSnapshot | TfprobeError) -> None:
        """Show a snapshot, or why there is none."""
        if isinstance(found, TfprobeError):
            self.trouble = found
            self._tell_screens(lambda screen: screen.trouble_changed())
            return
        self.trouble = None
        self.seen = found
        self._tell_screens(lambda screen: screen.seen_changed(found))

    def run_of(self, key: Key) -> RunRow | None:
        """Return the run that a line is of, or None where it is gone."""
        runs = () if self.seen is None else self.seen.runs
        return next((run for run in runs if run.directory == key.directory), None)

    def clock(self) -> str:
        """Return when the latest snapshot was, and what hinders the next."""
        if self.is_paused:
            return "paused"
        if self.trouble is not None and self.seen is not None:
            return printable(f"cannot update: {self.trouble.problem}")
        waited_s = self._watching.under_way_s()
        if waited_s > _SLOW_LOOK_S:
            return f"looking for {waited_s:.0f} s"
        return "" if self.seen is None else pages.moment(self.seen.at_unix_ns)

    def say(self, text: str, *, is_bad: bool = False) -> None:
        """Show a sentence in a corner for a while."""
        self.notify(
            printable(text),
            severity="warning" if is_bad else "information",
            timeout=_SAID_S,
            markup=False,
        )

    def do_in_background(
        self, loop: Callable[[], Result], then: Callable[[Result | TfprobeError], None]
    ) -> None:
        """Do what takes long in another thread, and go on with the answer in this one."""

        def tell(found: Result | TfprobeError) -> None:
            self.do_here(lambda: then(found))

        in_background(loop, tell, name="tfprobe top reads")

    def open_process(self, key: Key) -> None:
        """Show the page of a process."""
        self.push_screen(ProcessScreen(key))

    def action_pause(self) -> None:
        """Pause or continue."""
        self.is_paused = not self.is_paused
        self._watching.pause(self.is_paused)
        self._tell_screens(lambda screen: screen.trouble_changed())

    def action_help(self) -> None:
        """Show what keys and marks mean."""
        self.push_screen(HelpScreen())

    def action_report(self) -> None:
        """Show the report of the chosen run."""
        key = self._chosen()
        if key is not None:
            self.push_screen(ReportScreen(key))

    def action_sample(self) -> None:
        """Ask how many steps the chosen process shall record, then ask it."""
        key = self._chosen()
        run = None if key is None else self.run_of(key)
        if key is None or run is None:
            return
        self.push_screen(AskSteps(run, key), lambda steps: self._sample(key, steps))

    def _sample(self, key: Key, steps: int | None) -> None:
        if steps is None:
            return

        def show_answer(found: object) -> None:
            if isinstance(found, TfprobeError):
                self.say(str(found), is_bad=True)
                return
            self.say("\n".join(found))  # type: ignore[arg-type] # the texts of Source.sample
            self._watching.now()

        self.do_in_background(lambda: self.source.sample(key, steps), show_answer)

    def _chosen(self) -> Key | None:
        screen = self.screen
        if isinstance(screen, Overview):
            return None if screen.chosen is None else screen.chosen.key
        return screen.key if isinstance(screen, (ProcessScreen, ReportScreen)) else None

    def _tell(self, found: TopSnapshot | TfprobeError) -> None:
        """Receive a snapshot from its thread."""
        self.do_here(lambda: self.take(found))

    def _tick(self) -> None:
        """Say that a snapshot takes long; a slow file system must not look like a quiet job."""
        if self._watching.under_way_s() > _SLOW_LOOK_S:
            self._tell_screens(lambda screen: screen.trouble_changed())

    def _tell_screens(self, tell: Callable[[LiveScreen], None]) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen):
                tell(screen)


def run(source: TopSource, *, every_s: float) -> int:
    """Show the page until a person ends it; return the exit status."""
    page = TopPage(source, every_s=every_s)
    page.run()
    return page.return_code or 0
