"""Hold what the account of a process is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.account.gaps import Gaps, LoopRoles, LoopSteps
from tfprobe.analysis.account.timeline import LifeBounds, Timeline
from tfprobe.analysis.breakdown.cycles import LoopParts
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, Gap, ResourceSample
from tfprobe.profile.profile import Loop, Process, Profile


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """What is known of one process: its `works`, `parts` (traced steps) and notes alone."""

    profile: Profile
    process: Process
    loops: Sequence[Loop]
    roles: LoopRoles
    steps: LoopSteps
    gaps: Gaps
    activities: Sequence[Activity]
    resource_samples: Sequence[ResourceSample]
    parts: Sequence[LoopParts]
    bounds: LifeBounds
    timeline: Timeline
    shift_ns: int

    def parts_of(self, loop: Loop) -> LoopParts | Missing:
        """Return the traced steps of a loop."""
        for part in self.parts:
            if not isinstance(part.loop, Missing) and part.loop.index == loop.index:
                return part
        return Missing("no step of it was traced")

    def usual_step_ns(self, at: int) -> float:
        """Return the usual step of a main loop, 0 where none is remembered."""
        chosen = (self.steps.loop == at) & ~self.steps.sampled
        lengths_ns = (self.steps.end_ns - self.steps.start_ns)[chosen]
        return float(np.median(lengths_ns)) if len(lengths_ns) else 0.0

    def gap_of(self, watched: Gap) -> int | None:
        """Return the row of the gap that was watched."""
        row = int(np.searchsorted(self.gaps.start_ns, watched.start_ns, side="right")) - 1
        if row < 0 or watched.start_ns >= self.gaps.end_ns[row]:
            return None
        return row


def title(loop: Loop) -> str:
    """Name a loop."""
    return f"{loop.kind} {loop.name}".strip()


def names_of(activities: Iterable[Activity], kinds: Iterable[str]) -> Mapping[tuple[str, str], int]:
    """Return the time of the activities of some kinds by name and source, in ns."""
    chosen = frozenset(kinds)
    found: dict[tuple[str, str], int] = {}
    for activity in activities:
        if activity.kind in chosen:
            key = (activity.name, f"{activity.file}:{activity.line}" if activity.file else "")
            found[key] = found.get(key, 0) + max(activity.end_ns - activity.start_ns, 0)
    return found
