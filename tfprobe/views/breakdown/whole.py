"""Divide every recorded step with the time after it, and sum up over a work and over a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.errors import Missing
from tfprobe.model.activities import Activity, Gap
from tfprobe.model.executions import Executions
from tfprobe.model.profile import Capture, Profile, Work
from tfprobe.model.spans import Spans
from tfprobe.model.tables import T
from tfprobe.views.breakdown import between, inside
from tfprobe.views.breakdown.between import Between, Cause
from tfprobe.views.breakdown.inside import Inside
from tfprobe.views.breakdown.kinds import Names, names
from tfprobe.views.breakdown.parts import GROUPS, ON_DEVICE, Part
from tfprobe.views.followed import followed

# Every share is a multiple of this, which a binary float holds exactly: shares sum to 1 exactly.
RESOLUTION = 1 << 20
# Causes of less than this share of all cycles tell nothing; of the others so many are kept.
SMALLEST_CAUSE_RATIO = 0.001
MOST_CAUSES = 50


@dataclass(frozen=True, slots=True)
class StepParts:
    """The cycle of one recorded step, in ns: the step and the time up to the next one.

    `parts` sum to `cycle_ns` exactly, which is `step_ns + between_ns`: those `inside` the step, and
    those `after` it. `between_ns` is Missing where that time was not watched, or is no usual one;
    then the cycle is the step alone.
    """

    capture: Capture
    step_ns: int
    between_ns: int | Missing
    inside: Mapping[Part, int]
    after: Mapping[Part, int]
    causes_inside: tuple[Cause, ...]
    causes_after: tuple[Cause, ...]

    @property
    def cycle_ns(self) -> int:
        return self.step_ns + (0 if isinstance(self.between_ns, Missing) else self.between_ns)

    @property
    def parts(self) -> Mapping[Part, int]:
        return _summed((self.inside, self.after))

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self.causes_inside + self.causes_after


@dataclass(frozen=True, slots=True)
class WorkParts:
    """The mean cycle of one work: its mean recorded step, and its mean watched time after one.

    `work` is Missing where none is known.
    """

    work: Work | Missing
    steps: tuple[StepParts, ...]

    @property
    def watched(self) -> tuple[StepParts, ...]:
        """Return the steps whose time up to the next one was watched."""
        return tuple(step for step in self.steps if not isinstance(step.between_ns, Missing))

    @property
    def cycle_ns(self) -> float:
        return sum(self.parts_ns.values())

    @property
    def step_ns(self) -> float:
        """Return the mean step, without what recording it took."""
        return sum(self._inside_ns.values())

    @property
    def between_ns(self) -> float | Missing:
        """Return the mean watched time up to the next step."""
        watched = self.watched
        if not watched:
            return Missing("the usual time after no step was watched")
        return sum(sum(step.after.values()) for step in watched) / len(watched)

    @property
    def parts_ns(self) -> Mapping[Part, float]:
        """Return each part that is there, of the mean cycle, without what recording it took."""
        parts = dict(self._inside_ns)
        for part, ns in _summed(step.after for step in self.watched).items():
            parts[part] = parts.get(part, 0.0) + ns / len(self.watched)
        return parts

    @property
    def _inside_ns(self) -> Mapping[Part, float]:
        inside = _summed(step.inside for step in self.steps)
        inside.pop(Part.RECORDING, None)
        return {part: ns / len(self.steps) for part, ns in inside.items()}

    @property
    def shares(self) -> Mapping[Part, float]:
        """Return the share of each part that is there; together 1."""
        parts_ns = self.parts_ns
        total_ns = sum(parts_ns.values()) or 1
        return {part: ns / total_ns for part, ns in parts_ns.items()}

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Return what time went to in the mean cycle, longest first."""
        inside = _mean_causes([step.causes_inside for step in self.steps])
        after = _mean_causes([step.causes_after for step in self.watched])
        found = [*inside, *after]
        found = [each for each in found if each.duration_ns >= SMALLEST_CAUSE_RATIO * self.cycle_ns]
        return tuple(sorted(found, key=lambda cause: -cause.duration_ns)[:MOST_CAUSES])


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Shares of the cycles of all works, which sum to exactly 1; each part is there.

    A work weighs as much as its steps took in all, sampled or not, with the time between them.
    """

    shares: Mapping[Part, float]
    works: tuple[WorkParts, ...]
    captures: int
    has_accelerator: bool

    @property
    def total_ns(self) -> float:
        """Return what all cycles of all works took, of several processes together."""
        return sum(map(_weight_ns, self.works))

    @property
    def causes(self) -> tuple[tuple[Cause, float], ...]:
        """Return what time went to in the cycles of all works, with its share, largest first."""
        total_ns = self.total_ns or 1
        found: dict[tuple[Part, str, str, int], tuple[Cause, float]] = {}
        for each in self.works:
            for cause in each.causes:
                share = cause.duration_ns / (each.cycle_ns or 1) * _weight_ns(each) / total_ns
                key = (cause.part, cause.what, cause.file, cause.line)
                known, before = found.get(key, (cause, 0.0))
                found[key] = (known, before + share)
        return tuple(sorted(found.values(), key=lambda each: -each[1]))

    def group(self, name: str) -> float:
        """Return the share of before, on, after or other."""
        return sum(self.shares[part] for part in GROUPS[name])


def divide(profile: Profile) -> Breakdown | Missing:
    """Return the breakdown of all sampled steps."""
    if not profile.captures:
        return Missing("no step was sampled")
    works = by_work(profile)
    weighted: dict[Part, float] = {}
    for each in works:
        for part, share in each.shares.items():
            weighted[part] = weighted.get(part, 0.0) + share * _weight_ns(each)
    total_ns = sum(weighted.values())
    if total_ns <= 0:
        return Missing("the sampled steps took no time")
    on_device = set(ON_DEVICE)
    return Breakdown(
        shares=_exact({part: ns / total_ns for part, ns in weighted.items()}),
        works=works,
        captures=len(profile.captures),
        has_accelerator=any(on_device & set(each.shares) for each in works),
    )


def by_work(profile: Profile) -> tuple[WorkParts, ...]:
    """Return the recorded steps of each work, the work with the most time first."""
    works = {(work.process, work.index): work for work in profile.works}
    found: dict[tuple[int, int | None], list[StepParts]] = {}
    for step in of_steps(profile):
        number = None if isinstance(step.capture.work, Missing) else step.capture.work
        found.setdefault((step.capture.process, number), []).append(step)
    unknown = Missing("the recording does not tell which work its steps are of")
    parts = [
        WorkParts(unknown if key[1] is None else works.get((key[0], key[1]), unknown), tuple(steps))
        for key, steps in found.items()
    ]
    return tuple(sorted(parts, key=lambda each: -_weight_ns(each)))


def of_steps(profile: Profile) -> tuple[StepParts, ...]:
    """Return the parts of each recorded step, in the order of the captures."""
    known = names(profile.executions.strings)
    works = {(work.process, work.index): work for work in profile.works}
    longest_ns = {key: between.longest_usual_ns(work) for key, work in works.items()}
    gaps = {(gap.process, gap.work, gap.step): gap for gap in followed(profile)}
    rows = _by_capture(profile.executions, len(profile.captures))
    spans = _by_capture(profile.spans, len(profile.captures))
    traced = [each for each in profile.activities if each.kind == "trace"]
    found = []
    for capture, own, told in zip(profile.captures, rows, spans, strict=True):
        work = -1 if isinstance(capture.work, Missing) else capture.work
        gap = gaps.get((capture.process, work, capture.step))
        key = (capture.process, work)
        kind = works[key].kind if key in works else ""
        limit_ns = longest_ns.get(key)
        if gap is not None and limit_ns is not None and gap.duration_ns > limit_ns:
            gap = None
        found.append(_step(capture, own, told, traced, known, gap=gap, kind=kind))
    return tuple(found)


def _step(
    capture: Capture,
    rows: Executions,
    spans: Spans,
    traced: Sequence[Activity],
    known: Names,
    *,
    gap: Gap | None,
    kind: str,
) -> StepParts:
    own = list(inside.traced_in(traced, capture))
    step = inside.divide(capture, rows, spans, own, known, is_fed=inside.fed(capture, kind))
    between_ns: int | Missing = Missing("the usual time after this step was not watched")
    after = Between(0, {}, ())
    if gap is not None:
        after = between.divide(gap, has_accelerator=bool(set(ON_DEVICE) & set(step.parts)))
        # While late kernels ran, the thread was already on its way to the next step.
        after = between.shortened(after, max(after.duration_ns - step.late_ns, 0))
        between_ns = after.duration_ns
    return StepParts(
        capture=capture,
        step_ns=step.duration_ns,
        between_ns=between_ns,
        inside=step.parts,
        after=after.parts,
        causes_inside=tuple(_inside_causes(step, own)),
        causes_after=after.causes,
    )


def _inside_causes(step: Inside, traced: Iterable[Activity]) -> Iterable[Cause]:
    idle_ns = step.parts.get(Part.IDLE, 0)
    before_ns = min(step.idle_before_ns, idle_ns)
    if before_ns:
        yield Cause(Part.IDLE, "before the first op", "", 0, before_ns)
    if idle_ns > before_ns:
        yield Cause(Part.IDLE, "between ops", "", 0, idle_ns - before_ns)
    rest_ns = step.parts.get(Part.COMPILE, 0)
    for each in traced:
        traced_ns = min(each.end_ns - each.start_ns, rest_ns)
        rest_ns -= traced_ns
        yield Cause(Part.COMPILE, f"tracing {each.name}", "", 0, traced_ns)
    if rest_ns:
        yield Cause(Part.COMPILE, "preparing and compiling graphs", "", 0, rest_ns)


def _by_capture(rows: T, count: int) -> list[T]:
    """Return the rows of each capture, which stand together in the table or are brought there."""
    captures = rows.capture
    if len(captures) and (np.diff(captures) < 0).any():
        order = np.argsort(captures, kind="stable")
        columns = {name: getattr(rows, name)[order] for name in rows.DTYPES}
        rows = type(rows)(strings=rows.strings, **columns)
    bounds = np.searchsorted(rows.capture, np.arange(count + 1)).tolist()
    return [_cut(rows, low, high) for low, high in itertools.pairwise(bounds)]


def _cut(rows: T, low: int, high: int) -> T:
    columns = {name: getattr(rows, name)[low:high] for name in rows.DTYPES}
    return type(rows)(strings=rows.strings, **columns)


def _weight_ns(parts: WorkParts) -> float:
    """Return what all steps of a work took with the time between, as far as that was watched."""
    if isinstance(parts.work, Missing):
        return float(sum(step.cycle_ns for step in parts.steps))
    watched = [step.between_ns for step in parts.steps if isinstance(step.between_ns, int)]
    between_ns = float(np.median(watched)) if watched else 0.0
    return parts.work.times.sum_ns + parts.work.count * between_ns


def _summed(each: Iterable[Mapping[Part, int]]) -> dict[Part, int]:
    total: dict[Part, int] = {}
    for parts in each:
        for part, ns in parts.items():
            total[part] = total.get(part, 0) + ns
    return total


def _mean_causes(steps: Sequence[Sequence[Cause]]) -> list[Cause]:
    total: dict[tuple[Part, str, str, int], int] = {}
    for causes in steps:
        for each in causes:
            key = (each.part, each.what, each.file, each.line)
            total[key] = total.get(key, 0) + each.duration_ns
    return [Cause(*key, ns // len(steps)) for key, ns in total.items()]


def _exact(shares: Mapping[Part, float]) -> dict[Part, float]:
    """Return all parts with shares that sum to 1 exactly: what rounding leaves is idle."""
    units = {part: int(shares.get(part, 0.0) * RESOLUTION) for part in Part}
    units[Part.IDLE] += RESOLUTION - sum(units.values())
    return {part: number / RESOLUTION for part, number in units.items()}
