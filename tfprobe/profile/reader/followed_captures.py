"""Follow the captures of a process: decode each one once, when it appears."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.device_queue import MOST_TRACED, with_device_times, with_usual_times
from tfprobe.profile.profile import Capture, Loop, Problem
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
from tfprobe.runs.layout import KINETO_SUFFIXES, ProcessFolder, parse_capture_name
from tfprobe.runs.process_folder.events import Event
from tfprobe.runs.process_folder.steps import StepsFile

_Seen = tuple[int, ...]
# The index of the file size in it.
_SIZE = 2


@dataclass(frozen=True, slots=True)
class _Source:
    """Everything a capture is decoded from; if any of it changes, the capture is decoded again."""

    file: _Seen | None
    sample: Event | None
    window_ns: Window | None
    graph: _Seen | None


class FollowedCaptures:
    """The captures of one process. Those that can be decoded are added to `gathered`."""

    def __init__(
        self,
        folder: ProcessFolder,
        gathered: Gathered,
        *,
        with_memory: bool,
        with_spans: bool,
        with_host_allocations: bool,
    ) -> None:
        """Start with nothing read."""
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
        """Return the number of captures that have not been decoded."""
        return len(self._waiting)

    def problems(self) -> tuple[Problem, ...]:
        """Return the captures that could not be decoded, by name."""
        return tuple(self._problems[name] for name in sorted(self._problems))

    def look(self, samples: Mapping[str, Event], steps: StepsFile | None) -> None:
        """Determine which captures exist, and which of them must be decoded."""
        self._look_at_graphs(samples)
        sources = {
            path.name: self._source(path, samples.get(path.name), steps)
            for path in self._folder.capture_files()
        }
        for name in self._sources.keys() - sources.keys():
            self._drop(name)
        # In chronological order: decoders learn from earlier captures.
        places = {name: place for place, name in enumerate(samples)}
        order = sorted(sources, key=lambda name: (places.get(name, len(places)), name))
        self._all = {name: sources[name] for name in order}
        self._waiting = {n: sources[n] for n in order if self._sources.get(n) != sources[n]}

    def files(self) -> tuple[CaptureFile, ...]:
        """Return all captures of the last look, decoded or not, in the order they were taken."""
        return tuple(self._file(name, source) for name, source in self._all.items())

    def keep(self, names: frozenset[str]) -> None:
        """Keep and decode only these, and remove the others."""
        self._waiting = {n: source for n, source in self._waiting.items() if n in names}
        for name in [each for each in self._sources if each not in names]:
            self._drop(name)

    def rows_in(self, name: str) -> int:
        """Return the number of rows of a capture, without keeping any of them."""
        source = self._all[name]
        decoder = Decoder(self._folder, Interner(), **self._parts)
        item = decoder.decode(name, source.sample, source.window_ns)
        return 0 if isinstance(item, Problem) else _rows(item)

    def decode(self, tell: Callable[[], None]) -> None:
        """Decode the waiting captures; `tell` is called after each."""
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
        """Remove all captures because the process is gone."""
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
        """Record which graphs exist: they provide ops of nodes that rows do not contain."""
        fingerprints = {sample.text("graph") for sample in samples.values()} - {None}
        graphs = {
            each: _seen(self._folder.graph(each)) or _seen(self._folder.modules(each))
            for each in fingerprints
            if each
        }
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
    """Return what distinguishes a file from its earlier versions."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a damaged fingerprint may be no valid name
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


# The least bytes that a row takes in a capture's file: smaller files need no row count.
LEAST_BYTES_A_ROW = 8


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A capture of a process; its name contains `work`. `rows` is None until it is decoded."""

    name: str
    loop: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not read of a run: `captures` of `of`; no capture at all of `processes` processes."""

    captures: int
    of: int
    processes: int

    def __str__(self) -> str:
        """Return a sentence that also says what to do."""
        none = f", and none of {_processes(self.processes)}" if self.processes else ""
        return (
            f"Of {self.of:,} traced steps the newest {self.of - self.captures:,} are read{none}:"
            " all would take too much memory. Step times are those of all steps."
        )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"


Places = Sequence[Sequence[CaptureFile]]


def may_exceed(files: Places, most_rows: int) -> bool:
    """Return whether these captures, by process, may have more rows than that."""
    whole_bytes = sum(each.bytes for of_process in files for each in of_process)
    return whole_bytes > most_rows * LEAST_BYTES_A_ROW


def typical(files: Places) -> list[tuple[int, CaptureFile]]:
    """Return the smallest, middle and largest captures with the indices of their processes.

    Empty files are left out: they have no rows and say nothing about density.
    """
    every = [(at, each) for at, of_process in enumerate(files) for each in of_process if each.bytes]
    every.sort(key=lambda each: each[1].bytes)
    return [every[0], every[len(every) // 2], every[-1]] if every else []


def newest_within(files: Places, most_rows: int, rows_per_byte: float) -> list[frozenset[str]]:
    """Return for each process the names of the captures to read; `files` are as they were taken.

    The rows of captures that have not been decoded are estimated from their sizes. The first one is
    read in any case.
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
    """Return what has not been chosen; None if everything has."""
    of = sum(len(of_process) for of_process in files)
    read = sum(len(names) for names in chosen)
    none = sum(bool(had) and not names for had, names in zip(files, chosen, strict=True))
    return LeftOut(of - read, of, none) if read < of else None


def with_queued_steps(
    loops: tuple[Loop, ...], captures: tuple[Capture, ...], rows: Executions
) -> tuple[tuple[Loop, ...], tuple[Capture, ...]]:
    """Return loops and captures with the times of steps that calls only queue, where traces tell.

    Where no step is queued, these are returned as they are.
    """
    of_pytorch = [each for each in captures if each.file.endswith(KINETO_SUFFIXES)]
    if of_pytorch:
        loops, captures = with_device_times(loops, captures, rows, of_pytorch=of_pytorch)
    if any(loop.queue is not None for loop in loops):
        captures = with_usual_times(loops, captures)
    return loops, captures


def newest_of_pytorch(files: Sequence[CaptureFile]) -> frozenset[str]:
    """Return the names of the captures that tell how long steps of PyTorch take their devices."""
    names: set[str] = set()
    left: dict[int, int] = {}
    for each in sorted(files, key=lambda file: file.name, reverse=True):
        left.setdefault(each.loop, MOST_TRACED)
        if each.name.endswith(KINETO_SUFFIXES) and left[each.loop]:
            left[each.loop] -= 1
            names.add(each.name)
    return frozenset(names)


def _in_rounds(files: Places) -> Iterator[tuple[int, CaptureFile]]:
    """Yield the newest captures of each process's loops, then earlier ones, round by round."""
    ordered = []
    for at, of_process in enumerate(files):
        later: dict[int, int] = {}
        for each in reversed(of_process):
            nth = later[each.loop] = later.get(each.loop, -1) + 1
            ordered.append((nth, at, each.loop, each))
    ordered.sort(key=lambda row: row[:3])
    return ((at, each) for _, at, _, each in ordered)
