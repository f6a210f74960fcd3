"""Steps that a call only queues: each ends when the job has waited for what it computes.

A loop of such steps is marked in steps.bin. Its step wrapper records calls. Where the job then waits for a value, the
latest step is made to end there and is marked as waited for: up to it, the time of steps is known. If the value was
there already, the step ended earlier, nobody knows when, and its end is left where the call returned.
"""

from tfprobe_agent.core import gaps
from tfprobe_agent.core.steps_layout import CALL_NS, QUEUES, RING_MASK, TIME_MASK, WAIT_NS, WAITED_FLAG, WAITS
from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.unpatched import UNPATCHED


def enroll(current, loop):
    """Note that calls of a loop of this thread only queue its steps."""
    if loop.shared is None and loop.index >= 0 and loop not in current.queued:
        loop.words[loop.base + QUEUES] = 1
        current.queued.append(loop)


def waited(began_ns, was_ready, owner=None, is_ours=False):
    """Note that the calling thread has waited since `began_ns` for a value, which may have been there already.

    All queued steps are over then. Of several loops only one gets the time of the wait: `owner`, or the one with the
    longest steps, as far as that is known. The waits that a traced step needs, `is_ours`, are not the job's.
    """
    current = THREAD.current
    loops = current.queued
    pending = loops if len(loops) == 1 and loops[0].n else [loop for loop in loops if loop.n > loop.waited]
    if pending:
        owner = owner or (max(pending, key=_weight(pending)) if len(pending) > 1 else pending[0])
        for loop in pending:
            loop.waited = loop.n
        current.waited_loop = owner
    else:
        owner = current.waited_loop
        if owner is None or owner.n != owner.waited:
            return
    now_ns = UNPATCHED.monotonic_ns()
    slot = ((owner.n - 1) & RING_MASK) * 2 + 1
    if current.watch is not None and current.watch.loop is owner:
        gaps.waited(current, now_ns - began_ns, not was_ready)
    word = owner.ring[slot]
    if was_ready:
        owner.ring[slot] = word | WAITED_FLAG
        return
    owner.ring[slot] = word & ~TIME_MASK | WAITED_FLAG | now_ns
    if is_ours or owner.n == 1:  # the first call compiles
        return
    owner.words[owner.base + WAIT_NS] += now_ns - began_ns
    if not word & WAITED_FLAG:
        owner.words[owner.base + WAITS] += 1
        owner.words[owner.base + CALL_NS] += (word & TIME_MASK) - owner.ring[slot - 1]


def _weight(loops):
    """Return how to compare loops by the length of their steps: as traced, or by the first call, which compiles."""
    if all(loop.drained_ns for loop in loops):
        return _drained_ns
    return _first_call_ns


def _drained_ns(loop):
    return loop.drained_ns


def _first_call_ns(loop):
    if not loop.first_call_ns:
        loop.first_call_ns = (loop.ring[1] & TIME_MASK) - loop.ring[0]
    return loop.first_call_ns
