"""Follow the captures of a process: each is decoded once, when it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.profile.profile import Problem
from tfprobe.profile.reader.captures import (
    CaptureKey,
    Decoded,
    Decoder,
    Gathered,
    Wanted,
    Window,
    window_of,
)
from tfprobe.profile.tables import Interner
from tfprobe.runs.layout import ProcessFolder, parse_capture_name
from tfprobe.runs.process_folder.events import Event
from tfprobe.runs.process_folder.steps import StepsFile

_Seen = tuple[int, ...]
# Where in it the size stands.
_SIZE = 2


@dataclass(frozen=True, slots=True)
class _Source:
    """All that a capture is made from: where one of these is another, it is decoded again."""

    file: _Seen | None
    sample: Event | None
    window_ns: Window | None
    graph: _Seen | None


class FollowedCaptures:
    """The captures of one process. Those that can be decoded are put into `gathered`."""

    def __init__(
        self,
        folder: ProcessFolder,
        gathered: Gathered,
        *,
        with_memory: bool,
        with_spans: bool,
        with_host_allocations: bool,
    ) -> None:
        """Begin with nothing read."""
        self._folder = folder
        self._gathered = gathered
        self._parts = {
            "with_memory": with_memory,
            "with_spans": with_spans,
            "with_host_allocations": with_host_allocations,
        }
        self._decoder = Decoder(folder, gathered.interner, **self._parts)
        self._sources: dict[str, _Source] = {}
        self._all: dict[str, _Source] = {}
        self._rows: dict[str, int] = {}
        self._waiting: dict[str, _Source] = {}
        self._graphs: dict[str, _Seen | None] = {}
        self._problems: dict[str, Problem] = {}

    @property
    def waiting(self) -> int:
        """Return how many captures have not been decoded."""
        return len(self._waiting)

    def problems(self) -> tuple[Problem, ...]:
        """Return what captures could not be decoded, by their names."""
        return tuple(self._problems[name] for name in sorted(self._problems))

    def look(self, samples: Mapping[str, Event], steps: StepsFile | None) -> None:
        """Find out which captures there are, and which of them are to be decoded."""
        self._look_at_graphs(samples)
        sources = {
            path.name: self._source(path, samples.get(path.name), steps)
            for path in self._folder.capture_files()
        }
        for name in self._sources.keys() - sources.keys():
            self._drop(name)
        # As they were taken: decoders learn from what was before.
        places = {name: place for place, name in enumerate(samples)}
        order = sorted(sources, key=lambda name: (places.get(name, len(places)), name))
        self._all = {name: sources[name] for name in order}
        self._waiting = {n: sources[n] for n in order if self._sources.get(n) != sources[n]}

    def files(self) -> tuple[CaptureFile, ...]:
        """Return all that there were at the last look, decoded or not, as they were taken."""
        return tuple(self._file(name, source) for name, source in self._all.items())

    def keep(self, names: frozenset[str]) -> None:
        """Decode none but these, and remove the others."""
        self._waiting = {n: source for n, source in self._waiting.items() if n in names}
        for name in [each for each in self._sources if each not in names]:
            self._drop(name)

    def rows_in(self, name: str) -> int:
        """Return how many rows a capture has, of which nothing is kept."""
        source = self._all[name]
        decoder = Decoder(self._folder, Interner(), **self._parts)
        item = decoder.decode(name, source.sample, source.window_ns)
        return 0 if isinstance(item, Problem) else _rows(item)

    def decode(self, tell: Callable[[], None]) -> None:
        """Decode those that wait; `tell` is called after each."""
        wanted = [Wanted(n, each.sample, each.window_ns) for n, each in self._waiting.items()]
        items = self._decoder.decode_all(wanted)
        for (name, source), item in zip(self._waiting.items(), items, strict=True):
            self._drop(name)
            if isinstance(item, Problem):
                self._problems[name] = item
            else:
                self._gathered.put(self._key(name), item)
                self._rows[name] = _rows(item)
            self._sources[name] = source
            tell()
        self._waiting = {}

    def drop(self) -> None:
        """Remove all, as the process is gone."""
        for name in tuple(self._sources):
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._sources.pop(name, None)
        self._problems.pop(name, None)
        self._rows.pop(name, None)
        self._gathered.drop(self._key(name))

    def _file(self, name: str, source: _Source) -> CaptureFile:
        named = parse_capture_name(name)
        return CaptureFile(
            name=name,
            loop=-1 if named is None else named.loop,
            bytes=source.file[_SIZE] if source.file else 0,
            rows=self._rows.get(name),
        )

    def _key(self, name: str) -> CaptureKey:
        return self._folder.host, self._folder.name, name

    def _look_at_graphs(self, samples: Mapping[str, Event]) -> None:
        """Note which graphs there are: ops of nodes that rows do not tell are taken from them."""
        fingerprints = {sample.text("graph") for sample in samples.values()} - {None}
        graphs = {each: _seen(self._folder.graph(each)) for each in fingerprints if each}
        for fingerprint, seen in graphs.items():
            if self._graphs.get(fingerprint) != seen:
                self._decoder.forget(fingerprint)
        self._graphs = graphs

    def _source(self, path: Path, sample: Event | None, steps: StepsFile | None) -> _Source:
        fingerprint = sample.text("graph") if sample else None
        return _Source(
            file=_seen(path),
            sample=sample,
            window_ns=window_of(path.name, sample, steps),
            graph=self._graphs.get(fingerprint) if fingerprint else None,
        )


def _rows(item: Decoded) -> int:
    trace = item.trace
    return len(trace.rows) + len(trace.spans) + len(trace.allocations)


def _seen(path: Path) -> _Seen | None:
    """Return what tells a file from what it was before."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a fingerprint may be damaged to what no file is called
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


