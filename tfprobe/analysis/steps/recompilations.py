"""Which functions JAX compiles again and again, and what differs each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tfprobe.profile.compilations import ArgumentChange, Compilation
from tfprobe.profile.profile import Profile

_MOST_CHANGES = 3
# What the words for an array show anyway.
_PLAIN = frozenset({"shape", "dtype", "shape, dtype"})


@dataclass(frozen=True, slots=True)
class ChangeCount:
    """How often an argument differed in the same way, with one example."""

    count: int
    example: ArgumentChange


@dataclass(frozen=True, slots=True)
class Recompiled:
    """A function of one loop that was compiled more than once.

    `further_ns` is the time of all compilations but the first. Of these, `new_functions` were of
    another function object, `unchanged` of one whose arguments did not differ; `changes` are those
    of the others, the most frequent first. `source` is where the program caused most of them.
    """

    name: str
    count: int
    further_ns: int
    new_functions: int
    unchanged: int
    changes: tuple[ChangeCount, ...]
    source: str


def reason_of(compilation: Compilation) -> str:
    """Return why a function was compiled: what differs from before, in words."""
    if compilation.is_first:
        return "new function"
    if compilation.changes is None:
        return "not known: too many arrays to compare"
    if not compilation.changes:
        return "no argument differs"
    first, *others = compilation.changes
    more = len(others) + compilation.changes_left_out
    what = "" if first.what in _PLAIN else f", {first.what}:"
    text = f"{first.argument}{what} {first.before or 'none'} → {first.after or 'none'}"
    return f"{text}, and {more:,} more" if more else text


def recompilations(profile: Profile, process: int) -> tuple[Recompiled, ...]:
    """Return the functions of a process that were compiled again, the longest first."""
    groups: dict[tuple[int | None, str], list[Compilation]] = {}
    for compilation in profile.compilations:
        if compilation.process == process:
            groups.setdefault((compilation.loop, compilation.name), []).append(compilation)
    found = [_recompiled(group) for group in groups.values() if len(group) > 1]
    return tuple(sorted(found, key=lambda each: -each.further_ns))


def _recompiled(group: Sequence[Compilation]) -> Recompiled:
    further = group[1:]
    places = Counter(f"{each.file}:{each.line}" for each in further if each.file)
    changes = [change for each in further for change in each.changes or ()]
    counts = Counter((change.argument, change.what) for change in changes)
    examples = {(change.argument, change.what): change for change in reversed(changes)}
    return Recompiled(
        name=group[0].name,
        count=len(group),
        further_ns=sum(each.duration_ns for each in further),
        new_functions=sum(each.is_first for each in further),
        unchanged=sum(each.changes == () for each in further),
        changes=tuple(
            ChangeCount(count, examples[key]) for key, count in counts.most_common(_MOST_CHANGES)
        ),
        source=places.most_common(1)[0][0] if places else "",
    )
