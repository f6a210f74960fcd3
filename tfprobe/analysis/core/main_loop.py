"""The order in which pages show loops, and with which of them they open: the main loop first."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfprobe.profile.profile import Loop

# TensorFlow 1 fills its queues from threads of its own, by runs of such ops.
RUNNER_THREAD = "QueueRunnerThread"
_ENQUEUES = re.compile(r"_enqueue(_?many)?(_\d+)?\Z", re.IGNORECASE)


def main_loop_first(loops: Iterable[Loop]) -> tuple[Loop, ...]:
    """Return loops by the time of their steps without the longest, the main loop first.

    The longest step of a function that runs once or twice traces, compiles or initialises: by its
    sum alone, `init` would come before the training. Among equals the larger sum comes first.
    What fills a queue comes last: it waits until the training has taken something out.
    """
    return tuple(
        sorted(
            loops,
            key=lambda loop: (
                fills_queue(loop),
                -_repeated_ns(loop),
                -loop.times.sum_ns,
                loop.process,
            ),
        )
    )


def fills_queue(loop: Loop) -> bool:
    """Say whether the steps of a loop put elements into a queue, or close it in the end.

    A thread of the job's own is known by what it runs.
    """
    return loop.thread.startswith(RUNNER_THREAD) or bool(_ENQUEUES.search(loop.name))


def _repeated_ns(loop: Loop) -> int:
    return loop.times.sum_ns - loop.times.max_ns if loop.times.count else 0
