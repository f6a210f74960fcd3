"""Say what the machine did to a process while a step or a gap took longer than usual.

Samples of resources are a second apart and tell nothing of a single step. So they explain only what
they can pay for: in the time between two samples the process must have waited, beyond what it
waits as a rule, for at least half of what all slow steps of that time took beyond the usual.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.activities import Pulse
from tfprobe.views.intervals import Int64s

# Of the excess of all slow steps between two samples.
LEAST_PAID_RATIO = 0.5
# What a process waits as a rule takes several distances between samples to know.
_LEAST_DISTANCES = 4
# A process that is pushed from its CPUs so much more often than usual shares them with others.
_PUSHED_TIMES = 5.0
_LEAST_PUSHES_PER_S = 50.0
# Others are told of where they keep half a CPU busy.
_LEAST_OTHERS_CORES = 0.5
_NS_PER_S = 1_000_000_000

BY_OTHERS, BY_ITSELF = "other processes ran", "its own threads ran"


@dataclass(frozen=True, slots=True)
class Waited:
    """Why a process waited: `kind` is throttled, stolen, waited, storage or crowded."""

    kind: str
    name: str = ""


class MachineCauses:
    """What resource samples of one process explain. Times are unix ns."""

    def __init__(self, pulses: Sequence[Pulse]) -> None:
        """Take the samples of one process, in any order."""
        self._pulses = sorted(pulses, key=lambda pulse: pulse.at_ns)
        self._at_ns = np.array([pulse.at_ns for pulse in self._pulses], dtype=np.int64)
        pairs = list(itertools.pairwise(self._pulses))
        self._knows_usual = len(pairs) >= _LEAST_DISTANCES
        self._usual_delay = _usual(pairs, _delay_ns)
        self._usual_steal = _usual(pairs, _steal_ns)
        self._usual_storage = _usual(pairs, _storage_ns)
        self._usual_pushes = _usual(pairs, _pushes)

    def explain(
        self, start_ns: Int64s, end_ns: Int64s, excess_ns: Int64s
    ) -> tuple[Waited | None, ...]:
        """Return what explains each interval; None where samples explain nothing.

        The intervals are all that ask for an explanation: they share what was waited.
        """
        order = np.argsort(start_ns, kind="stable")
        sums_ns = np.concatenate([[0], np.cumsum(excess_ns[order])])
        before = np.searchsorted(self._at_ns, start_ns, side="right") - 1
        after = np.searchsorted(self._at_ns, end_ns, side="left")
        found: list[Waited | None] = []
        for first, last in zip(before.tolist(), after.tolist(), strict=True):
            if first < 0 or last >= len(self._pulses):
                found.append(None)
                continue
            within = np.searchsorted(start_ns[order], self._at_ns[[first, last]], side="left")
            to_pay_ns = int(sums_ns[within[1]] - sums_ns[within[0]])
            found.append(self._of(self._pulses[first], self._pulses[last], to_pay_ns))
        return tuple(found)

    def _of(self, first: Pulse, last: Pulse, to_pay_ns: int) -> Waited | None:
        least_ns = LEAST_PAID_RATIO * to_pay_ns
        passed_ns = max(last.at_ns - first.at_ns, 1)
        if _grown(first.throttled_ns, last.throttled_ns) >= least_ns:
            return Waited("throttled")
        if not self._knows_usual:
            return None
        if _steal_ns(first, last) - self._usual_steal * passed_ns >= least_ns:
            return Waited("stolen")
        if _delay_ns(first, last) - self._usual_delay * passed_ns >= least_ns:
            return Waited("waited", _who_ran(first, last))
        if _storage_ns(first, last) - self._usual_storage * passed_ns >= least_ns:
            return Waited("storage")
        if isinstance(last.run_delay_ns, Missing) and self._is_crowded(first, last, passed_ns):
            return Waited("crowded")
        return None

    def _is_crowded(self, first: Pulse, last: Pulse, passed_ns: int) -> bool:
        """Say whether it was pushed from its CPUs often, for samples without its waiting time."""
        pushes_per_s = _pushes(first, last) * _NS_PER_S / passed_ns
        usual_per_s = self._usual_pushes * _NS_PER_S
        return pushes_per_s >= max(_LEAST_PUSHES_PER_S, _PUSHED_TIMES * usual_per_s)


def _usual(pairs: Sequence[tuple[Pulse, Pulse]], grown: Callable[[Pulse, Pulse], float]) -> float:
    """Return how far a counter goes in a ns as a rule: the median of all distances."""
    rates = [
        grown(first, last) / (last.at_ns - first.at_ns)
        for first, last in pairs
        if last.at_ns > first.at_ns
    ]
    return float(np.median(rates)) if rates else 0.0


def _delay_ns(first: Pulse, last: Pulse) -> int:
    return _grown(first.run_delay_ns, last.run_delay_ns)


def _steal_ns(first: Pulse, last: Pulse) -> float:
    """Return what the hypervisor took of each CPU."""
    cpus = 1 if isinstance(last.cpus, Missing) else max(last.cpus, 1)
    return _grown(first.machine_steal_ns, last.machine_steal_ns) / cpus


def _storage_ns(first: Pulse, last: Pulse) -> int:
    """Return how long CPUs had nothing to do but wait for storage, if the process used any."""
    used = (
        _grown(first.major_faults, last.major_faults)
        + _grown(first.read_bytes, last.read_bytes)
        + _grown(first.written_bytes, last.written_bytes)
    )
    return _grown(first.machine_io_wait_ns, last.machine_io_wait_ns) if used else 0


def _pushes(first: Pulse, last: Pulse) -> int:
    return _grown(first.involuntary_switches, last.involuntary_switches)


def _who_ran(first: Pulse, last: Pulse) -> str:
    own_ns = _grown(first.user_ns, last.user_ns) + _grown(first.system_ns, last.system_ns)
    others_ns = _grown(first.machine_busy_ns, last.machine_busy_ns) - own_ns
    passed_ns = last.at_ns - first.at_ns
    return BY_OTHERS if others_ns >= _LEAST_OTHERS_CORES * passed_ns else BY_ITSELF


def _grown(first: int | Missing, last: int | Missing) -> int:
    """Return how far a counter went, 0 where that is not known."""
    if isinstance(first, Missing) or isinstance(last, Missing):
        return 0
    return max(last - first, 0)
