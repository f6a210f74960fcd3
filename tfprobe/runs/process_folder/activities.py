"""Read activities.jsonl. Times are monotonic ns."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tfprobe.runs.process_folder import jsonl


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """One interval as the agent told it. `end_ns` is None where it was told at its beginning.

    `count` and `total_ns` are those of all intervals of this kind and name that had ended by then.
    """

    kind: str
    name: str
    thread: str
    start_ns: int
    end_ns: int | None
    count: int
    total_ns: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ActivityLog:
    """The intervals of a process, and how many lines could not be read."""

    lines: tuple[ActivityLine, ...]
    bad_lines: int


# So many intervals are kept of a file; of more, of each kind and name the first and every n-th.
MOST_KEPT = 1 << 14
_FIRST_KEPT = 256
_PART_BYTES = 16 << 20
_THREAD_KEY, _END_KEY = b', "thread": "', b', "end_ns": '
_NOT_ENDED = b', "end_ns": null'


class ActivityHistory:
    """The intervals of a process that may add more: few of a long file, with exact counts.

    Counts and times of a line are those of all before it, so the last line of each kind and name
    is always kept. Most lines of a long file are never parsed, and memory is bounded.
    """

    def __init__(self, path: Path) -> None:
        """Begin with nothing read."""
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
        """Return what is kept; of intervals told at their beginning only those that go on."""
        bad_lines = self.bad_lines
        found: list[ActivityLine] = []
        for line in (*self._open.values(), *(each.last for each in self._groups.values())):
            parsed = _line(line) if line else None
            if parsed is not None:
                found.append(parsed)
            bad_lines += bool(line) and parsed is None
        kept = (line for group in self._groups.values() for line in group.kept)
        return ActivityLog((*kept, *found), bad_lines)

    def _add(self, news: list[bytes]) -> None:
        """Add lines by kind and name; what is done for each line is done millions of times."""
        by_key: dict[bytes, list[bytes]] = defaultdict(list)
        for line in news:
            by_key[line.partition(_THREAD_KEY)[0]].append(line)
        for key, found in by_key.items():
            if len(key) == len(found[0]):
                self._add_others(found)
                continue
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group()
            self.bad_lines += group.add(self._ended(key, found))

    def _ended(self, key: bytes, found: list[bytes]) -> list[bytes]:
        """Return the lines of intervals that have ended; those that go on are remembered."""
        begun = any(_NOT_ENDED in line for line in found)
        if not begun and not any(each.startswith(key) for each in self._open):
            return found
        ended = []
        for line in found:
            if _NOT_ENDED in line:
                self._open[line.partition(_END_KEY)[0]] = line
            else:
                self._open.pop(line.partition(_END_KEY)[0], None)
                ended.append(line)
        return ended

    def _add_others(self, found: list[bytes]) -> None:
        """Add lines that are not laid out as the agent does it."""
        good = [line for line in map(_line, found) if line is not None]
        self.bad_lines += len(found) - len(good)
        self._groups.setdefault(b"", _Group()).kept.extend(good)

    def _thin(self) -> None:
        while sum(len(group.kept) for group in self._groups.values()) > MOST_KEPT:
            thinned = [group.thin() for group in self._groups.values()]
            if not any(thinned):
                return


class _Group:
    """The intervals of one kind and name: those that are kept, and the last as it was written."""

    __slots__ = ("_index", "_stride", "kept", "last")

    def __init__(self) -> None:
        self.kept: list[ActivityLine] = []
        self.last = b""
        self._stride = 1
        self._index = 0

    def add(self, news: list[bytes]) -> int:
        """Take further lines; return how many of those to keep were none."""
        found = [self.last, *news] if self.last else news
        if not found:
            return 0
        self.last = found[-1]
        chosen = found[-self._index % self._stride : -1 : self._stride]
        self._index += len(found) - 1
        good = [line for line in map(_line, chosen) if line is not None]
        self.kept.extend(good)
        return len(chosen) - len(good)

    def thin(self) -> bool:
        """Keep every other one but the first; return whether that is less."""
        if len(self.kept) <= 2 * _FIRST_KEPT:
            return False
        self.kept = self.kept[:_FIRST_KEPT] + self.kept[_FIRST_KEPT::2]
        self._stride *= 2
        return True


def read_activities(path: Path) -> ActivityLog:
    """Read the activities of one process; an absent file holds none."""
    history = ActivityHistory(path)
    history.read()
    return history.log


def activity_log(path: Path, *, last_bytes: int | None = None) -> jsonl.Log[ActivityLine]:
    """Return a reader of the activities of a process that may add more; see `lines.Log`."""
    return jsonl.Log(path, _line, last_bytes=last_bytes)


def _line(line: bytes) -> ActivityLine | None:
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
    thread = jsonl.text(fields, "thread") or ""
    file, number = jsonl.text(fields, "file") or "", jsonl.integer(fields, "line") or 0
    return ActivityLine(kind, name, thread, start_ns, end_ns, count, total_ns, file, number)
