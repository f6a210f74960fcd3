"""Read activities.jsonl, the rare calls of a job: of a long file some, with exact counts."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.profile.activities import Activity
from tfprobe.runs.process_folder import jsonl


@dataclass(frozen=True, slots=True)
class Begun:
    """An activity as it was noted at its beginning: with no end, and the counts before it."""

    activity: Activity


@dataclass(frozen=True, slots=True)
class ActivityLog:
    """The activities of a process, and how many lines could not be read.

    Times are on the clock that its reader was given the shift to.
    """

    ended: tuple[Activity, ...]
    begun: tuple[Activity, ...]
    bad_lines: int

    def until(self, last_ns: int) -> tuple[Activity, ...]:
        """Return all by their starts.

        One that began and has no end lasts to `last_ns`, the last sign of life of its process,
        which was killed in it or is still in it.
        """
        ended = {_key(activity) for activity in self.ended}
        last_ns = max((last_ns, *(activity.end_ns for activity in (*self.ended, *self.begun))))
        cut = (_cut(activity, last_ns) for activity in self.begun if _key(activity) not in ended)
        return tuple(sorted((*self.ended, *cut), key=lambda each: (each.start_ns, -each.end_ns)))


def _key(activity: Activity) -> tuple[str, str, str, int]:
    return activity.kind, activity.name, activity.thread, activity.start_ns


def _cut(activity: Activity, last_ns: int) -> Activity:
    total_ns = activity.total_ns + last_ns - activity.start_ns
    return replace(activity, end_ns=last_ns, count=activity.count + 1, total_ns=total_ns)


def _log(lines: Iterable[Activity | Begun], bad_lines: int) -> ActivityLog:
    ended: list[Activity] = []
    begun: list[Activity] = []
    for line in lines:
        if isinstance(line, Begun):
            begun.append(line.activity)
        else:
            ended.append(line)
    return ActivityLog(tuple(ended), tuple(begun), bad_lines)


# The most activities kept of a file. Of more, the first of each kind and name and every n-th.
MOST_KEPT = 1 << 14
_FIRST_KEPT = 256
_PART_BYTES = 16 << 20
_THREAD_KEY, _END_KEY = b', "thread": "', b', "end_ns": '
_NOT_ENDED = b', "end_ns": null'


_Parse = Callable[[bytes], Activity | Begun | None]


class ActivityHistory:
    """The activities of a process, which may still write: some of a long file, with exact counts.

    Counts and times of a line include all before it, so the last line of each kind and name is
    always kept. Most lines of a long file are never parsed, and memory is bounded.
    """

    def __init__(self, path: Path, *, process: int = 0, shift_ns: int = 0) -> None:
        """Begin with nothing read. `shift_ns`, unix time less monotonic time, is added to times."""
        self._parse = functools.partial(_line, process=process, shift_ns=shift_ns)
        self._tail = jsonl.Tail(path, part_bytes=_PART_BYTES)
        self._forget()

    def _forget(self) -> None:
        self.bad_lines = 0
        self._groups: dict[bytes, _Group] = {}
        self._open: dict[bytes, bytes] = {}

    def read(self) -> bool:
        """Look for new lines; return whether there is anything new."""
        has_news = False
        while True:
            news = self._tail.read()
            if news.is_from_start:
                self._forget()
            has_news = has_news or news.is_from_start or bool(news.lines)
            if not news.lines:
                return has_news
            self._add(news.lines)
            self._thin()

    @property
    def log(self) -> ActivityLog:
        """Return what is kept; of activities noted at their beginning only those that go on."""
        groups = self._groups.values()
        written = [*self._open.values(), *(group.last for group in groups if group.last)]
        parsed = [line for line in map(self._parse, written) if line is not None]
        kept = (line for group in groups for line in group.kept)
        return _log((*kept, *parsed), self.bad_lines + len(written) - len(parsed))

    def _add(self, news: list[bytes]) -> None:
        """Add lines by kind and name. The work per line counts: there may be millions."""
        by_key: dict[bytes, list[bytes]] = defaultdict(list)
        for line in news:
            by_key[line.partition(_THREAD_KEY)[0]].append(line)
        for key, lines in by_key.items():
            if len(key) == len(lines[0]):
                self._add_others(lines)
                continue
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(self._parse)
            self.bad_lines += group.add(self._ended(key, lines))

    def _ended(self, key: bytes, lines: list[bytes]) -> list[bytes]:
        """Return the lines of activities that have ended; remember those that go on."""
        begun = any(_NOT_ENDED in line for line in lines)
        if not begun and not any(start.startswith(key) for start in self._open):
            return lines
        ended = []
        for line in lines:
            if _NOT_ENDED in line:
                self._open[line.partition(_END_KEY)[0]] = line
            else:
                self._open.pop(line.partition(_END_KEY)[0], None)
                ended.append(line)
        return ended

    def _add_others(self, lines: list[bytes]) -> None:
        """Add lines that are not laid out as the agent does it."""
        parsed = [line for line in map(self._parse, lines) if line is not None]
        self.bad_lines += len(lines) - len(parsed)
        self._groups.setdefault(b"", _Group(self._parse)).kept.extend(parsed)

    def _thin(self) -> None:
        while sum(len(group.kept) for group in self._groups.values()) > MOST_KEPT:
            thinned = [group.thin() for group in self._groups.values()]
            if not any(thinned):
                return


class _Group:
    """The activities of one kind and name: those that are kept, and the last line as written."""

    __slots__ = ("_index", "_parse", "_stride", "kept", "last")

    def __init__(self, parse: _Parse) -> None:
        self._parse = parse
        self.kept: list[Activity | Begun] = []
        self.last = b""
        self._stride = 1
        self._index = 0

    def add(self, news: list[bytes]) -> int:
        """Add further lines; return how many of those to keep could not be read."""
        lines = [self.last, *news] if self.last else news
        if not lines:
            return 0
        self.last = lines[-1]
        chosen = lines[-self._index % self._stride : -1 : self._stride]
        self._index += len(lines) - 1
        parsed = [line for line in map(self._parse, chosen) if line is not None]
        self.kept.extend(parsed)
        return len(chosen) - len(parsed)

    def thin(self) -> bool:
        """Keep the first ones and every other of the rest; return whether that is fewer."""
        if len(self.kept) <= 2 * _FIRST_KEPT:
            return False
        self.kept = self.kept[:_FIRST_KEPT] + self.kept[_FIRST_KEPT::2]
        self._stride *= 2
        return True


def read_activities(path: Path, *, process: int = 0, shift_ns: int = 0) -> ActivityLog:
    """Read the activities of one process; an absent file has none."""
    history = ActivityHistory(path, process=process, shift_ns=shift_ns)
    history.read()
    return history.log


def read_latest_activities(
    path: Path, *, last_bytes: int, process: int = 0, shift_ns: int = 0
) -> ActivityLog:
    """Read the activities in the last part of the file of one process."""
    parse: _Parse = functools.partial(_line, process=process, shift_ns=shift_ns)
    log: jsonl.Log[Activity | Begun] = jsonl.Log(path, parse, last_bytes=last_bytes)
    return _log(log.read().things, log.bad_lines)


def _line(line: bytes, *, process: int, shift_ns: int) -> Activity | Begun | None:
    fields = jsonl.object_of(line)
    if fields is None:
        return None
    kind, name = jsonl.text(fields, "activity"), jsonl.text(fields, "name")
    start_ns, end_ns = jsonl.integer(fields, "start_ns"), jsonl.integer(fields, "end_ns")
    count, total_ns = jsonl.integer(fields, "count"), jsonl.integer(fields, "total_ns")
    if not kind or name is None or start_ns is None or count is None or total_ns is None:
        return None
    if end_ns is None and fields.get("end_ns") is not None:
        return None
    if count < 0 or total_ns < 0 or (end_ns is not None and end_ns < start_ns):
        return None
    activity = Activity(
        process=process,
        kind=kind,
        name=name,
        thread=jsonl.text(fields, "thread") or "",
        start_ns=start_ns + shift_ns,
        end_ns=(start_ns if end_ns is None else end_ns) + shift_ns,
        count=count,
        total_ns=total_ns,
        file=jsonl.text(fields, "file") or "",
        line=jsonl.integer(fields, "line") or 0,
    )
    return Begun(activity) if end_ns is None else activity
