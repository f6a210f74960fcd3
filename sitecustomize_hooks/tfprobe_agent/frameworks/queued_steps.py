"""Steps that a call only queues: each ends when the job has waited for what it computes.

A loop of such steps is marked in steps.bin. Its step wrapper records calls. Where the job then waits for a value, the
latest step is made to end there and is marked as waited for: up to it, the time of steps is known. If the value was
there already, the step ended earlier, nobody knows when, and its end is left where the call returned.

Several loops may have queued steps by then. Of loops that take turns, as a generator and a discriminator do, each step
gets the part of the time that traced steps say; before all of them were traced, one loop gets all of it. Loops of which
one ran after the other, as a training and an evaluation, are *phases*: the time is divided among them likewise.
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
# A loop that was not traced by then takes so little time that it may never be.
FIRST_STEPS = 64
# How often the length of steps that took turns is tried, and the shortest: a part of that of traced ones.
TRIES, LEAST_RATIO = 3, 0.01
# A step that was waited for this part of a traced one was over then: a trace makes a short step twice as long.
OVER_RATIO = 0.5


def enroll(current, loop):
    """Note that calls of a loop of this thread only queue its steps."""
    if loop.shared is None and loop.index >= 0 and loop not in current.queued:
        loop.words[loop.base + QUEUES] = loop.words[loop.base + QUEUES] or 1
        current.queued.append(loop)


def waited(began_ns, was_ready, owner=None, is_ours=False):
    """Note that the calling thread has waited since `began_ns` for a value, which may have been there already.

    All queued steps are over then, and the latest of them ended with the wait. Of several loops that took turns and
    were not all traced, the one with the longest steps gets the time, as far as that is known. The waits that a traced
    step of `owner` needs, `is_ours`, are not the job's.
    """
    current = THREAD.current
    loops = current.queued
    pending = loops if len(loops) == 1 and loops[0].n else [loop for loop in loops if loop.n > loop.waited]
    is_again = not pending or pending[0].n == pending[0].waited
    if pending:
        if len(pending) > 1 and owner is None:
            owner = _divided(pending, began_ns if was_ready else UNPATCHED.monotonic_ns(), was_ready, is_ours)
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
    if is_again and word & WAITED_FLAG and _is_over(owner, owner.ring[slot - 1], word & TIME_MASK):
        return
    owner.ring[slot] = word & ~TIME_MASK | WAITED_FLAG | now_ns
    if is_ours or owner.n == 1:  # the first call compiles
        return
    owner.words[owner.base + WAIT_NS] += now_ns - began_ns
    if not word & WAITED_FLAG:
        _count_wait(owner, owner.ring[slot - 1], word & TIME_MASK)


def _is_over(loop, start_ns, end_ns):
    """Return whether a step that was waited for until `end_ns` had ended: what is waited for later is not its own.

    The program computes it between steps. A value of the step before may have been there already, soon after the call.
    """
    return loop.drained_ns and end_ns - start_ns >= OVER_RATIO * loop.drained_ns


def _count_latest(loop):
    slot = ((loop.n - 1) & RING_MASK) * 2
    _count_wait(loop, loop.ring[slot], loop.ring[slot + 1] & TIME_MASK)


def _count_wait(loop, start_ns, end_ns):
    loop.words[loop.base + WAITS] += 1
    loop.words[loop.base + CALL_NS] += end_ns - start_ns


class _Phase:
    """Queued steps of loops that took turns: when the first and the last were called, and how many there are."""

    __slots__ = ("first_ns", "last_ns", "loops", "queued", "steps")

    def __init__(self, loop):
        self.loops = [loop]
        self.queued = ()
        self.steps = loop.n - loop.waited
        self.first_ns = _called_ns(loop, _first_pending(loop))
        self.last_ns = _called_ns(loop, loop.n - 1)

    def join(self, other):
        """Let the steps of another phase belong to this one."""
        self.loops += other.loops
        self.steps += other.steps
        self.last_ns = max(self.last_ns, other.last_ns)

    def choose(self):
        """Leave the loops that get the time, in the order of their first calls: those that were traced, or one.

        That one has the time of the others, too, until they are traced, or their first steps have passed without.
        """
        if len(self.loops) == 1:
            return
        traced = [loop for loop in self.loops if loop.drained_ns]
        if not traced or any([not loop.drained_ns and loop.n <= FIRST_STEPS for loop in self.loops]):
            owner = _longest(self.loops)
            owner.had_others = owner.n
            self.loops = [owner]
            return
        for loop in traced:
            # What was folded stays as it is: its times could not be taken out.
            if loop.had_others and not loop.totals[0] and not _is_most(loop, traced):
                loop.words[loop.base + QUEUES] = max(1 + loop.had_others, loop.words[loop.base + QUEUES])
            loop.had_others = 0
        self.loops = sorted(traced, key=_first_called_ns)
        if len(traced) > 1:
            self.queued = _in_order(traced)

    def first(self):
        """Return the loop of the first queued step."""
        return self.loops[0]

    def last(self):
        """Return the loop of the last queued step."""
        return max(self.loops, key=_last_called_ns)

    def busy_ns(self):
        """Return how long the queued steps ran; 0 if that is not known."""
        if len(self.loops) > 1:
            return sum(map(_busy_ns, self.loops))
        (loop,) = self.loops
        return (loop.drained_ns or _mean_ns(loop)) * (loop.n - loop.waited)


def _called_ns(loop, step):
    return loop.ring[(step & RING_MASK) * 2]


def _first_pending(loop):
    """Return the first of the queued steps that the ring still has."""
    return max(loop.waited, loop.n - RING_STEPS)


def _first_called_ns(loop):
    return _called_ns(loop, _first_pending(loop))


def _last_called_ns(loop):
    return _called_ns(loop, loop.n - 1)


def _is_most(loop, loops):
    """Return whether the others of these loops hardly take any time: what it had with theirs is nearly its own."""
    return sum(map(_busy_ns, loops)) * (LEAST_PART - 1) <= _busy_ns(loop) * LEAST_PART


def _divided(pending, now_ns, was_ready, is_ours):
    """Divide the time up to now among the queued steps of several loops; return the loop of the last one.

    If that cannot be known, the steps so far are marked as such.
    """
    if all([loop.drained_ns and loop.n - loop.waited == 1 and not loop.had_others for loop in pending]):
        # What jobs do most often, at each of their steps, in less time.
        queued = _in_order(pending)
        owner = queued[-1][2]
        if not was_ready and not is_ours:
            _count_latest(owner)
        _take_turns(queued, queued[0][0], now_ns, was_ready)
        return owner
    phases = _phases(pending)
    for phase in phases:
        phase.choose()
    timed = [loop for phase in phases for loop in phase.loops]
    if not is_ours:
        for loop in pending:
            if loop not in timed:
                loop.words[loop.base + QUEUES] = 1 + loop.n
    if len(phases) > 1:
        busy_ns, unknown = _busy_times(phases, now_ns)
        for phase in unknown:
            for loop in phase.loops:
                _leave_unknown(loop)
        if busy_ns is None:
            return phases[-1].last()
        ends_ns = _end_phases(phases, busy_ns, now_ns, is_ours)
    else:
        ends_ns = []
    owner = phases[-1].last()
    for phase, began_ns, end_ns in zip(phases, [phases[0].first_ns] + ends_ns, ends_ns + [now_ns]):
        if phase.queued:
            is_over = was_ready and phase is phases[-1]
            if not is_over and not is_ours:
                _count_latest(phase.last())
            _take_turns(phase.queued, began_ns, end_ns, is_over)
    return owner


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


def _busy_times(phases, now_ns):
    """Return how long the queued steps of each phase ran, and which of them that does not tell the time of.

    The times are None if they are not known of two phases. One has what is left by the others, which says something of
    it only if it is a good part.
    """
    busy_ns = [phase.busy_ns() for phase in phases]
    unknown = [phase for phase, own_ns in zip(phases, busy_ns) if not own_ns]
    if len(unknown) > 1:
        return None, phases
    whole_ns = now_ns - phases[0].first_ns
    rest_ns = max(whole_ns - sum(busy_ns), 0)
    return [own_ns or rest_ns for own_ns in busy_ns], unknown if rest_ns * LEAST_PART < whole_ns else ()


def _mean_ns(loop):
    """Return the mean cycle of the steps up to the job's latest wait, since the one before; 0 if that is not known."""
    last, least = loop.waited - 1, max(loop.waited - LONGEST_RUN, loop.words[loop.base + QUEUES] - 1, 0)
    for step in range(last - 1, least - 1, -1):
        if loop.ring[(step & RING_MASK) * 2 + 1] & WAITED_FLAG:
            start_ns = _called_ns(loop, step + 1)
            return ((loop.ring[(last & RING_MASK) * 2 + 1] & TIME_MASK) - start_ns) // (last - step)
    return 0


