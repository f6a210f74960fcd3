"""Find which work of one recording is which of another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprobe.profile.profile import SERVICE_KIND, Profile, Work


@dataclass(frozen=True, slots=True)
class LoopPair:
    """A work of A and the work of B that is the same; `rank` is that of their processes in A.

    `is_renamed` says that only the kind is the same: each has one work of it that has no other.
    """

    before: Work
    after: Work
    rank: int | None
    is_renamed: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs, those with most time in A first, and the works that only one recording has."""

    pairs: tuple[LoopPair, ...]
    only_before: tuple[Work, ...]
    only_after: tuple[Work, ...]


# The kind of what a file holds; see ingest/file.py.
_FILE_KIND = "file"
# What makes a work of B that of A, tried one after the other: their rank, kind and name.
_KEYS: tuple[Callable[[int | None, Work], Hashable], ...] = (
    lambda rank, work: (rank, work.kind, work.name),
    lambda _rank, work: (work.kind, work.name),
    lambda rank, work: (rank, work.kind),
    lambda _rank, work: work.kind,
)


def match(before: Profile, after: Profile) -> Matches:
    """Match works by rank, kind and name; what is left by kind and name, rank and kind, or kind.

    Of several with the same rank, kind and name the first goes with the first. Of what is left only
    works belong together that are the last of their key on both sides.
    """
    ones, others = list(before.works), list(after.works)
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


def _left(works: Sequence[Work], taken: Sequence[Work]) -> list[Work]:
    """Return the works that are not taken: those very ones, for equal ones may be."""
    return [each for each in works if all(each is not one for one in taken)]


def _with_file(before: Profile, ones: Sequence[Work], others: Sequence[Work]) -> Iterator[LoopPair]:
    """Give the pair of a file by itself, which may be of any work: the one with most time.

    So may what one profiler service recorded, beside a run that says what its steps are.
    """
    kinds = [[work.kind for work in works] for works in (ones, others)]
    is_file = [[_FILE_KIND] in kinds, [SERVICE_KIND] in kinds and kinds[0] != kinds[1]]
    if any(is_file) and ones and others:
        one, other = (max(works, key=_weight) for works in (ones, others))
        yield LoopPair(one, other, before.processes[one.process].rank, is_renamed=True)


def _weight(work: Work) -> int:
    return work.times.sum_ns if work.sampled else -1


def _by(
    key: Callable[[int | None, Work], Hashable], profile: Profile, works: Sequence[Work]
) -> dict[Hashable, list[Work]]:
    groups: dict[Hashable, list[Work]] = {}
    for work in works:
        groups.setdefault(key(profile.processes[work.process].rank, work), []).append(work)
    return groups


def _same(
    before: Mapping[Hashable, Sequence[Work]],
    after: Mapping[Hashable, Sequence[Work]],
    *,
    alone: bool,
) -> Iterator[tuple[Work, Work]]:
    """Give works of both sides with the same key; `alone` takes only keys of one on each."""
    for key, ones in before.items():
        others = after.get(key, [])
        if not alone or len(ones) == len(others) == 1:
            yield from zip(ones, others, strict=False)
