"""Steps that a call only queues: each ends when the job has waited for what it computes.

A loop of such steps is marked in steps.bin. Its step wrapper records calls. Where the job then waits for a value, the
latest step is made to end there and is marked as waited for: up to it, the time of steps is known. If the value was
there already, the step ended earlier, nobody knows when, and its end is left where the call returned.

Several loops may have queued steps by then. Of loops that take turns, one gets all of the time. Loops of which one ran
after the other, as a training and an evaluation, are *phases*: the time is divided among them by their traced steps.
"""

from tfprobe_agent.core import gaps
from tfprobe_agent.core.steps_layout import (
    CALL_NS,
    QUEUES,
    RING_MASK,
    RING_STEPS,
    TIME_MASK,
    WAIT_NS,
    WAITED_FLAG,
    WAITS,
)
from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.unpatched import UNPATCHED

# A phase has more than one in so many of the queued steps.
LEAST_PART = 10
# How many steps back the wait before the latest is looked for.
LONGEST_RUN = 256


def enroll(current, loop):
    """Note that calls of a loop of this thread only queue its steps."""
    if loop.shared is None and loop.index >= 0 and loop not in current.queued:
        loop.words[loop.base + QUEUES] = loop.words[loop.base + QUEUES] or 1
        current.queued.append(loop)


def waited(began_ns, was_ready, owner=None, is_ours=False):
    """Note that the calling thread has waited since `began_ns` for a value, which may have been there already.

    All queued steps are over then. Of several loops that took turns only one gets the time of the wait: `owner`, or the
    one with the longest steps, as far as that is known. The waits that a traced step needs, `is_ours`, are not the
    job's.
    """
    current = THREAD.current
    loops = current.queued
    pending = loops if len(loops) == 1 and loops[0].n else [loop for loop in loops if loop.n > loop.waited]
    if pending:
        if len(pending) > 1 and owner is None:
            owner = _divided(pending, began_ns if was_ready else UNPATCHED.monotonic_ns(), is_ours)
        owner = owner or pending[0]
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
        _count_wait(owner, owner.ring[slot - 1], word & TIME_MASK)


def _count_wait(loop, start_ns, end_ns):
    loop.words[loop.base + WAITS] += 1
    loop.words[loop.base + CALL_NS] += end_ns - start_ns


class _Phase:
    """Queued steps of loops that took turns: when the first and the last were called, and how many there are."""

    __slots__ = ("first_ns", "last_ns", "loops", "steps")

    def __init__(self, loop):
        self.loops = [loop]
        self.steps = loop.n - loop.waited
        self.first_ns = loop.ring[(_first_pending(loop) & RING_MASK) * 2]
        self.last_ns = loop.ring[((loop.n - 1) & RING_MASK) * 2]

    def join(self, other):
        """Let the steps of another phase belong to this one."""
        self.loops += other.loops
        self.steps += other.steps
        self.last_ns = max(self.last_ns, other.last_ns)

    def owner(self):
        """Return the loop that gets the time."""
        return _longest(self.loops)


def _first_pending(loop):
    """Return the first of the queued steps that the ring still has."""
    return max(loop.waited, loop.n - RING_STEPS)


def _divided(pending, now_ns, is_ours):
    """Divide the time up to now among the phases of several loops; return the loop of the last one.

    If that cannot be known, the steps so far are marked as such.
    """
    if all(loop.n - loop.waited == 1 for loop in pending):
        owners = [_longest(pending)]
    else:
        owners = [phase.owner() for phase in _phases(pending)]
    if not is_ours:
        for loop in pending:
            if loop not in owners:
                loop.words[loop.base + QUEUES] = 1 + loop.n
    if len(owners) > 1:
        busy_ns = _busy_times(owners, now_ns)
        if busy_ns is not None:
            _end_phases(owners, busy_ns, now_ns, is_ours)
        else:
            for loop in owners:
                _leave_unknown(loop)
    return owners[-1]


