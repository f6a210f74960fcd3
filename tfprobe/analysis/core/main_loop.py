"""Find the main loop of a process: the order in which reports and pages show loops."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop

# TensorFlow 1 fills its queues from threads of its own, which run such ops.
RUNNER_THREAD = "QueueRunnerThread"
# Kinds of JAX: a call queues its step and returns before the step has run.
ASYNCHRONOUS = frozenset({"jit", "compiled"})
QUEUED = Missing(
    "calls of JAX only queue a step; what the time between calls goes to is not worked out yet"
)
_ENQUEUES = re.compile(r"_enqueue(_?many)?(_\d+)?\Z", re.IGNORECASE)


def main_loop_first(loops: Iterable[Loop]) -> tuple[Loop, ...]:
    """Return loops by the total time of their steps without the longest, the main loop first.

    The longest step of a function that runs once or twice traces, compiles or initialises: by total
    time alone, `init` could come before the training. Among equals, the larger total comes first.
    Loops that fill a queue come last: they mostly wait for the training to take elements out.
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
    """Return whether the steps of a loop put elements into a queue, or close it.

    Where the job started the thread itself, the ops that it runs say so.
    """
    return loop.thread.startswith(RUNNER_THREAD) or bool(_ENQUEUES.search(loop.name))


def _repeated_ns(loop: Loop) -> int:
    return loop.times.sum_ns - loop.times.max_ns if loop.times.count else 0
