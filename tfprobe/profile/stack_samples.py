"""Hold the Python stacks that were read of a process from outside, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
# Of a stretch in which no Python ran on its thread.
NO_STACK = -1


class SampledFrame(NamedTuple):
    """A line of a function; `file` is "" of one that a damaged recording has lost."""

    file: str
    line: int
    function: str


class SampledThread(NamedTuple):
    """A thread by the number that py-spy gives it: the native one, or that of pthreads."""

    id: int
    name: str


class SampledChunk(NamedTuple):
    """What one reader did, in unix ns. `samples` are those of all threads, `errors` what failed."""

    start_ns: int
    end_ns: int
    rate_per_s: int
    samples: int
    errors: int
    cost_ns: int


@dataclass(frozen=True, slots=True)
class StackSamples:
    """The stacks of one process, the same on a thread until the next row of it, in unix ns.

    A row's stack was read at `read_ns`, where it was first seen to differ; `start_ns` is half a
    sample before, since nobody knows when between two samples it changed. `nodes` has the innermost
    call of each row as a position in the call paths: `callers` and `frame_of`, callers first.
    `refusals` say why there are no stacks of some of the time.
    """

    process: int
    frames: tuple[SampledFrame, ...]
    callers: Int64s
    frame_of: Int64s
    threads: tuple[SampledThread, ...]
    thread: Int64s
    nodes: Int64s
    read_ns: Int64s
    start_ns: Int64s
    end_ns: Int64s
    chunks: tuple[SampledChunk, ...]
    refusals: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Return how many stacks were read, of all threads."""
        return sum(each.samples for each in self.chunks)

    @property
    def lasted_ns(self) -> int:
        """Return how long it was sampled."""
        return sum(each.end_ns - each.start_ns for each in self.chunks)

    @property
    def rates_per_s(self) -> tuple[int, int]:
        """Return the lowest and the highest rate of samples of each thread; 0 where none ran."""
        rates = [each.rate_per_s for each in self.chunks]
        return min(rates, default=0), max(rates, default=0)
