"""Tell what is new in a profile beside an earlier one of the same run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.profile.profile import Capture, Process, Profile, RecentSteps, Work

ENDED = frozenset({"finished", "failed", "terminated", "replaced", "killed"})


@dataclass(frozen=True, slots=True)
class NewSteps:
    """The steps that one work has made since: `count` were completed, `raised` raised.

    `times` holds them oldest first, in monotonic ns; where there were more than the recording keeps
    of a work, the latest.
    """

    work: Work
    count: int
    raised: int
    times: RecentSteps

    @property
    def durations_ns(self) -> npt.NDArray[np.int64]:
        """Return how long each of `times` took that was completed."""
        completed = ~self.times.raised
        durations_ns: npt.NDArray[np.int64] = (self.times.end_ns - self.times.start_ns)[completed]
        return durations_ns


@dataclass(frozen=True, slots=True)
class News:
    """What has happened in a run since. Works and captures without any news are left out.

    Works, captures and processes are those of the later profile.
    """

    steps: tuple[NewSteps, ...]
    captures: tuple[Capture, ...]
    appeared: tuple[Process, ...]
    ended: tuple[Process, ...]


def news(profile: Profile, before: Profile | None = None) -> News:
    """Return what is new in a profile; where there was none before, all of it is."""
    old = _Old(before)
    return News(
        steps=tuple(_new_steps(profile, old)),
        captures=tuple(
            capture
            for capture in profile.captures
            if (*_key(profile.processes[capture.process]), capture.file) not in old.captures
        ),
        appeared=tuple(each for each in profile.processes if _key(each) not in old.processes),
        ended=tuple(
            each
            for each in profile.processes
            if each.state in ENDED and old.processes.get(_key(each)) not in ENDED
        ),
    )


class _Old:
    """What there was before, by what stays: places may move as processes come."""

    def __init__(self, profile: Profile | None) -> None:
        processes = () if profile is None else profile.processes
        works = () if profile is None else profile.works
        captures = () if profile is None else profile.captures
        self.processes = {_key(each): each.state for each in processes}
        self.works = {(*_key(processes[work.process]), work.index): work for work in works}
        self.captures = {(*_key(processes[each.process]), each.file) for each in captures}


def _new_steps(profile: Profile, old: _Old) -> list[NewSteps]:
    found = []
    for work in profile.works:
        known = old.works.get((*_key(profile.processes[work.process]), work.index))
        if known is not None and known.executed > work.executed:
            known = None  # another process wrote in the place of the one before
        executed, raised = (0, 0) if known is None else (known.executed, known.raised)
        if work.executed > executed:
            since = _since(work.recent, executed)
            news = work.executed - executed
            found.append(NewSteps(work, news - (work.raised - raised), work.raised - raised, since))
    return found


def _since(recent: RecentSteps, step: int) -> RecentSteps:
    skip = max(step - recent.first_step, 0)
    return RecentSteps(
        first_step=recent.first_step + skip,
        start_ns=recent.start_ns[skip:],
        end_ns=recent.end_ns[skip:],
        sampled=recent.sampled[skip:],
        raised=recent.raised[skip:],
        new_thread=recent.new_thread[skip:],
        watched=recent.watched[skip:],
    )


def _key(process: Process) -> tuple[str, str]:
    return process.host, process.folder
