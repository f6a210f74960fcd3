"""Ask how many steps a process shall record now."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tfprobe.analysis.jobs.fleet import RunRow
from tfprobe.analysis.jobs.job_totals import is_live
from tfprobe.live.top.lines import command_text
from tfprobe.live.top.source import Key
from tfprobe.printable import printable
from tfprobe.profile.profile import titled

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
            yield Static(f"Record how many steps of {self._whom()} now?", markup=False)
            yield Input(
                USUAL_STEPS,
                id="steps",
                type="integer",
                max_length=_MOST_DIGITS,
                select_on_focus=True,
            )
            yield Static("enter asks, escape leaves", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Let the number be typed at once."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the number, or wait for a better one."""
        steps = int(event.value) if event.value.isdecimal() else 0
        if steps < 1:
            self.query_one(".hint", Static).update("A whole number from 1 on is needed.")
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
