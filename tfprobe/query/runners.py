"""Let somebody work on many items: this process, or processes of this machine. Knows no question.

Whoever works, results come in the order of the items, each once. An item that takes two workers
with it is not tried a third time: `Died` stands in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tfprobe.query.crew import Crew, Died
from tfprobe.query.heap import keep_freed

I = TypeVar("I")  # noqa: E741 - an item, as R is its result
R = TypeVar("R")


def cpus() -> int:
    """Return how many processes can work at a time here."""
    return len(os.sched_getaffinity(0))


class Runner(Protocol):
    """Someone who works on items."""

    def run(
        self, function: Callable[[I], R], items: Sequence[I]
    ) -> Generator[R | Died, None, None]:
        """Give what `function`, one of a module, makes of each item, in their order."""


@dataclass(frozen=True, slots=True)
class Here:
    """This process."""

    def run(
        self, function: Callable[[I], R], items: Sequence[I]
    ) -> Generator[R | Died, None, None]:
        """Give what `function` makes of each item, one after the other."""
        if len(items) > 1:
            keep_freed()
        yield from map(function, items)


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """So many processes of this machine, at most."""

    count: int

    def run(
        self, function: Callable[[I], R], items: Sequence[I]
    ) -> Generator[R | Died, None, None]:
        """Give what `function` makes of each item; the processes end when it is over.

        Raises UnreadableInput when no process can be started.
        """
        crew: Crew[I, R] = Crew(function, min(self.count, len(items)))
        try:
            yield from crew.work(items)
        finally:
            crew.end()
