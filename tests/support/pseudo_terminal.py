"""Run a program in a pseudo-terminal and see what a person would see: for tests of live pages."""

from __future__ import annotations

import fcntl
import importlib
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, TracebackType

import pytest

PATIENCE_S = 60.0
_LOOK_S = 0.1
_CHUNK_BYTES = 65_536


class PseudoTerminal:
    """A terminal of some columns and lines with one program in it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        columns: int = 100,
        lines: int = 30,
    ) -> None:
        """Start the program with all three streams on the terminal."""
        pyte = _emulator()
        self.master, self._slave = pty.openpty()
        self.resize(columns, lines, tell=False)
        self.settings = termios.tcgetattr(self._slave)
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        self.process = subprocess.Popen(
            list(command),
            env={**env, "TERM": "xterm-256color"},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
        )

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)

    @property
    def shown(self) -> list[str]:
        """The lines that a person sees."""
        return [line.rstrip() for line in self._screen.display]

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def resize(self, columns: int, lines: int, *, tell: bool = True) -> None:
        """Make the terminal larger or smaller."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self._screen.resize(lines, columns)
            os.killpg(self.process.pid, signal.SIGWINCH)

    def lose(self) -> None:
        """Show nothing any more, as after a reset."""
        self._screen.erase_in_display(2)

    def wait_for(self, what: str | Callable[[list[str]], bool]) -> list[str]:
        """Wait until a text, or what a function looks for, is seen; return what is shown."""
        until_s = time.monotonic() + PATIENCE_S
        while not self._has(what):
            self._take()
            assert time.monotonic() < until_s, "\n".join([f"No {what!r} in:", *self.shown])
        return self.shown

    def wait_for_end(self) -> int:
        """Wait until the program has ended; return its status."""
        until_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            self._take()
            assert time.monotonic() < until_s, "\n".join(["It does not end:", *self.shown])
        while self._take():
            pass
        return self.process.returncode

    def is_restored(self) -> bool:
        """Say whether the terminal is as it was: echo, lines, main screen, cursor, no mouse."""
        left = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l")
        same = termios.tcgetattr(self._slave) == self.settings
        return same and all(
            self.written.rfind(each) > self.written.rfind(each[:-1] + _OTHER[each[-1:]])
            for each in left
        )

    def _has(self, what: str | Callable[[list[str]], bool]) -> bool:
        if callable(what):
            return what(self.shown)
        return any(what in line for line in self.shown)

    def _take(self) -> bool:
        """Take in what the program has written; say whether there was something."""
        ready, _, _ = select.select([self.master], [], [], _LOOK_S)
        if not ready:
            return False
        chunk = os.read(self.master, _CHUNK_BYTES)
        self.written += chunk
        self._stream.feed(chunk)
        return True


def _emulator() -> ModuleType:
    """Import pyte, which `.[test]` has. An environment made before it did skips; CI does not."""
    try:
        return importlib.import_module("pyte")
    except ModuleNotFoundError:
        if os.environ.get("CI"):
            raise
        pytest.skip("pyte is not installed: pip install --editable '.[test]'")


# What switches the mode on that this one switches off, and the other way round.
_OTHER = {b"l": b"h", b"h": b"l"}
