"""The order in which pages show loops, and with which of them they open: the main loop first."""

from __future__ import annotations

from collections.abc import Iterable

from tfprobe.model.profile import Work


def by_cost(loops: Iterable[Work]) -> tuple[Work, ...]:
    """Return loops by the time of their steps without the longest, the main loop first.

    The longest step of a function that runs once or twice traces, compiles or initialises: by its
    sum alone, `init` would come before the training. Among equals the larger sum comes first.
    """
    return tuple(
        sorted(loops, key=lambda loop: (-_repeated_ns(loop), -loop.times.sum_ns, loop.process))
    )


def _repeated_ns(loop: Work) -> int:
    return loop.times.sum_ns - loop.times.max_ns if loop.times.count else 0
