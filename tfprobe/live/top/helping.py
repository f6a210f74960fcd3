"""Say what keys and marks mean."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

_KEYS = (
    ("↑ ↓ j k", "choose a line; page up, page down, home, end"),
    ("enter", "open a process; show or hide those of a run"),
    ("← → space", "hide, show the processes of a run"),
    ("t", "sample now: asks how many steps, says who answered"),
    ("o", "the run's report"),
    ("s S", "order by the next, the previous column; so does a click on a heading"),
    ("r", "the other way round"),
    ("/", "show what has these words: command, host, user, state, pid; escape: all"),
    ("a", "hide what has ended, show it again"),
    ("p", "pause, go on"),
    ("escape", "back"),
    ("q", "quit"),
)
_COLUMNS = (
    ("steps/s", "completed steps of its busiest kind, over the last 10 s"),
    ("p50 p95", "their time: the usual, the slow ones"),
    ("trend", "the latest step times, newest last; half height is the usual one"),
    ("where", "a cycle of the latest captures: ░ before the accelerator (input), █ on it, "
              "▒ after it, · rest"),
    ("goodput", "share of productive steps in all time since its start"),
    ("cost", "what recording takes of the job's time"),
    ("samples", "recorded steps; +3: three more were asked for"),
    ("● running", "alive"),
    ("◌ no step 45s", "alive, but no step for longer than its steps explain"),
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
