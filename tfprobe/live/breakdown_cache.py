"""Measure where the time of processes goes: in a cycle, from a few of the newest captures, and
since the start, which these captures divide.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.analysis.account.account import Account, process_account
from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop, run_breakdown
from tfprobe.errors import Missing, UnreadableInput
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.live_process import newest_captures, noted
from tfprobe.profile.snapshots import LoopShares, TimeUse, WallTime
from tfprobe.runs.layout import ProcessFolder, is_capture, parse_capture_name
from tfprobe.runs.process_folder.file_cache import Listing

# Three steps smooth what one alone may have met by chance.
MOST_CAPTURES = 3
# What decoding may take of a core, over all processes: a quarter of what watching may take.
CORE_RATIO = 0.05
# No further capture is begun after this time: who watches waits for it.
ENOUGH_S = 0.25
# From one account of a process to the next; a share of all time since the start changes slowly.
ACCOUNT_EVERY_S = 30.0
# Whoever was not asked for while each of the others could be three times is gone, and keeps nobody
# waiting. Its answer is kept longer: whoever looks at one process may come back to the others.
_GONE_ROUNDS = 3
_KEPT_ASKS = 10_000

NONE_SAMPLED = Missing("no step was traced")
NOT_YET = Missing("its captures have not been read yet")
NO_PROGRESS = Missing("no step made progress")


@dataclass(slots=True)
class _Known:
    """What is known of one process.

    `captures` tells what there is, how many captures and their latest step, and `read` what there
    was when the answer was made. `grows` are the sizes of the files which did not tell all of the
    newest one then: they tell it a moment later. `parts` are the traced steps that were read;
    `noted` are the sizes of what the wall time was made of, at `noted_s`.
    """

    listing: Listing
    names: tuple[str, ...] | Missing = ()
    captures: tuple[int, int] = (0, -1)
    shares: LoopShares | Missing = NOT_YET
    wall_time: WallTime | Missing = NOT_YET
    read: tuple[int, int] = (0, -1)
    grows: tuple[int, ...] | None = None
    parts: tuple[LoopParts, ...] = ()
    noted: tuple[int, ...] | None = None
    noted_s: float = 0.0
    requested_at: int = 0
    waits_since: int | None = None


class BreakdownCache:
    """Keeps where the time of each process goes until it has a new capture, and a while longer
    what was noted. Not for several threads at once.

    Of the processes that have something new, that which has waited longest is read next, and not
    before the time that the reading before took is at most `core_ratio` of the time since it began.
    """

    def __init__(
        self, *, core_ratio: float = CORE_RATIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing read. `clock` counts seconds."""
        self._core_ratio = core_ratio
        self._clock = clock
        self._free_at_s = clock()
        self._asks = 0
        # The one asked for longest ago is first.
        self._known: dict[Path, _Known] = {}

    def time_use(self, folder: ProcessFolder) -> TimeUse:
        """Return where the time of a process goes, its shares by the newest captures of its
        busiest loop.

        It may be what was known before its very newest capture, until there is time to read that.
        """
        known = self._ask(folder)
        if not self._has_new_captures(folder, known) and not self._has_new_notes(folder, known):
            known.waits_since = None
        elif known.waits_since is None:
            known.waits_since = self._asks
        if known.waits_since is not None and self._is_its_turn(known):
            self._read(folder, known)
        return TimeUse(known.shares, known.wall_time)

    def _ask(self, folder: ProcessFolder) -> _Known:
        self._asks += 1
        known = self._known.pop(folder.root, None) or _Known(Listing(folder.captures))
        known.requested_at = self._asks
        self._known[folder.root] = known
        oldest = next(iter(self._known))
        if self._asks - self._known[oldest].requested_at > _KEPT_ASKS:
            del self._known[oldest]
        return known

    def _has_new_captures(self, folder: ProcessFolder, known: _Known) -> bool:
        captures = self._captures(known)
        if not captures[0]:
            known.shares, known.read = NONE_SAMPLED, captures
        if captures != known.read:
            return True
        return known.grows is not None and known.grows != _sizes(folder.events, folder.gaps)

    def _has_new_notes(self, folder: ProcessFolder, known: _Known) -> bool:
        if known.noted is None:
            return True
        is_due = self._clock() >= known.noted_s + ACCOUNT_EVERY_S
        return is_due and known.noted != _note_sizes(folder)

    def _captures(self, known: _Known) -> tuple[int, int]:
        """Return how many captures there are, and the latest step of them."""
        names = known.listing.names(self._clock())
        if names is not known.names:
            found = () if isinstance(names, Missing) else filter(is_capture, names)
            steps = [named.step for named in map(parse_capture_name, found) if named is not None]
            known.names, known.captures = names, (len(steps), max(steps, default=-1))
        return known.captures

    def _is_its_turn(self, known: _Known) -> bool:
        if self._clock() < self._free_at_s:
            return False
        there = self._asks - _GONE_ROUNDS * len(self._known)
        waits = [
            each.waits_since
            for each in self._known.values()
            if each.waits_since is not None and each.requested_at >= there
        ]
        return known.waits_since == min(waits)

    def _read(self, folder: ProcessFolder, known: _Known) -> None:
        began_s = self._clock()
        known.waits_since = None
        if self._has_new_captures(folder, known):
            self._read_captures(folder, known, began_s)
        # Its sizes first: what comes while it is read is new.
        known.noted, known.noted_s = _note_sizes(folder), began_s
        known.wall_time = _wall_time(folder, known.parts)
        self._free_at_s = began_s + (self._clock() - began_s) / self._core_ratio

    def _read_captures(self, folder: ProcessFolder, known: _Known, began_s: float) -> None:
        known.read = known.captures
        sizes = _sizes(folder.events, folder.gaps)
        try:
            profile = newest_captures(
                folder, most=MOST_CAPTURES, go_on=lambda: self._clock() - began_s < ENOUGH_S
            )
        except UnreadableInput as exc:
            known.shares, known.parts, known.grows = Missing(str(exc)), (), None
            return
        known.parts = tuple(parts_by_loop(profile))
        known.shares = _shares(profile, known.parts)
        names = () if isinstance(known.names, Missing) else known.names
        known.grows = None if _tells_all(profile, names) else sizes