def _end_phases(phases, busy_ns, now_ns, is_ours):
    """Let each phase but the last end when its steps were over, and the next begin there; return these times.

    These take as long as traced ones, or shorter in proportion if they took less in all.
    """
    at_ns, ends_ns = phases[0].first_ns, []
    whole_ns, left_ns = now_ns - at_ns, sum(busy_ns)
    for phase, next_phase, own_ns in zip(phases, phases[1:], busy_ns):
        loop, next_loop = phase.last(), next_phase.first()
        last = ((loop.n - 1) & RING_MASK) * 2
        word = loop.ring[last + 1]
        # A device that keeps up with the job has only the last step left to run.
        least_ns = max(loop.ring[last] + loop.drained_ns, word & TIME_MASK)
        at_ns = min(max(at_ns + min(own_ns, whole_ns * own_ns // left_ns), least_ns), now_ns)
        whole_ns, left_ns = max(now_ns - at_ns, 0), left_ns - own_ns
        ends_ns.append(at_ns)
        if len(phase.loops) == 1:
            if not is_ours:
                _count_latest(loop)
            loop.ring[last + 1] = word & ~TIME_MASK | WAITED_FLAG | at_ns
        first = (_first_pending(next_loop) & RING_MASK) * 2
        word = next_loop.ring[first + 1]
        next_loop.ring[first + 1] = word & ~TIME_MASK | max(word & TIME_MASK, at_ns)
        next_loop.ring[first] = max(next_loop.ring[first], at_ns)
    return ends_ns


def _in_order(loops):
    """Return the queued steps of loops in the order of their calls: when each was called, its slot, and its loop."""
    queued = [
        (_called_ns(loop, step), (step & RING_MASK) * 2, loop)
        for loop in loops
        for step in range(_first_pending(loop), loop.n)
    ]
    return sorted(queued, key=_first_of)


def _take_turns(queued, began_ns, end_ns, may_end_before):
    """Let queued steps run in the order of their calls, up to that time or, if they may, before it.

    They take as long as traced ones, or longer or shorter in proportion. All but the last of a loop are stored with
    calls of no length, except for what a call took beyond that: `spread_out` gives each the mean of its loop.
    """
    ratio = 1.0
    ran, busy_ns = _run(queued, began_ns, ratio)
    for _ in range(TRIES):
        left_ns = end_ns - ran[-1][1]
        if not left_ns or not busy_ns or (left_ns > 0 and may_end_before):
            break
        ratio = max(ratio + left_ns / busy_ns, LEAST_RATIO)
        ran, busy_ns = _run(queued, began_ns, ratio)
    for (_, slot, loop), (start_ns, until_ns, excess_ns) in zip(queued, ran):
        is_last = slot == ((loop.n - 1) & RING_MASK) * 2
        at_ns = until_ns if is_last else start_ns + excess_ns
        word = loop.ring[slot + 1] & ~TIME_MASK
        loop.ring[slot] = min(start_ns, end_ns)
        loop.ring[slot + 1] = word | (WAITED_FLAG if is_last else 0) | min(at_ns, end_ns)


def _first_of(values):
    return values[0]


def _run(queued, began_ns, ratio):
    """Return when each step begins and ends on a device, and how long it ends after that because of its call.

    It takes so many times as long as a traced one, and is not over before its call, which may compile. Return also how
    long traced ones of those take that the device ran since it was last idle.
    """
    ran, at_ns, busy_ns = [], began_ns, 0
    for called_ns, slot, loop in queued:
        is_idle = called_ns > at_ns
        start_ns = called_ns if is_idle else at_ns
        over_ns = start_ns + int(loop.drained_ns * ratio)
        called_until_ns = loop.ring[slot + 1] & TIME_MASK
        at_ns = max(over_ns, called_until_ns)
        busy_ns = 0 if at_ns > over_ns else loop.drained_ns + (0 if is_idle else busy_ns)
        ran.append((start_ns, at_ns, at_ns - over_ns))
    return ran, busy_ns


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
