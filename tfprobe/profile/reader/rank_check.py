"""Check the ranks of a distributed job: which are missing or duplicate. Reads no steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem
from tfprobe.profile.programs import RANKS, WORKERS, Claim, heads, team
from tfprobe.runs.catalogue import RunEntry
from tfprobe.runs.liveness import ProcessEntry
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.process_folder.steps_layout import Header

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class _Member:
    """A process that knows its rank. `until_ns` is its last sign of life; `serves` are further
    tasks of its job that it runs.
    """

    facts: ProcessManifest
    folder: str
    team: str
    rank: int
    world: int | None
    steps: int
    until_ns: int
    serves: tuple[tuple[str, int], ...] = ()

    @property
    def machine(self) -> tuple[str, str | None]:
        return self.facts.host, self.facts.boot_id


def roster_problems(entry: RunEntry) -> Iterator[Problem]:
    """Yield problems with the ranks of a run; nothing if no process has a rank."""
    members = tuple(_members(entry.processes))
    for problem in (
        *_absent(members),
        *_twice(members),
        *_same_names(members),
        *_versions(members),
    ):
        yield Problem(RANKS, problem)


def _members(processes: Iterable[ProcessEntry]) -> Iterator[_Member]:
    for process in processes:
        facts = process.manifest
        if isinstance(facts, Missing) or facts.rank is None or facts.service is not None:
            continue
        yield _Member(
            facts,
            f"{process.folder.host}/{process.folder.name}",
            team(facts.rank.role),
            facts.rank.index,
            facts.rank.world,
            process.steps,
            facts.started_unix_ns
            if isinstance(process.header, Missing)
            else _until_ns(process.header),
            facts.rank.serves,
        )


def _until_ns(header: Header) -> int:
    """Return when it ended; without a recorded end, when its header was last written."""
    return header.unix_ns(header.last_note_mono_ns)


# Ten times the size of the largest jobs; a larger world size is a mistake.
_MOST_RANKS = 1_000_000


def _absent(members: Sequence[_Member]) -> Iterator[str]:
    # Processes with other roles do not count towards a world size.
    workers = [member for member in members if member.team == WORKERS]
    worlds = sorted({worker.world for worker in workers if worker.world is not None})
    if len(worlds) > 1:
        sizes = ", ".join(f"{world:,}" for world in worlds)
        yield f"Its ranks do not agree on how many they are: {sizes}."
    there = {worker.rank for worker in workers}
    served = (task for member in members for task in member.serves)
    there.update(index for role, index in served if team(role) == WORKERS)
    # The world size may be unknown, or known to a process that knows only part of the job; the
    # highest rank present counts, too.
    expected = max(max(worlds, default=0), max(there, default=-1) + 1)
    if expected > _MOST_RANKS:
        yield f"One of its ranks says that they are {expected:,}, which no job has."
        return
    lacking = sorted(set(range(expected)) - there)
    if lacking and there:
        yield f"Of {expected:,} ranks {_listed(lacking)} recorded nothing that is here."


def _twice(members: Sequence[_Member]) -> Iterator[str]:
    """Report ranks that two processes had at once, neither of which started the other."""
    by_rank: dict[tuple[str, int], list[_Member]] = {}
    for member in members:
        by_rank.setdefault((member.team, member.rank), []).append(member)
    for (row, rank), found in sorted(by_rank.items()):
        own = _heads(found)
        if any(_overlap(a, b) for at, a in enumerate(own) for b in own[:at]):
            who = " and ".join(each.folder for each in own[:_MOST_LISTED])
            called = f"rank {rank}" if row == WORKERS else f"{row} {rank}"
            yield f"{len(own)} processes say that they are {called}: {who}. Each is counted."


def _heads(members: Sequence[_Member]) -> list[_Member]:
    """Leave out processes that inherited their rank."""
    return [members[at] for at in heads([_claim(member) for member in members])]


def _claim(member: _Member) -> Claim:
    facts = member.facts
    return Claim(member.machine, facts.pid, facts.ppid, facts.is_fork, has_steps=member.steps > 0)


def _overlap(a: _Member, b: _Member) -> bool:
    return a.facts.started_unix_ns < b.until_ns and b.facts.started_unix_ns < a.until_ns


def _same_names(members: Sequence[_Member]) -> Iterator[str]:
    machines = {member.machine for member in members if member.facts.boot_id}
    for host, count in sorted(Counter(host for host, _ in machines).items()):
        if count > 1:
            yield (
                f"{count} machines are called {host}, or one was booted again: its ranks are told "
                "apart by their boots."
            )


def _versions(members: Sequence[_Member]) -> Iterator[str]:
    ranks: dict[str, set[int]] = {}
    for member in members:
        if member.facts.tensorflow and member.team == WORKERS:
            ranks.setdefault(member.facts.tensorflow, set()).add(member.rank)
    if len(ranks) > 1:
        versions = "; ".join(
            f"{version} on {_listed(sorted(ranks[version]))}" for version in sorted(ranks)
        )
        yield f"Its ranks run different TensorFlows: {versions}."


def _listed(ranks: Sequence[int]) -> str:
    """Return "rank 3" or "ranks 3, 5-7"; of many, only the first."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][-1] == rank - 1:
            spans[-1][1:] = [rank]
        else:
            spans.append([rank])
    texts = ["-".join(map(str, span)) for span in spans[:_MOST_LISTED]]
    more = "" if len(spans) <= _MOST_LISTED else f" and others, {len(ranks):,} in all,"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(texts)}{more}"
