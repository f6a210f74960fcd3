"""Find differences in the set-up of two recordings that make comparing them unfair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tfprobe.analysis.compare.matching_loops import LoopPair, Matches
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Loop, Profile

# With a load above this multiple of the CPUs, threads had to wait for one.
BUSY_LOAD_RATIO = 1.25
# Bytes fed to a step vary a little if they are texts.
_SAME_BYTES_RATIO = 0.01
_UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that differs between A and B, as text; `of` is its name."""

    of: str
    before: str
    after: str


def differences(before: Profile, after: Profile, matches: Matches) -> tuple[Difference, ...]:
    """Return what differs but should be the same, the most relevant first."""
    return tuple(
        program
        for program in (
            *_programs(before, after),
            *_settings(before, after),
            *_loops(matches),
            *_machines(before, after),
        )
        if program.before != program.after and _UNKNOWN not in (program.before, program.after)
    )


def _programs(before: Profile, after: Profile) -> Iterator[Difference]:
    sides = (before, after)
    yield _commands(before, after)
    yield _both("TensorFlow", *(_all(p.tensorflow for p in side.processes) for side in sides))
    yield _both("Python", *(_all(p.python for p in side.processes) for side in sides))
    yield _both("devices", *(_devices(side) for side in sides))
    yield _both("processes", *(str(len(side.processes)) for side in sides))


def _commands(before: Profile, after: Profile) -> Difference:
    """Return the arguments in which the commands differ, with the option before them."""
    commands = [before.run.command, after.run.command]
    if any(isinstance(command, Missing) for command in commands):
        return _both("command", _UNKNOWN, _UNKNOWN)
    # Not the path of the interpreter: its version is compared on its own.
    one, other = ([] if isinstance(command, Missing) else list(command[1:]) for command in commands)
    same = _alike(one, other)
    end = _alike(one[same:][::-1], other[same:][::-1])
    first = same - 1 if same and one[same - 1].startswith("-") else same
    shown = (words[first : len(words) - end] for words in (one, other))
    return _both("command", *(" ".join(words) or "(nothing there)" for words in shown))


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def _all(values: Iterable[str | Missing]) -> str:
    distinct = sorted({value for value in values if not isinstance(value, Missing)})
    return ", ".join(distinct) or _UNKNOWN


def _devices(profile: Profile) -> str:
    """Return the number of devices of each kind in all processes."""
    known = [p.devices for p in profile.processes if not isinstance(p.devices, Missing)]
    names = [name.split("device:")[-1].rpartition(":")[0] for devices in known for name in devices]
    counts = {name: names.count(name) for name in names}
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or _UNKNOWN


def _settings(before: Profile, after: Profile) -> Iterator[Difference]:
    """Yield each setting of the first processes with settings on both sides."""
    settings = [_first_settings(before), _first_settings(after)]
    if not all(settings):
        return
    for name in sorted(settings[0].keys() | settings[1].keys()):
        yield _both(name, *(_text(side.get(name)) for side in settings))


def _first_settings(profile: Profile) -> dict[str, object]:
    for process in profile.processes:
        if not isinstance(process.settings, Missing):
            return dict(process.settings)
    return {}


def _text(value: object) -> str:
    return "not set" if value is None else str(value)


def _loops(matches: Matches) -> Iterator[Difference]:
    only = (matches.only_before, matches.only_after)
    yield _both("other kinds of step", *(_names(loops) for loops in only))
    for pair in matches.pairs:
        one, other = pair.before, pair.after
        name = f"{one.kind} {one.name}"
        yield _both(
            f"{name}: steps_per_execution",
            str(one.steps_per_execution),
            str(other.steps_per_execution),
        )


def _names(loops: Sequence[Loop]) -> str:
    names = sorted({f"{loop.kind} {loop.name}" for loop in loops})
    return ", ".join(names) or "none"


def fed_bytes(before: Profile, after: Profile, pair: LoopPair) -> Difference | None:
    """Return how many bytes a step is fed, if that differs: the batch is not the same."""
    sides = (_fed(before, pair.before), _fed(after, pair.after))
    least, most = min(sides), max(sides)
    if least <= 0 or most - least <= _SAME_BYTES_RATIO * most:
        return None
    name = f"{pair.before.kind} {pair.before.name}: bytes fed to a step"
    return _both(name, *(f"{round(side):,}" for side in sides))


def fed_growth_ratio(before: Profile, after: Profile, pair: LoopPair) -> float:
    """Return how much more a step of B is given: bytes fed, or training steps per execution."""
    fed = (_fed(before, pair.before), _fed(after, pair.after))
    steps = (pair.before.steps_per_execution, pair.after.steps_per_execution)
    ratios = [other / one for one, other in (fed, steps) if one > 0 and other > 0]
    return math.prod(ratios) - 1


def _fed(profile: Profile, loop: Loop) -> float:
    fed = [
        capture.fed_bytes
        for capture in profile.captures
        if (capture.process, capture.loop) == (loop.process, loop.index)
        and not isinstance(capture.fed_bytes, Missing)
    ]
    return float(median(fed)) if fed else 0.0


def _machines(before: Profile, after: Profile) -> Iterator[Difference]:
    sides = (before.resource_samples, after.resource_samples)
    yield _both("CPUs it may use", *(_cpus(side) for side in sides))


@dataclass(frozen=True, slots=True)
class Load:
    """The median load of a machine, and the CPUs the job may use."""

    load: float
    cpus: int

    @property
    def ratio(self) -> float:
        return self.load / self.cpus

    @property
    def is_busy(self) -> bool:
        return self.load > BUSY_LOAD_RATIO * self.cpus


def load_description(before: Profile, after: Profile) -> str:
    """Describe the load of the machines, "" if neither is known to have been busy."""
    loads = [load_of(side) for side in (before, after)]
    if not any(load is not None and load.is_busy for load in loads):
        return ""
    return f"{load_text(loads[0])} in A and {load_text(loads[1])} in B"


def load_text(load: Load | None) -> str:
    """Format the load of a machine."""
    return _UNKNOWN if load is None else f"{load.load:.1f} on {load.cpus} CPUs"


def load_of(profile: Profile) -> Load | None:
    """Return the load of the machine of a recording, None if unknown."""
    loads = [p.load_1min for p in profile.resource_samples if not isinstance(p.load_1min, Missing)]
    cpus = [p.cpus for p in profile.resource_samples if not isinstance(p.cpus, Missing)]
    return Load(float(median(loads)), max(cpus)) if loads and cpus else None


def _cpus(resource_samples: Sequence[ResourceSample]) -> str:
    known = [p.cpus for p in resource_samples if not isinstance(p.cpus, Missing)]
    limits = [p.cpu_limit for p in resource_samples if not isinstance(p.cpu_limit, Missing)]
    if not known:
        return _UNKNOWN
    limit = f", limited to {min(limits):g}" if limits else ""
    return f"{max(known)}{limit}"


def _both(of: str, before: str, after: str) -> Difference:
    return Difference(of, before, after)