# What a row of a capture takes in its file at least: below, nobody need look how many there are.
LEAST_BYTES_A_ROW = 8


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A capture of a process, `work` as its name tells. `rows` is None until it is decoded."""

    name: str
    loop: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not read of a run: `captures` of `of`, and of `processes` none at all."""

    captures: int
    of: int
    processes: int

    def __str__(self) -> str:
        """Return it as a sentence, with what to do."""
        none = f", and none of {_processes(self.processes)}" if self.processes else ""
        return (
            f"Of {self.of:,} traced steps the newest {self.of - self.captures:,} are read{none}:"
            " all would take too much memory. Step times are those of all steps."
        )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"


Places = Sequence[Sequence[CaptureFile]]


def may_exceed(files: Places, most_rows: int) -> bool:
    """Say whether these captures, by process, may have more rows than that."""
    whole_bytes = sum(each.bytes for of_process in files for each in of_process)
    return whole_bytes > most_rows * LEAST_BYTES_A_ROW


def typical(files: Places) -> list[tuple[int, CaptureFile]]:
    """Return the smallest, the middle and the largest capture with the places of their processes.

    One that has no byte has no row either, and tells nothing.
    """
    every = [(at, each) for at, of_process in enumerate(files) for each in of_process if each.bytes]
    every.sort(key=lambda each: each[1].bytes)
    return [every[0], every[len(every) // 2], every[-1]] if every else []


def newest_within(files: Places, most_rows: int, rows_per_byte: float) -> list[frozenset[str]]:
    """Return for each process the names of those that are read; `files` are as they were taken.

    Of a capture that was not decoded the rows are guessed by its size. The first is read anyway.
    """
    chosen: list[set[str]] = [set() for _ in files]
    rows = 0.0
    for at, each in _in_rounds(files):
        rows += each.bytes * rows_per_byte if each.rows is None else each.rows
        if rows > most_rows and any(chosen):
            break
        chosen[at].add(each.name)
    return [frozenset(each) for each in chosen]


def left_out(files: Places, chosen: Sequence[frozenset[str]]) -> LeftOut | None:
    """Return what is not among the chosen, None where all is."""
    of = sum(len(of_process) for of_process in files)
    read = sum(len(names) for names in chosen)
    none = sum(bool(had) and not names for had, names in zip(files, chosen, strict=True))
    return LeftOut(of - read, of, none) if read < of else None


def _in_rounds(files: Places) -> Iterator[tuple[int, CaptureFile]]:
    """Give the newest of each loop of each process, then those before, process by process."""
    ordered = []
    for at, of_process in enumerate(files):
        later: dict[int, int] = {}
        for each in reversed(of_process):
            nth = later[each.loop] = later.get(each.loop, -1) + 1
            ordered.append((nth, at, each.loop, each))
    ordered.sort(key=lambda row: row[:3])
    return ((at, each) for _, at, _, each in ordered)
