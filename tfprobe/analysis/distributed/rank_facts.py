"""Report problems of the processes of a job that cost no time by themselves, a sentence each.

Ranks that are missing or claimed twice, versions that differ, processes that were killed or are
behind, unknown clocks; with what to do about it, if that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tfprobe.analysis.distributed.clocks import Clocks
from tfprobe.analysis.distributed.rank_parts import RankPart
from tfprobe.analysis.distributed.rank_slots import RankSlot, rank_slots
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process, titled
from tfprobe.profile.programs import WORKERS, Claim, heads, team

_SHOWN = 8
# Behind the middle process by more than this share of its steps: in another phase of the job.
_BEHIND_RATIO = 0.1
_LEAST_BEHIND = 10


def facts(parts: Sequence[RankPart], clocks: Clocks) -> tuple[str, ...]:
    """Return the problems, one or two sentences each."""
    processes = [part.process for part in parts]
    places = rank_slots(processes)
    return (
        *_missing(processes, places),
        *_claimed_twice(parts, places),
        *_versions(processes, places),
        *_gone(processes, places),
        *_behind(parts, places),
        *_clocks(processes, clocks),
        *_names(processes, clocks),
    )


def name(process: Process) -> str:
    """Return the name of a process in its run: role and rank, else pid and host."""
    if process.rank is None:
        return f"{process.label} on {process.host}"
    role = process.role if process.role not in (None, "", "worker") else "rank"
    named = f"{role} {process.rank}" if role != "chief" else f"rank {process.rank} (chief)"
    return titled(named, process.title)


def some(texts: Sequence[str]) -> str:
    """Join texts; if there are many, say how many more there are."""
    rest = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


# Ten times the largest jobs that exist; a larger world is a mistake.
_MOST_RANKS = 1_000_000


def _missing(processes: Sequence[Process], places: Sequence[RankSlot]) -> Iterator[str]:
    workers = [place for place in places if place.team == WORKERS and place.rank is not None]
    worlds = {processes[worker.process].world for worker in workers} - {None}
    if len(worlds) > 1:
        several = " and ".join(str(world) for world in sorted(worlds, key=str))
        yield f"Processes disagree how many ranks there are: {several}."
    seen = {worker.rank for worker in workers if worker.rank is not None}
    served = (task for process in processes for task in process.serves)
    seen.update(index for role, index in served if team(role) == WORKERS)
    # The number may be unknown, or come from a process that knows only some.
    reported = max((world for world in worlds if world is not None), default=0)
    expected = max(reported, max(seen, default=-1) + 1)
    if expected > _MOST_RANKS:
        yield f"A process says that there are {expected:,} ranks, which no job has."
        return
    lost = [str(rank) for rank in range(expected) if rank not in seen]
    if lost and not any(process.folder for process in processes):
        yield f"Of {expected} ranks {len(lost)} {_are(lost)} not among these files: {some(lost)}."
    elif lost:
        yield (
            f"Of {expected} ranks {len(lost)} {_are(lost)} not in this run: {some(lost)}. Was each "
            "started through tfprobe, with an output directory that all share? Else "
            "`tfprobe merge` joins what each host has."
        )


def _are(what: Sequence[object]) -> str:
    return "are" if len(what) > 1 else "is"


def _claimed_twice(parts: Sequence[RankPart], places: Sequence[RankSlot]) -> Iterator[str]:
    by_rank: dict[tuple[str, int, int], list[RankPart]] = {}
    for place in places:
        if place.rank is not None:
            key = place.team, place.rank, place.generation
            by_rank.setdefault(key, []).append(parts[place.process])
    for (_, rank, _), found in sorted(by_rank.items()):
        claimants = [found[at].process for at in heads([_claim(part) for part in found])]
        if len(claimants) > 1:
            where = some([f"{claimant.label} on {claimant.host}" for claimant in claimants])
            yield (
                f"{len(claimants)} processes at once say that they are {name(claimants[0])}: "
                f"{where}. All are shown; data shown by number for {rank} may belong to either."
            )


def _claim(part: RankPart) -> Claim:
    process = part.process
    machine = process.host, process.boot_id
    has_steps = bool(part.steps)
    return Claim(machine, process.pid, process.ppid, process.is_fork, has_steps)


def _versions(processes: Sequence[Process], places: Sequence[RankSlot]) -> Iterator[str]:
    """Yield the versions that differ within a job; different programs may have different ones."""
    jobs: dict[int, list[Process]] = {}
    for slot, process in zip(places, processes, strict=True):
        jobs.setdefault(slot.matched_by, []).append(process)
    for job in jobs.values():
        yield from _versions_of_job(job)


def _versions_of_job(processes: Sequence[Process]) -> Iterator[str]:
    for what, version_of in (("TensorFlow", _tensorflow), ("Python", _python)):
        by_version: dict[str, list[Process]] = {}
        for process in processes:
            version = version_of(process)
            if not isinstance(version, Missing):
                by_version.setdefault(version, []).append(process)
        if len(by_version) > 1:
            each_version = sorted(by_version.items(), key=lambda item: -len(item[1]))
            text = "; ".join(f"{v} in {some([name(p) for p in who])}" for v, who in each_version)
            yield f"The processes have several versions of {what}: {text}."


def _tensorflow(process: Process) -> str | Missing:
    return process.tensorflow


def _python(process: Process) -> str | Missing:
    if isinstance(process.python, Missing):
        return process.python
    return ".".join(process.python.split(".")[:2])


def _gone(processes: Sequence[Process], places: Sequence[RankSlot]) -> Iterator[str]:
    again = {(each.team, each.rank): each.generation for each in places}
    last = [place for place in places if place.generation == again[place.team, place.rank]]
    workers = {processes[each.process].state for each in last if each.team == WORKERS}
    for state in ("failed", "killed"):
        gone = [processes[at] for at in (p.process for p in last) if processes[at].state == state]
        if workers == {"finished"}:
            # A server only ends by being killed, which jobs do once their workers have finished.
            gone = [each for each in gone if each.role != "ps"]
        if gone and len(gone) < len(processes):
            yield f"{state.capitalize()}: {_and([name(process) for process in gone])}."
    restarted = [each for each in places if each.is_restart]
    if restarted:
        names = some(sorted({name(processes[each.process]) for each in restarted}))
        yield (
            f"Started again, each in a process of its own: {names}. Steps of the earlier process "
            "are not compared with steps of the later one."
        )


def _and(texts: Sequence[str]) -> str:
    if not 1 < len(texts) <= _SHOWN:
        return some(texts)
    return f"{some(texts[:-1])} and {texts[-1]}"


def _behind(parts: Sequence[RankPart], places: Sequence[RankSlot]) -> Iterator[str]:
    made: dict[tuple[int, str], dict[int, int]] = {}
    for place, part in zip(places, parts, strict=True):
        if place.team == WORKERS:
            for steps in part.steps:
                made.setdefault((place.group, steps.key), {})[place.process] = steps.executed
    for (_, key), by_process in made.items():
        middle = float(np.median(list(by_process.values())))
        least = middle - max(_BEHIND_RATIO * middle, _LEAST_BEHIND)
        late = [at for at, count in by_process.items() if count < least]
        if late and len(by_process) > 2:
            names = some([f"{name(parts[at].process)} ({by_process[at]:,})" for at in late])
            yield f"Of {key}, the middle process made {middle:,.0f} steps, and fewer: {names}."


def _clocks(processes: Sequence[Process], clocks: Clocks) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for each in clocks.unknown:
        by_reason.setdefault(each.basis, []).append(name(processes[each.process]))
    for reason, who in by_reason.items():
        yield f"How the clock of {some(who)} is ahead is not known: {reason}."


def _names(processes: Sequence[Process], clocks: Clocks) -> Iterator[str]:
    boots: dict[str, set[str]] = {}
    for process in processes:
        if not isinstance(process.boot_id, Missing):
            boots.setdefault(process.host, set()).add(process.boot_id)
    alike = sorted(host for host, each in boots.items() if len(each) > 1)
    if alike and clocks.machines > 1:
        yield f"Several machines, or one that was started anew, have one name: {some(alike)}."
