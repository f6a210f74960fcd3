"""Follow the captures of a process: each is decoded once, when it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfprobe.ingest.captures import Decoder, Window, window_of
from tfprobe.ingest.gathered import CaptureKey, Gathered
from tfprobe.model.profile import Problem
from tfprobe.store.events import Event
from tfprobe.store.layout import ProcessFolder
from tfprobe.store.steps import StepsFile

_Seen = tuple[int, ...]


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
        self, folder: ProcessFolder, gathered: Gathered, *, with_memory: bool, with_spans: bool
    ) -> None:
        """Begin with nothing read."""
        self._folder = folder
        self._gathered = gathered
        self._decoder = Decoder(
            folder, gathered.interner, with_memory=with_memory, with_spans=with_spans
        )
        self._sources: dict[str, _Source] = {}
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
        self._waiting = {n: sources[n] for n in order if self._sources.get(n) != sources[n]}

    def decode(self, tell: Callable[[], None]) -> None:
        """Decode those that wait; `tell` is called after each."""
        for name, source in self._waiting.items():
            self._drop(name)
            item = self._decoder.decode(name, source.sample, source.window_ns)
            if isinstance(item, Problem):
                self._problems[name] = item
            else:
                self._gathered.put(self._key(name), item)
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
        self._gathered.drop(self._key(name))

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


def _seen(path: Path) -> _Seen | None:
    """Return what tells a file from what it was before."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a fingerprint may be damaged to what no file is called
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
