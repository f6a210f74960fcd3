"""Tell of the one process that all others wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfprobe.advice.finding import Evidence, Finding, Subject
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import Signals, WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# A slow machine can be made as fast as the others or left out.
LIKELY = 0.5
# Facts told of ranks; of hundreds the first will do.
_SHOWN = 3
_WAITS = ("collectives", "sync_wait")


def check(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
    """Return a finding for each kind of work with one late process.

    Of processes in step with each other, the late one waits least, and comes last to most of the
    collectives. Its own time is the cycle less what it waits for others; the bound is what it
    takes more than the mean of the others.
    """
    groups: dict[tuple[str, str], list[WorkSignals]] = {}
    for work in signals.works:
        groups.setdefault((work.subject.kind, work.subject.name), []).append(work)
    for group in groups.values():
        by_process = {_process(each.subject): each for each in group}
        if len(by_process) > 1 and _are_ranks(by_process.values()):
            yield _late(list(by_process.values()), limits)


def _process(subject: Subject) -> tuple[str | None, int | None, int | None]:
    # What profiler services recorded has ranks and no pids.
    return subject.host, subject.pid, subject.rank


def _are_ranks(works: Iterable[WorkSignals]) -> bool:
    return all(each.subject.rank is not None for each in works)


def _late(works: list[WorkSignals], limits: Thresholds) -> Verdict:
    own = _own_ns(works)
    latest = max(range(len(works)), key=own.__getitem__)
    others = [ns for at, ns in enumerate(own) if at != latest]
    late_ns = own[latest] - sum(others) / len(others)
    work = works[latest]
    cycle_ns = work.loop.work_ns / max(work.loop.steps, 1)
    if late_ns < limits.straggler_ratio * cycle_ns or not _is_clear(latest, works, late_ns, limits):
        return None
    gain_ns = late_ns * work.loop.steps
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title=f"Rank {work.subject.rank} is slower than the others, which wait for it",
        severity=limits.severity(gain),
        evidence=(
            *_came_last(work),
            *_times(works, own, latest),
            work.shown_by("steps" if work.turns is None else "transfers"),
        ),
        action="Compare its machine with the others' (other jobs, clocks, disks, links) and its "
        "share of the data; `tfprobe report --rank` shows one rank.",
        gain=gain,
        part="straggler",
        subject=work.subject,
    )


def _is_clear(latest: int, works: list[WorkSignals], late_ns: float, limits: Thresholds) -> bool:
    """Say whether a rank is late by more than chance."""
    work, others = works[latest], [each for at, each in enumerate(works) if at != latest]
    turns = [each.turns for each in others if each.turns is not None]
    if work.turns is None or len(turns) < len(others):
        return late_ns > work.loop.gap_spread_ns + max(each.loop.gap_spread_ns for each in others)
    waits_least = work.turns.waiting_ns < min(each.waiting_ns for each in turns)
    return waits_least and work.turns.last_ratio >= limits.last_ratio


def _came_last(work: WorkSignals) -> Iterator[Evidence]:
    if work.turns is not None:
        text = f"of {work.turns.matched} collectives it came last to"
        yield Evidence(text, ratio=work.turns.last_ratio)


def _times(works: list[WorkSignals], own: list[float], latest: int) -> Iterator[Evidence]:
    """Yield the own time of the late rank, and of some others."""
    others = [at for at in range(len(works)) if at != latest]
    for at in (latest, *others[:_SHOWN]):
        text = f"rank {works[at].subject.rank}, own time a step"
        yield Evidence(text, time_ns=round(own[at]))


def _own_ns(works: list[WorkSignals]) -> list[float]:
    """Return the time of a mean cycle that each process spends on its own account.

    Where the ranks were seen to meet, that is all but waiting. Sampled steps of ranks that were not
    are slow at different times and not compared: a step is taken to be as long as that of the
    process with the shortest steps, and the rest of it to be waiting for others.
    """
    cycles = [each.loop.work_ns / max(each.loop.steps, 1) for each in works]
    if all(each.turns and not isinstance(each.parts, Missing) for each in works):
        return [
            cycle * (1 - each.parts.ratio(*_WAITS))
            for cycle, each in zip(cycles, works, strict=True)
            if not isinstance(each.parts, Missing)
        ]
    shortest_ns = min(each.loop.usual_step_ns for each in works)
    return [shortest_ns + each.loop.usual_gap_ns for each in works]
