"""Compare two sides of several runs: what changed, and what the variance between runs hides."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.compare.change_cause import fast_cpu_ns
from tfprobe.analysis.compare.matching_loops import match
from tfprobe.analysis.compare.op_changes import LEAST_SHARE_RATIO, by_type, costs_of
from tfprobe.analysis.compare.parity import Difference, Load, differences, load_of, load_text
from tfprobe.analysis.compare.several_runs import Observation, RunsChange, compare_runs, observed
from tfprobe.analysis.compare.step_changes import LEAST_STEPS, MEASURES, times_of, traced_cycles
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Profile, Run

CPU = "cpu"
# What is compared of steps: its name in documents, and in words.
RUN_MEASURES: Mapping[str, str] = {
    **MEASURES,
    CPU: "CPU time of a step (p10)",
}
# On a busy machine fast steps, as disturbances only lengthen steps, and CPU time, which varies
# least there.
JUDGED = ("step", "cycle")
JUDGED_WHEN_BUSY = ("fast_cycle", CPU)
# A loop with a smaller share of the time is shown but not judged: that would widen all intervals.
_LEAST_WORK_RATIO = 0.05
# If runs could have shown a change of this size and did not, there is none.
NO_CHANGE_RATIO = 0.05


class SidesAnswer(Enum):
    """The result of comparing two sides. The value is its word in documents and texts."""

    SLOWER = "slower"
    FASTER = "faster"
    NO_CHANGE = "no change"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, slots=True)
class SideCosts:
    """How the parts or ops of a traced step changed, by name, the largest difference first."""

    of: str
    changes: tuple[tuple[str, RunsChange], ...]


@dataclass(frozen=True, slots=True)
class LoopSides:
    """What changed in a loop that all runs have; `judged` is empty if the loop is too small."""

    loop: Loop
    rank: int | None
    measures: tuple[tuple[str, RunsChange | Missing], ...]
    judged: tuple[str, ...]
    parts: SideCosts
    ops: SideCosts

    @property
    def name(self) -> str:
        return f"{self.loop.kind} {self.loop.name}".strip()

    @property
    def verdicts(self) -> tuple[tuple[str, RunsChange], ...]:
        """Return the judged changes, by measure."""
        return tuple(
            (name, change)
            for name, change in self.measures
            if name in self.judged and isinstance(change, RunsChange)
        )

    @property
    def decisive(self) -> tuple[tuple[str, RunsChange], ...]:
        """Return the significant changes that decide: those of times, else that of CPU time.

        More CPU time in less time is no slowdown.
        """
        significant = [verdict for verdict in self.verdicts if verdict[1].is_significant]
        times = [verdict for verdict in significant if verdict[0] != CPU]
        return tuple(times or significant)

    @property
    def answer(self) -> SidesAnswer:
        """Return the result; a measure that got worse outweighs one that got better."""
        changes = [change for _, change in self.verdicts]
        if self.decisive:
            is_worse = any(change.ratio > 0 for _, change in self.decisive)
            return SidesAnswer.SLOWER if is_worse else SidesAnswer.FASTER
        if changes and all(change.least_ratio <= NO_CHANGE_RATIO for change in changes):
            return SidesAnswer.NO_CHANGE
        return SidesAnswer.UNKNOWN


@dataclass(frozen=True, slots=True)
class Sides:
    """What changed from the runs of A to those of B; loops with most time first.

    `load` describes the load of the machines if it was too high, else "". `is_in_turns`: runs of A
    and B were recorded alternately, so that a drift of the machine affects both.
    """

    before: tuple[Run, ...]
    after: tuple[Run, ...]
    differences: tuple[Difference, ...]
    loops: tuple[LoopSides, ...]
    load: str
    is_in_turns: bool

    @property
    def answer(self) -> SidesAnswer:
        """Return the result over the judged loops: SLOWER if any is."""
        answers = {loop.answer for loop in self.loops if loop.judged}
        order = (SidesAnswer.SLOWER, SidesAnswer.UNKNOWN, SidesAnswer.FASTER, SidesAnswer.NO_CHANGE)
        return next((answer for answer in order if answer in answers), SidesAnswer.UNKNOWN)


@dataclass(frozen=True, slots=True)
class RunLevels:
    """The levels of one run for each loop of the reference run that it has, by index there.

    Levels are by the name of a measure, a part or an op type.
    """

    run: Run
    load: Load | None
    steps: Mapping[int, Mapping[str, Observation]]
    parts: Mapping[int, Mapping[str, Observation]]
    ops: Mapping[int, Mapping[str, Observation]]


def levels(reference: Profile, profile: Profile) -> RunLevels:
    """Return the levels of a run for the loops of `reference`, which can be the run itself."""
    matches = match(reference, profile)
    all_parts = parts_by_loop(profile)
    places = {id(loop): place for place, loop in enumerate(reference.loops)}
    pairs = [(places[id(pair.before)], pair.after) for pair in matches.pairs]
    return RunLevels(
        run=profile.run,
        load=load_of(profile),
        steps={place: _steps(profile, loop) for place, loop in pairs},
        parts={place: _parts(all_parts, loop) for place, loop in pairs},
        ops={place: _ops(profile, loop) for place, loop in pairs},
    )


def _steps(profile: Profile, loop: Loop) -> Mapping[str, Observation]:
    times = times_of(profile, loop)
    samples = {name: getattr(times, name) for name in RUN_MEASURES if name != CPU}
    found = {
        name: observed(sample) for name, sample in samples.items() if sample.count >= LEAST_STEPS
    }
    cpu_ns = fast_cpu_ns(profile, loop)
    if not isinstance(cpu_ns, Missing):
        found[CPU] = Observation(cpu_ns)
    return {name: level for name, level in found.items() if not isinstance(level, Missing)}


def _parts(all_parts: Sequence[LoopParts], loop: Loop) -> Mapping[str, Observation]:
    steps = traced_cycles(all_parts, loop)
    names = {part for step in steps for part in step.parts if part is not Part.RECORDING}
    return _medians({part.value: [step.parts.get(part, 0) for step in steps] for part in names})


def _ops(profile: Profile, loop: Loop) -> Mapping[str, Observation]:
    return _medians({name: row.tolist() for name, row in by_type(costs_of(profile, loop)).items()})


def _medians(times_ns: Mapping[str, Sequence[int]]) -> Mapping[str, Observation]:
    medians = {name: float(median(times)) for name, times in times_ns.items() if len(times)}
    return {name: Observation(level) for name, level in sorted(medians.items()) if level > 1}


def sides(
    reference: Profile,
    first_after: Profile,
    before: Sequence[RunLevels],
    after: Sequence[RunLevels],
) -> Sides | Missing:
    """Return what changed between two sides, or why nothing can be compared.

    `reference` is the run whose loops index the levels; its settings are compared with those of the
    first run of the other side.
    """
    every = (*before, *after)
    times_ns = {
        place: loop.times.sum_ns
        for place, loop in enumerate(reference.loops)
        if all(place in run.steps for run in every)
    }
    if not times_ns:
        return Missing("they have no kind of step in common")
    least_ns = _LEAST_WORK_RATIO * sum(times_ns.values())
    main = {place for place, time_ns in times_ns.items() if time_ns >= least_ns}
    load = _load(before, after)
    judged = JUDGED_WHEN_BUSY if load else JUDGED
    return Sides(
        before=tuple(run.run for run in before),
        after=tuple(run.run for run in after),
        differences=differences(reference, first_after, match(reference, first_after)),
        loops=tuple(
            LoopSides(
                loop=reference.loops[place],
                rank=reference.processes[reference.loops[place].process].rank,
                measures=_measures(place, before, after, comparisons=len(main) * len(judged)),
                judged=judged if place in main else (),
                parts=_costs("parts", place, before, after),
                ops=_costs("ops", place, before, after),
            )
            for place in sorted(times_ns, key=lambda place: -times_ns[place])
        ),
        load=load,
        is_in_turns=_are_in_turns(before, after),
    )


def _load(before: Sequence[RunLevels], after: Sequence[RunLevels]) -> str:
    """Describe the load of the machines, "" if none is known to have been busy."""
    known = [[run.load for run in side if run.load is not None] for side in (before, after)]
    if not any(load.is_busy for side in known for load in side):
        return ""
    highest = [max(side, key=lambda load: load.ratio) if side else None for side in known]
    return f"at most {load_text(highest[0])} in A and {load_text(highest[1])} in B"


def _measures(
    place: int, before: Sequence[RunLevels], after: Sequence[RunLevels], *, comparisons: int
) -> tuple[tuple[str, RunsChange | Missing], ...]:
    found = []
    for name in RUN_MEASURES:
        one, other = ([run.steps[place] for run in side] for side in (before, after))
        found.append((name, _change(name, one, other, comparisons=comparisons)))
    return tuple(found)


def _change(
    name: str,
    before: Sequence[Mapping[str, Observation]],
    after: Sequence[Mapping[str, Observation]],
    *,
    comparisons: int,
) -> RunsChange | Missing:
    if not all(name in levels for levels in (*before, *after)):
        return Missing("not all runs have enough of it")
    return compare_runs(
        [levels[name] for levels in before],
        [levels[name] for levels in after],
        comparisons=comparisons,
    )


def _costs(
    of: str, place: int, before: Sequence[RunLevels], after: Sequence[RunLevels]
) -> SideCosts:
    """Return how the parts or ops changed that all runs have and that are large enough."""
    one, other = ([getattr(run, of)[place] for run in side] for side in (before, after))
    every = (*one, *other)
    common = set.intersection(*(set(levels) for levels in every))
    large = sorted(name for name in common if any(_is_large(name, levels) for levels in every))
    changes = [
        (name, change)
        for name in large
        if isinstance(change := _change(name, one, other, comparisons=len(large)), RunsChange)
    ]
    return SideCosts(
        of, tuple(sorted(changes, key=lambda item: -abs(item[1].after - item[1].before)))
    )


def _is_large(name: str, levels: Mapping[str, Observation]) -> bool:
    return levels[name].level >= LEAST_SHARE_RATIO * sum(level.level for level in levels.values())


def _are_in_turns(before: Iterable[RunLevels], after: Iterable[RunLevels]) -> bool:
    """Return whether runs of one side began between runs of the other."""
    starts = [(run.run.started, side) for side, runs in enumerate((before, after)) for run in runs]
    if any(isinstance(start, Missing) for start, _ in starts):
        return True
    order = [side for _, side in sorted((str(start), side) for start, side in starts)]
    return sum(one != other for one, other in itertools.pairwise(order)) > 1
