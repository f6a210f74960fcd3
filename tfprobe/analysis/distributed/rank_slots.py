"""Find the slot of each process in its job: role, rank, and which start of that rank it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.profile.programs import team


@dataclass(frozen=True, slots=True)
class RankSlot:
    """The slot of a process in its job.

    `rank` is None if unknown. `generation` counts the processes of the same team and rank that had
    ended before it began: 0 unless it was started again. `group` is that of the process: others of
    the group work on the same job. `is_restart` says that the process before it ran the same
    program.
    """

    process: int
    team: str
    role: str
    rank: int | None
    generation: int
    group: int = 0
    is_restart: bool = False

    @property
    def matched_by(self) -> int:
        """Return a number shared only by processes that can have synchronized: ranks of all roles,
        and processes of one group.
        """
        return -1 - self.group if self.rank is None else self.generation


def rank_slots(processes: Sequence[Process]) -> tuple[RankSlot, ...]:
    """Return the slot of each process, in the order of the processes."""
    slots: dict[int, RankSlot] = {}
    latest: dict[tuple[str, int], tuple[int, int]] = {}
    ran: dict[tuple[str, int], str] = {}
    for each in sorted(processes, key=lambda process: (process.started_unix_ns, process.index)):
        role = each.role or ""
        row = team(role)
        generation, until_ns, is_restart = 0, end_ns(each), False
        if each.rank is not None:
            before = latest.get((row, each.rank))
            if before is not None:
                generation = before[0] + (before[1] <= each.started_unix_ns)
                until_ns = max(until_ns, before[1]) if generation == before[0] else until_ns
                is_restart = generation > before[0] and ran[row, each.rank] == each.title
            latest[row, each.rank], ran[row, each.rank] = (generation, until_ns), each.title
        slots[each.index] = RankSlot(
            each.index, row, role, each.rank, generation, each.group, is_restart
        )
    return tuple(slots[each.index] for each in processes)


def end_ns(process: Process) -> int:
    """Return when a process was last seen, by its own clock; if unknown, when it began."""
    lasted_ns = 0 if isinstance(process.hooks, Missing) else process.hooks.wall_ns
    return process.started_unix_ns + lasted_ns
