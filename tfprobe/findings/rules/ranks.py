"""Find what the processes of a job cost each other."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Subject
from tfprobe.findings.rule import LoopAnalysis, RunAnalysis, Verdict
from tfprobe.findings.thresholds import Thresholds

# A slow machine can be made as fast as the others or left out.
LIKELY = 0.5
# Facts told of ranks; of hundreds the first will do.
_SHOWN = 3
# Of fewer nobody can say what is usual among them.
FEW = 8
# Iglewicz and Hoaglin's robust z (docs/steps.md): where it is an outlier, what makes it one of the
# normal distribution, and the least share of a cycle that ranks are taken to differ by.
OUTLIER_Z = 3.5
_MAD_OF_NORMAL = 0.6745
_LEAST_MAD_RATIO = 0.01
# Of equal ranks each is last to its share of the collectives; a late one to so many times that.
_SHARES = 3
# Where the ranks were not seen to meet: of what one is late, so much must be in others' steps.
_WAITED_RATIO = 0.5
_WAITS = ("collectives", "sync_wait")


def straggler(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
    """Return a finding for each kind of work with one late process, of ranks of one job.

    Of processes in step with each other, the late one waits least, and comes last to most of the
    collectives. Its own time is the cycle less what it waits for others; the bound is what it
    takes more than the mean of the others.
    """
    groups: dict[tuple[str, str, int], list[LoopAnalysis]] = {}
    for loop in run.loops:
        key = loop.subject.kind, loop.subject.name, loop.process.group
        groups.setdefault(key, []).append(loop)
    for group in groups.values():
        by_process = {_process(each.subject): each for each in group}
        if len(by_process) > 1 and _are_ranks(by_process.values()):
            yield _late(list(by_process.values()), limits)


def _process(subject: Subject) -> tuple[str | None, int | None, int | None]:
    # What profiler services recorded has ranks and no pids.
    return subject.host, subject.pid, subject.rank


def _are_ranks(loops: Iterable[LoopAnalysis]) -> bool:
    return all(loop.subject.rank is not None for loop in loops)


def _late(loops: list[LoopAnalysis], limits: Thresholds) -> Verdict:
    own = _own_ns(loops)
    latest = max(range(len(loops)), key=own.__getitem__)
    others = [ns for at, ns in enumerate(own) if at != latest]
    late_ns = own[latest] - sum(others) / len(others)
    loop = loops[latest]
    cycle_ns = _cycle_ns(loop)
    if late_ns < limits.straggler_ratio * cycle_ns or not _is_clear(latest, loops, late_ns, limits):
        return None
    z = _z(own, latest, cycle_ns)
    if z is not None and z < OUTLIER_Z:
        return None
    gain_ns = late_ns * loop.timing.steps
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title=f"Rank {loop.subject.rank} is slower than the others, and they wait for it",
        severity=limits.severity(gain),
        evidence=(
            *_came_last(loop),
            *_times(loops, own, latest),
            *_stands_out(z, len(loops)),
            Evidence("compare all ranks", command="tfprobe ranks"),
            loop.shown_by("steps" if loop.lateness is None else "transfers"),
        ),
        action="Compare its machine with the others' (other jobs, clocks, disks, links) and its "
        "share of the data; `tfprobe report --rank` shows one rank.",
        gain=gain,
        part="straggler",
        subject=loop.subject,
    )


def _is_clear(latest: int, loops: list[LoopAnalysis], late_ns: float, limits: Thresholds) -> bool:
    """Say whether a rank is late by more than chance."""
    loop, others = loops[latest], [each for at, each in enumerate(loops) if at != latest]
    turns = [other.lateness for other in others if other.lateness is not None]
    if loop.lateness is None or len(turns) < len(others):
        timings = [other.timing for other in others]
        spread_ns = loop.timing.gap_spread_ns + max(timing.gap_spread_ns for timing in timings)
        # Who waits for it does so in steps that are longer; else they only run beside each other.
        waited_ns = min(timing.usual_step_ns for timing in timings) - loop.timing.usual_step_ns
        return late_ns > spread_ns and waited_ns >= _WAITED_RATIO * late_ns
    waits = [turn.waiting_ns for turn in turns]
    if len(loops) < FEW:
        return (
            loop.lateness.waiting_ns < min(waits) and loop.lateness.last_ratio >= limits.last_ratio
        )
    # Of many each is last to a small share of the collectives, and another one may wait least once.
    waits_little = loop.lateness.waiting_ns < statistics.median(waits)
    return waits_little and loop.lateness.last_ratio >= _SHARES / len(loops)


def _z(own_ns: list[float], latest: int, cycle_ns: float) -> float | None:
    """Return how far a rank is from the middle of all, in units of what they differ by; None where
    there are too few to say what is usual.
    """
    if len(own_ns) < FEW:
        return None
    middle_ns = statistics.median(own_ns)
    mad_ns = statistics.median(abs(each - middle_ns) for each in own_ns)
    return _MAD_OF_NORMAL * (own_ns[latest] - middle_ns) / max(mad_ns, _LEAST_MAD_RATIO * cycle_ns)


def _stands_out(z: float | None, ranks: int) -> Iterator[Evidence]:
    if z is not None:
        yield Evidence(f"robust z {z:.1f} among {ranks} ranks ({OUTLIER_Z} is an outlier)")


def _came_last(loop: LoopAnalysis) -> Iterator[Evidence]:
    if loop.lateness is not None:
        text = f"of {loop.lateness.matched} collectives it was last in"
        yield Evidence(text, ratio=loop.lateness.last_ratio)


def _times(loops: list[LoopAnalysis], own: list[float], latest: int) -> Iterator[Evidence]:
    """Yield the own time of the late rank, and of some others."""
    others = [at for at in range(len(loops)) if at != latest]
    for at in (latest, *others[:_SHOWN]):
        text = f"rank {loops[at].subject.rank}, own time per step"
        yield Evidence(text, time_ns=round(own[at]))


def _cycle_ns(loop: LoopAnalysis) -> float:
    """Return the mean time from step to step, without the first: that one is never recorded, and
    is long for reasons of its own.
    """
    return (loop.timing.regular_step_ns + loop.timing.regular_gap_ns) / max(loop.timing.steps, 1)


def _own_ns(loops: list[LoopAnalysis]) -> list[float]:
    """Return the time of a mean cycle that each process spends on its own account.

    Where the ranks were seen to meet, that is all but waiting. Traced steps of ranks that were not
    are slow at different times and not compared: a step is taken to be as long as that of the
    process with the shortest steps, and the rest of it to be waiting for others.
    """
    cycles = [_cycle_ns(loop) for loop in loops]
    if all(loop.lateness and not isinstance(loop.parts, Missing) for loop in loops):
        return [
            cycle * (1 - loop.parts.ratio(*_WAITS))
            for cycle, loop in zip(cycles, loops, strict=True)
            if not isinstance(loop.parts, Missing)
        ]
    shortest_ns = min(loop.timing.usual_step_ns for loop in loops)
    return [shortest_ns + loop.timing.usual_gap_ns for loop in loops]


# The backward pass has room for about half; the last gradients have nothing to hide behind.


def collectives_exposed(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding where collectives are exposed; the bound is all of that time."""
    parts = loop.parts
    if isinstance(parts, Missing):
        return parts
    ratio = parts.ratio("collectives")
    if ratio < limits.collectives_ratio:
        return None
    gain_ns = parts.of_all_steps("collectives")
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="Collectives are not overlapped with computation",
        severity=limits.severity(gain),
        evidence=(
            Evidence("share of the cycle with only collectives running", ratio=ratio),
            *loop.traced_step(),
            loop.shown_by("transfers"),
        ),
        action="Look first whether one rank is late (straggler). Then pack gradients "
        "(CommunicationOptions(bytes_per_pack=...)), reduce in 16 bits, use NCCL rather than RING "
        "on GPUs, or take larger batches so that there is more to hide behind.",
        gain=gain,
        part="collectives",
    )
