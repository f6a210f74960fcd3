"""Hear what a process says of an order, in its events, reading only what was added since."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.profile.snapshots import Captured
from tfprobe.runs import safe_files
from tfprobe.runs.process_folder.jsonl import Json, integer, object_of, text


@dataclass(frozen=True, slots=True)
class Heard:
    """What a process has said of one order so far.

    `taken` is (samples, work) as it took it, `refusal` why it does not take it at all, `declined`
    why it did not record a step since the last capture, `superseded_by` the order in its place.
    """

    taken: tuple[int, int] | None = None
    refusal: str | None = None
    declined: str | None = None
    superseded_by: int | None = None
    captures: tuple[Captured, ...] = ()


class Hearing:
    """The events of one process from one moment on."""

    def __init__(self, events: Path) -> None:
        """Begin with what is appended from now on."""
        self._path = events
        self._at_bytes = _size_bytes(events)
        self._captures: list[Captured] = []
        self.heard = Heard()

    def listen(self, request: int) -> Heard:
        """Return all that was said of the order of this number."""
        for line in self._new_lines():
            fields = object_of(line)
            if fields is not None:
                self._hear(fields, request)
        self.heard = replace(self.heard, captures=tuple(self._captures))
        return self.heard

    def _new_lines(self) -> list[bytes]:
        try:
            with os.fdopen(safe_files.opened(self._path.parents[2], self._path), "rb") as file:
                file.seek(self._at_bytes)
                content = file.read()
        except OSError:
            return []
        whole, newline, _ = content.rpartition(b"\n")
        self._at_bytes += len(whole) + len(newline)
        return whole.split(b"\n")

    def _hear(self, fields: Json, request: int) -> None:
        kind = fields.get("event")
        if kind == "request" and integer(fields, "superseded") == request:
            self.heard = replace(self.heard, superseded_by=integer(fields, "request"))
        if integer(fields, "request") != request:
            return
        if kind == "request":
            samples, work = integer(fields, "samples"), integer(fields, "work")
            self.heard = replace(self.heard, taken=(samples or 0, -1 if work is None else work))
        elif kind == "declined" and self.heard.taken is None:
            self.heard = replace(self.heard, refusal=text(fields, "why") or "it does not say why")
        elif kind == "declined":
            self.heard = replace(self.heard, declined=text(fields, "why"))
        elif kind == "sample":
            self.heard = replace(self.heard, declined=None)
            self._note_capture(fields)

    def _note_capture(self, fields: Json) -> None:
        work, step, file = integer(fields, "work"), integer(fields, "step"), text(fields, "capture")
        if work is not None and step is not None and file is not None:
            self._captures.append(Captured(work, step, file))


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