def _phases(pending):
    """Return the phases of loops with queued steps, in the order of time.

    Loops that took turns are in one, as are single calls and the few that belong to many.
    """
    phases = []
    most = sum(loop.n - loop.waited for loop in pending) // LEAST_PART
    for phase in sorted(map(_Phase, pending), key=_began_ns):
        before = phases[-1] if phases else None
        if before is None or (phase.first_ns > before.last_ns and min(before.steps, phase.steps) > max(1, most)):
            phases.append(phase)
        else:
            before.join(phase)
    return phases


def _began_ns(phase):
    return phase.first_ns


def _busy_times(loops, now_ns):
    """Return how long the queued steps of each loop ran; None if this is not known of two of them."""
    lengths_ns = [loop.drained_ns or _mean_ns(loop) for loop in loops]
    busy_ns = [length_ns * (loop.n - loop.waited) for loop, length_ns in zip(loops, lengths_ns)]
    if all(busy_ns):
        return busy_ns
    whole_ns = now_ns - loops[0].ring[(_first_pending(loops[0]) & RING_MASK) * 2]
    rest_ns = whole_ns - sum(busy_ns)
    if busy_ns.count(0) > 1 or rest_ns * LEAST_PART < whole_ns:
        return None
    return [own_ns or rest_ns for own_ns in busy_ns]


def _mean_ns(loop):
    """Return the mean cycle of the steps up to the job's latest wait, since the one before; 0 if that is not known."""
    last, least = loop.waited - 1, max(loop.waited - LONGEST_RUN, loop.words[loop.base + QUEUES] - 1, 0)
    for step in range(last - 1, least - 1, -1):
        if loop.ring[(step & RING_MASK) * 2 + 1] & WAITED_FLAG:
            start_ns = loop.ring[((step + 1) & RING_MASK) * 2]
            return ((loop.ring[(last & RING_MASK) * 2 + 1] & TIME_MASK) - start_ns) // (last - step)
    return 0


def _end_phases(loops, busy_ns, now_ns, is_ours):
    """Let each phase but the last end when its steps were over, and the next begin there.

    These take as long as traced ones, or shorter in proportion if they took less in all.
    """
    at_ns = loops[0].ring[(_first_pending(loops[0]) & RING_MASK) * 2]
    whole_ns, left_ns = now_ns - at_ns, sum(busy_ns)
    for loop, next_loop, own_ns in zip(loops, loops[1:], busy_ns):
        last = ((loop.n - 1) & RING_MASK) * 2
        word = loop.ring[last + 1]
        # A device that keeps up with the job has only the last step left to run.
        least_ns = max(loop.ring[last] + loop.drained_ns, word & TIME_MASK)
        at_ns = min(max(at_ns + min(own_ns, whole_ns * own_ns // left_ns), least_ns), now_ns)
        whole_ns, left_ns = max(now_ns - at_ns, 0), left_ns - own_ns
        loop.ring[last + 1] = word & ~TIME_MASK | WAITED_FLAG | at_ns
        if not is_ours:
            _count_wait(loop, loop.ring[last], word & TIME_MASK)
        first = (_first_pending(next_loop) & RING_MASK) * 2
        word = next_loop.ring[first + 1]
        next_loop.ring[first + 1] = word & ~TIME_MASK | max(word & TIME_MASK, at_ns)
        next_loop.ring[first] = max(next_loop.ring[first], at_ns)


def _leave_unknown(loop):
    """Note that the times of all steps of a loop so far are not known."""
    loop.ring[((loop.n - 1) & RING_MASK) * 2 + 1] |= WAITED_FLAG
    loop.words[loop.base + QUEUES] = 1 + loop.n


def _longest(loops):
    """Return the loop whose queued steps take longest: of those traced, or by the first call, which compiles."""
    traced = [loop for loop in loops if loop.drained_ns]
    return max(traced, key=_busy_ns) if traced else max(loops, key=_first_call_ns)


def _busy_ns(loop):
    return loop.drained_ns * (loop.n - loop.waited)


def _first_call_ns(loop):
    if not loop.first_call_ns:
        loop.first_call_ns = (loop.ring[1] & TIME_MASK) - loop.ring[0]
    return loop.first_call_ns
