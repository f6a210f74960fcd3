"""Which functions JAX and torch.compile compile again, and what differs; where graphs break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfprobe.profile.compilations import (
    TORCH_COMPILE,
    XLA,
    ArgumentChange,
    Compilation,
    GraphBreak,
)
from tfprobe.profile.profile import Loop, Profile

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
    of the others, the most frequent first. `source` is where the program caused most of them, and
    `compiler` XLA or torch.compile, which also compiles before the first step of a loop has ended:
    there the function is one for all loops.
    """

    name: str
    count: int
    further_ns: int
    new_functions: int
    unchanged: int
    changes: tuple[ChangeCount, ...]
    source: str
    compiler: str = XLA

    @property
    def is_of_torch(self) -> bool:
        """Say whether torch.compile compiles it."""
        return self.compiler == TORCH_COMPILE


@dataclass(frozen=True, slots=True)
class BreakSite:
    """A line at which graphs of torch.compile break, in how many compilations, and why.

    `loop` and `step` are those in which it was compiled first, None if in none. If `is_skipped`,
    the function `name` runs without having been compiled.
    """

    name: str
    reason: str
    source: str
    count: int
    loop: int | None
    is_skipped: bool
    step: int | None = None


def concerns(found: Compilation | GraphBreak, loop: Loop) -> bool:
    """Say whether a compilation or a break delayed steps of a loop.

    torch.compile also compiles before the first step of a loop has ended, which is when it is known
    that there is one: that may be for any loop of the process.
    """
    is_torch = isinstance(found, GraphBreak) or found.compiler == TORCH_COMPILE
    is_its_own = found.loop == loop.index or (found.loop is None and is_torch)
    return found.process == loop.process and is_its_own


def reason_of(compilation: Compilation) -> str:
    """Return why a function was compiled: what differs from before, in words."""
    if compilation.is_first:
        return "new function"
    if compilation.changes is None:
        is_torch = compilation.compiler == TORCH_COMPILE
        return "not known" if is_torch else "not known: too many arrays to compare"
    if not compilation.changes:
        return "no argument differs"
    first, *others = compilation.changes
    more = len(others) + compilation.changes_left_out
    if first.what == "guard":
        return first.before
    what = "" if first.what in _PLAIN else f", {first.what}:"
    text = f"{first.argument}{what} {first.before or 'none'} → {first.after or 'none'}"
    return f"{text}, and {more:,} more" if more else text


def recompilations(profile: Profile, process: int) -> tuple[Recompiled, ...]:
    """Return the functions of a process that were compiled again, the longest first."""
    groups: dict[tuple[int | None, str], list[Compilation]] = {}
    for compilation in profile.compilations:
        if compilation.process == process:
            is_torch = compilation.compiler == TORCH_COMPILE
            loop = None if is_torch else compilation.loop
            groups.setdefault((loop, compilation.name), []).append(compilation)
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
        compiler=group[0].compiler,
    )


def break_sites(profile: Profile, process: int) -> tuple[BreakSite, ...]:
    """Return where the graphs of a process break, each line with a reason once."""
    return sites_of(found for found in profile.graph_breaks if found.process == process)


def sites_of(breaks: Iterable[GraphBreak]) -> tuple[BreakSite, ...]:
    """Return where these breaks are, each line with a reason once, in the order of the first."""
    groups: dict[tuple[str, int, str, bool], list[GraphBreak]] = {}
    for found in breaks:
        key = (found.file, found.line, found.reason, found.is_skipped)
        groups.setdefault(key, []).append(found)
    return tuple(
        BreakSite(
            name=group[0].name,
            reason=reason,
            source=f"{file}:{line}" if file else "",
            count=len(group),
            loop=group[0].loop,
            is_skipped=is_skipped,
            step=group[0].step,
        )
        for (file, line, reason, is_skipped), group in groups.items()
    )
