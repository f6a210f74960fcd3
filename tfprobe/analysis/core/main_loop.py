"""Find the main loop of a process: the order in which reports and pages show loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop

# TensorFlow 1 fills its queues from threads of its own, which run such ops.
RUNNER_THREAD = "QueueRunnerThread"
# A loop of unknown length with this many more steps than the main loop may be the main one.
_MOST_UNTIMED_RATIO = 4
_NO_WAIT = Missing(
    "calls of this loop only queue its steps, and the program was not seen to wait for them"
)
_UNDIVIDED = Missing(
    "calls of this loop only queue its steps, and the program waits for them together with those "
    "of another loop, so that nothing says how long each took"
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


def unknown_times(loop: Loop) -> Missing | None:
    """Return why the lengths of a loop's steps are unknown, None if they are known."""
    queue = loop.queue
    if queue is None or queue.unfinished < loop.executed:
        return None
    return _UNDIVIDED if queue.undivided else _NO_WAIT


def unknown_account(main: Sequence[Loop], loops: Iterable[Loop]) -> Missing | None:
    """Return why the time of a process cannot be divided around its main loops, None if it can."""
    most = _MOST_UNTIMED_RATIO * max((loop.executed for loop in main), default=0)
    reasons = (unknown_times(loop) for loop in loops if loop.executed > most)
    return next((reason for reason in reasons if reason is not None), None)


def fills_queue(loop: Loop) -> bool:
    """Return whether the steps of a loop put elements into a queue, or close it.

    Where the job started the thread itself, the ops that it runs say so.
    """
    return loop.thread.startswith(RUNNER_THREAD) or bool(_ENQUEUES.search(loop.name))


def _repeated_ns(loop: Loop) -> int:
    return loop.times.sum_ns - loop.times.max_ns if loop.times.count else 0
