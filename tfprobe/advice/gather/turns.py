"""Gather which rank comes last to the collectives that ranks meet in."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.advice.signals import Turns
from tfprobe.errors import Missing
from tfprobe.model.profile import Profile, Work
from tfprobe.views.collectives import Rank, collectives
from tfprobe.views.origins import Origins

# Of fewer, one of two equal ranks is last in nearly all by chance.
_LEAST_MATCHED = 5
_Key = tuple[int, int]


def turns(profile: Profile) -> dict[_Key, Turns]:
    """Return the turns of each work of a rank, by its process and number.

    Works of one kind and name are compared. Where too few collectives were seen in several ranks
    there is nothing to compare.
    """
    groups: dict[tuple[str, str], list[Work]] = {}
    for work in profile.works:
        if profile.processes[work.process].rank is not None:
            groups.setdefault((work.kind, work.name), []).append(work)
    found: dict[_Key, Turns] = {}
    for group in groups.values():
        found |= _of_group(profile, group)
    return found


def _of_group(profile: Profile, works: Sequence[Work]) -> dict[_Key, Turns]:
    keys = {(each.process, each.index) for each in works}
    own = tuple(each for each in profile.captures if (each.process, each.work) in keys)
    if len({each.process for each in own}) < 2:
        return {}
    met = collectives(profile.only(own), Origins(()))
    if isinstance(met, Missing) or isinstance(met.ranks, Missing):
        return {}
    by_process = {each.process: _turns(each) for each in met.ranks}
    return {
        key: by_process[key[0]]
        for key in keys
        if key[0] in by_process and by_process[key[0]].matched >= _LEAST_MATCHED
    }


def _turns(rank: Rank) -> Turns:
    matched = max(rank.matched, 1)
    return Turns(rank.matched, rank.last / matched, rank.waiting_ns / matched)
