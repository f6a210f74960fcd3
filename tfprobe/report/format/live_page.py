"""Own a terminal for a while: let a page end by signals, and with the terminal that it is on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable

from textual.app import App
from textual.message import Message

# Signals that end a program, and what a shell's status of one that they ended begins from.
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_SIGNALLED = 128
INTERRUPTED = _SIGNALLED + signal.SIGINT
# Nobody is there to see how soon. Whoever has not ended then waits for a terminal that is gone.
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
        """Something was done beside the page; `then` goes on with it here."""

        def __init__(self, then: Callable[[], None]) -> None:
            """Take what is to be done in the page's own thread."""
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
        """Watch the terminal no more."""
        self._left.set()

    def on_live_page_happened(self, event: Happened) -> None:
        """Go on with what was done beside."""
        event.then()

    def do_here(self, then: Callable[[], None]) -> None:
        """Have something done in the page's own thread; for the other ones."""
        self.post_message(self.Happened(then))

    def end_by(self, number: int) -> None:
        """End as a program does that a signal ends."""
        self.exit(return_code=_SIGNALLED + number)

    def _watch_terminal(self) -> None:
        """End when the terminal is gone and no signal came: a shell may have kept it from us.

        textual's queue of what is to be written is full by then or soon, and its loop waits for
        room in it for ever: nothing is left to be put right, so the process ends.
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
