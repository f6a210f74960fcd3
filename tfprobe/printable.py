"""Make text safe to print: the one filter between a recording, which may lie, and a terminal.

`main` puts both standard streams behind `Printed`. Names are filtered before that, where a line is
laid out: only there is a line break of ours known from one in a name.
"""

from __future__ import annotations

import re
from typing import Any, TextIO

# C0 and C1 controls, DEL, breaks of lines and paragraphs, marks that turn the direction of what
# follows them, and lone surrogates, which are bytes of file names that are no UTF-8.
_STEERS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_STEERS}]")
_IN_LINE = re.compile(f"[{_STEERS}\t\n]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """Return text as one line, with what would steer a terminal shown, such as `\\x1b`."""
    return text if text.isprintable() else _IN_LINE.sub(_shown, text)


def printable_lines(text: str) -> str:
    """Return text with what would steer a terminal shown; its line breaks and tabs stay."""
    return text if text.isprintable() else _IN_TEXT.sub(_shown, text)


def replaced(text: str, by: str) -> str:
    """Return text with another one in place of each character that `printable_lines` would show."""
    return _IN_TEXT.sub(by, text)


class Printed:
    """A text stream that filters what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text through the filter."""
        self._stream.write(printable_lines(text))
        return len(text)

    @property
    def unfiltered(self) -> TextIO:
        """The stream behind the filter, for escape codes of tfprobe around filtered names."""
        return self._stream

    def __getattr__(self, name: str) -> Any:
        """Be the stream in all else. Any: whatever it has."""
        return getattr(self._stream, name)


def unfiltered(stream: TextIO) -> TextIO:
    """Return the stream behind the filter, where there is one."""
    return stream.unfiltered if isinstance(stream, Printed) else stream


def write_codes(stream: TextIO, text: str) -> None:
    """Write text with escape codes of tfprobe, in which names have been filtered."""
    unfiltered(stream).write(text)


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
