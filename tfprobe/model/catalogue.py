"""Hold one line of a listing of runs."""

from __future__ import annotations

from dataclasses import dataclass

from tfprobe.errors import Missing


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run at a glance."""

    id: str
    directory: str
    command: tuple[str, ...] | Missing
    started: str | Missing
    host: str | Missing
    processes: int
    steps: int
    state: str
