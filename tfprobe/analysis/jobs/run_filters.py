"""Choose runs of a listing by state, host, user, command, name, tags and age."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tfprobe.analysis.core.patterns import Patterns
from tfprobe.errors import Missing
from tfprobe.profile.snapshots import RunLine


@dataclass(frozen=True, slots=True)
class Filters:
    """What runs must be to be listed; none given takes all, of several values one must fit.

    Hosts, users and names are names, or patterns as shells have them; so are the values of tags, of
    which all must fit. Ages are in ns: see RunLine.age_ns. What a recording does not tell fits
    nothing.
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
    """The runs that fit, and how many were left after each filter, in the order they were asked."""

    runs: tuple[RunLine, ...]
    left: tuple[tuple[str, int], ...]


def choose(runs: Sequence[RunLine], filters: Filters, now_unix_ns: int) -> Filtered:
    """Return the runs that fit all filters, in the order they came."""
    chosen = tuple(runs)
    left = []
    for name, fits in _asked(filters, now_unix_ns):
        chosen = tuple(run for run in chosen if fits(run))
        left.append((name, len(chosen)))
    return Filtered(chosen, tuple(left))


def _asked(filters: Filters, now_unix_ns: int) -> list[tuple[str, Callable[[RunLine], bool]]]:
    older_ns, newer_ns, commands = filters.older_ns, filters.newer_ns, filters.commands
    asked: list[tuple[str, Callable[[RunLine], bool]]] = []
    if filters.states:
        asked.append(("state", lambda run: run.state in filters.states))
    if filters.hosts:
        asked.append(("host", lambda run: any(_fits(h, filters.hosts) for h in run.hosts)))
    if filters.users:
        asked.append(("user", lambda run: _fits(run.user, filters.users)))
    if commands is not None:
        asked.append(("command", lambda run: _is_command(run, commands)))
    if filters.names:
        asked.append(("name", lambda run: _fits(run.name, filters.names)))
    if filters.tags:
        asked.append(("tag", lambda run: _has_tags(run, filters.tags)))
    if older_ns is not None:
        asked.append(("older", lambda run: _age_ns(run, now_unix_ns, -1) >= older_ns))
    if newer_ns is not None:
        asked.append(("newer", lambda run: _age_ns(run, now_unix_ns, newer_ns + 1) <= newer_ns))
    return asked


def _fits(name: str | Missing, patterns: Sequence[str]) -> bool:
    if isinstance(name, Missing):
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_command(run: RunLine, patterns: Patterns) -> bool:
    if isinstance(run.command, Missing):
        return False
    return patterns.any_is_in(shlex.join(run.command))


def _has_tags(run: RunLine, asked: Sequence[tuple[str, str]]) -> bool:
    tags = dict(run.tags)
    return all(key in tags and fnmatchcase(tags[key], pattern) for key, pattern in asked)


def _age_ns(run: RunLine, now_unix_ns: int, otherwise_ns: int) -> int:
    age_ns = run.age_ns(now_unix_ns)
    return otherwise_ns if isinstance(age_ns, Missing) else age_ns