def _shares(profile: Profile, loops: Iterable[LoopParts]) -> LoopShares | Missing:
    if profile.problems and not profile.captures:
        return Missing(profile.problems[0].what)
    breakdown = run_breakdown(profile, loops)
    if isinstance(breakdown, Missing):
        return breakdown
    return LoopShares(
        before_ratio=breakdown.group("before"),
        on_ratio=breakdown.group("on"),
        after_ratio=breakdown.group("after"),
        other_ratio=breakdown.group("other"),
        captures=breakdown.captures,
        newest_unix_ns=max(capture.start_ns for capture in profile.captures),
    )


def _wall_time(folder: ProcessFolder, loops: Sequence[LoopParts]) -> WallTime | Missing:
    try:
        profile = noted(folder)
    except UnreadableInput as exc:
        return Missing(str(exc))
    account = process_account(profile, profile.processes[0], loops)
    return account if isinstance(account, Missing) else _of_account(account)


def _of_account(account: Account) -> WallTime:
    return WallTime(
        wall_ns=account.wall_ns,
        parts_ns=tuple((part.category.value, part.ns) for part in account.parts),
        # For a process without steps, such as a server, 0 would look like a bad job.
        goodput_ratio=account.goodput_ratio if account.steps else NO_PROGRESS,
    )


def _tells_all(profile: Profile, names: Iterable[str]) -> bool:
    """Say whether the newest capture is there with its event, and what ran after the step.

    The agent writes the event right after the capture, the other when the next step begins.
    """
    if not profile.captures:
        return True
    latest = profile.captures[-1]
    if any(_is_later(name, latest.file) for name in names):
        return False
    after = {(gap.loop, gap.step) for gap in profile.gaps}
    return latest.level != "unknown" and (latest.loop, latest.step) in after


def _is_later(name: str, than: str) -> bool:
    """Say whether a file is a capture of a later step of the same loop."""
    one, other = parse_capture_name(name), parse_capture_name(than)
    if one is None or other is None or not is_capture(name):
        return False
    return one.loop == other.loop and one.step > other.step


def _note_sizes(folder: ProcessFolder) -> tuple[int, ...]:
    return _sizes(folder.activities, folder.gaps, folder.resource_samples)


def _sizes(*paths: Path) -> tuple[int, ...]:
    return tuple(map(_size, paths))


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def within(
    limit_s: float, time_use: Callable[[ProcessFolder], TimeUse]
) -> Callable[[ProcessFolder], TimeUse]:
    """Return `time_use`, which answers for `limit_s` from now; for one snapshot that is enough."""
    until_s = time.monotonic() + limit_s

    def limited(folder: ProcessFolder) -> TimeUse:
        if time.monotonic() < until_s:
            return time_use(folder)
        why = Missing("its captures were not read: those of other processes took too long")
        return TimeUse(why, why)

    return limited
