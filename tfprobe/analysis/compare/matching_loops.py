"""Find which loop of one recording is which of another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprobe.profile.profile import SERVICE_KIND, Loop, Profile


@dataclass(frozen=True, slots=True)
class LoopPair:
    """A loop of A and the loop of B that is the same; `rank` is that of their processes in A.

    `is_renamed` says that only the kind is the same: each has one loop of it that has no other.
    """

    before: Loop
    after: Loop
    rank: int | None
    is_renamed: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs, those with most time in A first, and the loops that only one recording has."""

    pairs: tuple[LoopPair, ...]
    only_before: tuple[Loop, ...]
    only_after: tuple[Loop, ...]


# The kind of what a file holds; see ingest/file.py.
_FILE_KIND = "file"
# What makes a loop of B that of A, tried one after the other: their rank, kind and name.
_KEYS: tuple[Callable[[int | None, Loop], Hashable], ...] = (
    lambda rank, loop: (rank, loop.kind, loop.name),
    lambda _rank, loop: (loop.kind, loop.name),
    lambda rank, loop: (rank, loop.kind),
    lambda _rank, loop: loop.kind,
)


def match(before: Profile, after: Profile) -> Matches:
    """Match works by rank, kind and name; what is left by kind and name, rank and kind, or kind.

    Of several with the same rank, kind and name the first goes with the first. Of what is left only
    works belong together that are the last of their key on both sides.
    """
    ones, others = list(before.loops), list(after.loops)
    pairs: list[LoopPair] = list(_with_file(before, ones, others))
    for at, key in enumerate(() if pairs else _KEYS):
        groups = _by(key, before, ones), _by(key, after, others)
        for one, other in _same(*groups, alone=at > 0):
            rank = before.processes[one.process].rank
            pairs.append(LoopPair(one, other, rank, is_renamed=one.name != other.name))
        ones = _left(ones, [pair.before for pair in pairs])
        others = _left(others, [pair.after for pair in pairs])
    pairs.sort(key=lambda pair: -pair.before.times.sum_ns)
    return Matches(
        tuple(pairs),
        only_before=tuple(_left(ones, [pair.before for pair in pairs])),
        only_after=tuple(_left(others, [pair.after for pair in pairs])),
    )


def _left(loops: Sequence[Loop], taken: Sequence[Loop]) -> list[Loop]:
    """Return the loops that are not taken: those very ones, for equal ones may be."""
    return [loop for loop in loops if all(loop is not one for one in taken)]


def _with_file(before: Profile, ones: Sequence[Loop], others: Sequence[Loop]) -> Iterator[LoopPair]:
    """Give the pair of a file by itself, which may be of any loop: the one with most time.

    So may what one profiler service recorded, beside a run that says what its steps are.
    """
    kinds = [[loop.kind for loop in loops] for loops in (ones, others)]
    is_file = [[_FILE_KIND] in kinds, [SERVICE_KIND] in kinds and kinds[0] != kinds[1]]
    if any(is_file) and ones and others:
        one, other = (max(loops, key=_weight) for loops in (ones, others))
        yield LoopPair(one, other, before.processes[one.process].rank, is_renamed=True)


def _weight(loop: Loop) -> int:
    return loop.times.sum_ns if loop.sampled else -1


def _by(
    key: Callable[[int | None, Loop], Hashable], profile: Profile, loops: Sequence[Loop]
) -> dict[Hashable, list[Loop]]:
    groups: dict[Hashable, list[Loop]] = {}
    for loop in loops:
        groups.setdefault(key(profile.processes[loop.process].rank, loop), []).append(loop)
    return groups


def _same(
    before: Mapping[Hashable, Sequence[Loop]],
    after: Mapping[Hashable, Sequence[Loop]],
    *,
    alone: bool,
) -> Iterator[tuple[Loop, Loop]]:
    """Give works of both sides with the same key; `alone` takes only keys of one on each."""
    for key, ones in before.items():
        others = after.get(key, [])
        if not alone or len(ones) == len(others) == 1:
            yield from zip(ones, others, strict=False)
