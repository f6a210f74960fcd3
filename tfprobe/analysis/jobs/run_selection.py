"""Choose runs of a listing: by state, age and name, those of one job, and those to remove."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tfprobe.analysis.core.names import Patterns
from tfprobe.errors import Missing
from tfprobe.profile.snapshots import RunLine


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on the runs to list. Without any, all are listed; of several values, one must
    match.

    Hosts, users and names are names or shell patterns, as are the values of tags, all of which must
    match. Ages are in ns (RunLine.age_ns). An unknown value matches nothing.
    """

    states: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    commands: Patterns | None = None
    older_ns: int | None = None
    newer_ns: int | None = None
    names: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Filtered:
    """The runs that match, and how many were left after each filter, in order."""

    runs: tuple[RunLine, ...]
    left: tuple[tuple[str, int], ...]


def filter_runs(runs: Sequence[RunLine], filters: Filters, now_unix_ns: int) -> Filtered:
    """Return the runs that match all filters, in their order."""
    chosen = tuple(runs)
    left = []
    for name, fits in _conditions(filters, now_unix_ns):
        chosen = tuple(run for run in chosen if fits(run))
        left.append((name, len(chosen)))
    return Filtered(chosen, tuple(left))


def _conditions(filters: Filters, now_unix_ns: int) -> list[tuple[str, Callable[[RunLine], bool]]]:
    older_ns, newer_ns, commands = filters.older_ns, filters.newer_ns, filters.commands
    wanted: list[tuple[str, Callable[[RunLine], bool]]] = []
    if filters.states:
        wanted.append(("state", lambda run: run.state in filters.states))
    if filters.hosts:
        wanted.append(("host", lambda run: any(_fits(h, filters.hosts) for h in run.hosts)))
    if filters.users:
        wanted.append(("user", lambda run: _fits(run.user, filters.users)))
    if commands is not None:
        wanted.append(("command", lambda run: _is_command(run, commands)))
    if filters.names:
        wanted.append(("name", lambda run: _fits(run.name, filters.names)))
    if filters.tags:
        wanted.append(("tag", lambda run: _has_tags(run, filters.tags)))
    if older_ns is not None:
        wanted.append(("older", lambda run: _age_ns(run, now_unix_ns, -1) >= older_ns))
    if newer_ns is not None:
        wanted.append(("newer", lambda run: _age_ns(run, now_unix_ns, newer_ns + 1) <= newer_ns))
    return wanted


def _fits(name: str | Missing, patterns: Sequence[str]) -> bool:
    if isinstance(name, Missing):
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_command(run: RunLine, patterns: Patterns) -> bool:
    if isinstance(run.command, Missing):
        return False
    return patterns.any_is_in(shlex.join(run.command))


def _has_tags(run: RunLine, wanted: Sequence[tuple[str, str]]) -> bool:
    tags = dict(run.tags)
    return all(key in tags and fnmatchcase(tags[key], pattern) for key, pattern in wanted)


def _age_ns(run: RunLine, now_unix_ns: int, otherwise_ns: int) -> int:
    age_ns = run.age_ns(now_unix_ns)
    return otherwise_ns if isinstance(age_ns, Missing) else age_ns


Key = tuple[str, tuple[str, ...]]


def job_key(run: RunLine) -> Key | Missing:
    """Return what runs of one job have in common: their name, else their command.

    The path of the program is left out: another interpreter runs the same job.
    """
    if not isinstance(run.name, Missing):
        return "name", (run.name,)
    if isinstance(run.command, Missing):
        return run.command
    return "command", tuple(run.command[1:] or run.command)


def earlier_runs(run: RunLine, runs: Sequence[RunLine]) -> tuple[RunLine, ...]:
    """Return the runs of the same job that ended before this one and have steps, oldest first."""
    key = job_key(run)
    if isinstance(key, Missing) or isinstance(run.started, Missing):
        return ()
    found = [
        other
        for other in runs
        if other.id != run.id
        and job_key(other) == key
        and other.steps
        and not other.is_live
        and _start(other) < run.started
    ]
    return tuple(sorted(found, key=_start))


def jobs(runs: Sequence[RunLine]) -> tuple[tuple[RunLine, ...], ...]:
    """Return the runs of each job, oldest first; the job that ran last comes first."""
    groups: dict[Key, list[RunLine]] = {}
    for run in sorted(runs, key=_start):
        key = job_key(run)
        if not isinstance(key, Missing):
            groups.setdefault(key, []).append(run)
    return tuple(sorted(map(tuple, groups.values()), key=lambda job: _start(job[-1]), reverse=True))


def _start(run: RunLine) -> str:
    # As run.json writes it, which sorts by time.
    return "" if isinstance(run.started, Missing) else run.started


KEEP, OLDER, SIZE = "keep", "older", "size"


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How many of the newest runs to keep, up to which age in ns, and up to which total size."""

    keep: int | None = None
    older_ns: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that may be removed, unless `locked` says why not; `rules` are those that remove it."""

    run: RunLine
    locked: str | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retention:
    """The runs to remove, and those that a rule would remove but are locked. Newest first."""

    goes: tuple[Candidate, ...]
    locked: tuple[Candidate, ...]


def choose_removals(
    candidates: Sequence[Candidate], rules: RetentionRules, now_unix_ns: int
) -> Retention:
    """Return which runs to remove; the candidates are sorted newest first.

    Locked runs count: they are among the newest, and occupy their size. By size, the oldest are
    removed first, until the rest fits; a run of unknown size occupies nothing.
    """
    judged = [
        replace(candidate, rules=_by_number_and_age(place, candidate.run, rules, now_unix_ns))
        for place, candidate in enumerate(candidates)
    ]
    if rules.size_bytes is not None:
        judged = _by_size(judged, rules.size_bytes)
    chosen = [run for run in judged if run.rules]
    return Retention(
        goes=tuple(run for run in chosen if run.locked is None),
        locked=tuple(run for run in chosen if run.locked is not None),
    )


def _by_number_and_age(
    place: int, run: RunLine, rules: RetentionRules, now_unix_ns: int
) -> tuple[str, ...]:
    found = []
    if rules.keep is not None and place >= rules.keep:
        found.append(KEEP)
    age_ns = run.age_ns(now_unix_ns)
    if rules.older_ns is not None and not isinstance(age_ns, Missing) and age_ns > rules.older_ns:
        found.append(OLDER)
    return tuple(found)


def _by_size(judged: Sequence[Candidate], limit_bytes: int) -> list[Candidate]:
    """Add the rule of size to the oldest runs, until the rest is within the limit."""
    stays_bytes = sum(_size(run) for run in judged if not _goes(run))
    selected = []
    for run in reversed(judged):
        if stays_bytes <= limit_bytes or _goes(run):
            selected.append(run)
            continue
        selected.append(replace(run, rules=(*run.rules, SIZE)))
        stays_bytes -= _size(run) if run.locked is None else 0
    return selected[::-1]


def _goes(candidate: Candidate) -> bool:
    return bool(candidate.rules) and candidate.locked is None


def _size(candidate: Candidate) -> int:
    size = candidate.run.size_bytes
    return 0 if isinstance(size, Missing) else size
