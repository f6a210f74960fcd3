"""Match the loops of two recordings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprobe.profile.profile import SERVICE_KIND, Loop, Profile


@dataclass(frozen=True, slots=True)
class LoopPair:
    """A loop of A and the same loop in B; `rank` is that of its process in A.

    `is_renamed`: only the kind matches, of which each recording has one unmatched loop.
    """

    before: Loop
    after: Loop
    rank: int | None
    is_renamed: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs, those with most time in A first, and the loops in only one recording."""

    pairs: tuple[LoopPair, ...]
    only_before: tuple[Loop, ...]
    only_after: tuple[Loop, ...]


# The kind of the loop that stands for a file; see profile/reader/file.py.
_FILE_KIND = "file"
# The keys that match loops, tried in this order.
_KEYS: tuple[Callable[[int | None, Loop], Hashable], ...] = (
    lambda rank, loop: (rank, loop.kind, loop.name),
    lambda _rank, loop: (loop.kind, loop.name),
    lambda rank, loop: (rank, loop.kind),
    lambda _rank, loop: loop.kind,
)


def match(before: Profile, after: Profile) -> Matches:
    """Match loops by rank, kind and name; the rest by kind and name, rank and kind, or kind.

    Several loops with the same rank, kind and name are matched in order. The rest is matched only
    where a key has a single unmatched loop on each side.
    """
    ones, others = list(before.loops), list(after.loops)
    pairs: list[LoopPair] = list(_with_file(before, ones, others))
    for index, key in enumerate(() if pairs else _KEYS):
        groups = _by(key, before, ones), _by(key, after, others)
        for one, other in _same(*groups, alone=index > 0):
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
    """Return the loops that are not taken, compared by identity: two loops can be equal."""
    return [loop for loop in loops if all(loop is not one for one in taken)]


def _with_file(before: Profile, ones: Sequence[Loop], others: Sequence[Loop]) -> Iterator[LoopPair]:
    """Yield the pair of a file, which can be of any loop: it is matched with the longest.

    So is the recording of a profiler service, if the other one is a run that knows its loops.
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
    """Yield loops with the same key; if `alone`, only where each side has one of that key."""
    for key, ones in before.items():
        others = after.get(key, [])
        if not alone or len(ones) == len(others) == 1:
            yield from zip(ones, others, strict=False)
