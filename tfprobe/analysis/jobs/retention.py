"""Choose which runs go, by number, age and size: a run goes if any rule says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfprobe.errors import Missing
from tfprobe.profile.snapshots import RunLine

KEEP, OLDER, SIZE = "keep", "older", "size"


@dataclass(frozen=True, slots=True)
class Rules:
    """How many of the newest runs stay, up to which age in ns, and up to which size together."""

    keep: int | None = None
    older_ns: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that may go, unless `held` says why not; `rules` are those that want it gone."""

    run: RunLine
    held: str | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retention:
    """What goes, and what a rule wants gone and is held. Newest first, as they came."""

    goes: tuple[Candidate, ...]
    held: tuple[Candidate, ...]


def choose(candidates: Sequence[Candidate], rules: Rules, now_unix_ns: int) -> Retention:
    """Return what goes of runs that come newest first.

    Held runs count: they are among the newest, and occupy their size. By size the oldest go first,
    until what stays fits; a run whose size is not known occupies nothing.
    """
    judged = [
        replace(each, rules=_by_number_and_age(place, each.run, rules, now_unix_ns))
        for place, each in enumerate(candidates)
    ]
    if rules.size_bytes is not None:
        judged = _by_size(judged, rules.size_bytes)
    chosen = [each for each in judged if each.rules]
    return Retention(
        goes=tuple(each for each in chosen if each.held is None),
        held=tuple(each for each in chosen if each.held is not None),
    )


def _by_number_and_age(place: int, run: RunLine, rules: Rules, now_unix_ns: int) -> tuple[str, ...]:
    found = []
    if rules.keep is not None and place >= rules.keep:
        found.append(KEEP)
    age_ns = run.age_ns(now_unix_ns)
    if rules.older_ns is not None and not isinstance(age_ns, Missing) and age_ns > rules.older_ns:
        found.append(OLDER)
    return tuple(found)


def _by_size(judged: Sequence[Candidate], limit_bytes: int) -> list[Candidate]:
    """Add the rule of size to the oldest, until what stays is within the limit."""
    stays_bytes = sum(_size(each) for each in judged if not _goes(each))
    found = []
    for each in reversed(judged):
        if stays_bytes <= limit_bytes or _goes(each):
            found.append(each)
            continue
        found.append(replace(each, rules=(*each.rules, SIZE)))
        stays_bytes -= _size(each) if each.held is None else 0
    return found[::-1]


def _goes(candidate: Candidate) -> bool:
    return bool(candidate.rules) and candidate.held is None


def _size(candidate: Candidate) -> int:
    size = candidate.run.size_bytes
    return 0 if isinstance(size, Missing) else size
