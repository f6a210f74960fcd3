"""Hold what became of an order for samples, process by process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tfprobe.errors import Missing


class Answer(Enum):
    """What a process said to an order.

    TAKEN: its next steps are recorded; `captures` tells how many have been. DECLINED: it may not,
    or cannot. SUPERSEDED: another order took the place of this one. NONE: it has not looked yet,
    and the order stands. ENDED: it ended before it took it. NOT_ASKED: it could not be asked.
    """

    TAKEN = "taken"
    DECLINED = "declined"
    SUPERSEDED = "superseded"
    NONE = "no answer"
    ENDED = "ended"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Captured:
    """One capture on disk: a step of a work, and the name of its file."""

    work: int
    step: int
    file: str


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """Where an order stands in one process.

    `process` is the name of its folder, `program` what it runs ("" where nobody knows), `request`
    the number that the order has there, `samples` how many it was for, `executed` the steps of all
    works when it was given.
    """

    host: str
    pid: int | Missing
    process: str
    state: str
    answer: Answer
    why: str | Missing
    samples: int
    captures: tuple[Captured, ...]
    request: int | Missing
    executed: int | Missing
    program: str = ""

    @property
    def is_met(self) -> bool:
        """Say whether all that was ordered is on disk."""
        return len(self.captures) >= self.samples
