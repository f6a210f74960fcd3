"""Sum up what the program's own functions do in a step that trains nothing, and what makes batches.

Functions of Python nest. Those in which an op of the forward pass, the backward pass or the update
runs are the training itself, and are looked through; so is the code of packages around them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tfprobe.formats.kineto.events import Kind, KinetoEvents
from tfprobe.formats.kineto.nesting import NONE, OpNesting
from tfprobe.formats.kineto.python_gaps import AGENT, FRAME, ThreadFunctions, nested
from tfprobe.profile.graph import is_of_library
from tfprobe.profile.tables import Int64s

_LOADER = re.compile(r"(?:.*/)?torch/utils/data/dataloader\.py\(\d+\): (?:__next__|__iter__)\Z")
_FETCHED = re.compile(r": __(?:getitem|getitems|next|iter|call)__\Z")
# Of a data set of a package, such as torchvision's.
_FETCHED_BY_PACKAGE = re.compile(
    r"(?!(?:.*/)?torch/).+/.+\.py\(\d+\): __(?:getitem|getitems)__\Z", re.DOTALL
)
_PINS = re.compile(r"(?:.*/)?torch/utils/data/_utils/pin_memory\.py\(")
_COLLATES = re.compile(r"(?:.*/)?torch/utils/data/_utils/collate\.py\(")
# What is training, whatever it calls: modules, the backward pass, and updates.
_TRAINS = re.compile(
    r"nn\.Module: |(?:.*/)?torch/(?:optim/\w+\.py\(\d+\): (?:wrapper|step|zero_grad)"
    r"|autograd/__init__\.py\(\d+\): (?:backward|grad)"
    r"|autograd/graph\.py\(\d+\): _engine_run_backward|_tensor\.py\(\d+\): backward)"
)
# A function of a library that is not PyTorch's, such as one that clips gradients: the ops in it are
# computed, and no time of Python. What PyTorch prints, and built-in functions, are taken whole.
_COMPUTES = re.compile(r"(?!(?:.*/)?torch/).+\(\d+\): ", re.DOTALL)
_UPDATES = re.compile(r"Optimizer\.")
# An op that gives a value to Python, where a program calls no function for it: float(), if.
_READS = frozenset({"aten::item", "aten::is_nonzero"})
# Between two calls Python takes less.
_LEAST_OWN_NS = 50_000
ITSELF = "itself"
# Stands for the calls of a function in which the training runs; it takes no time.
RUNS_TRAINING = "runs the training"
# How the stages of a loader are called.
DATASET, COLLATE, PIN = "dataset", "collate_fn", "pinning memory"


class PythonCalls(NamedTuple):
    """What a function of the program called in a step, in sum; `source` is its "file:line".

    `name` is what PyTorch's profiler calls it, `ITSELF` or `RUNS_TRAINING`; of a loader it is the
    stage. `line` is that of the calls, in the same file, 0 if unknown.
    """

    lane: int
    name: str
    source: str
    start_ns: int
    total_ns: int
    times: int
    is_of_loader: bool
    line: int


def python_calls(events: KinetoEvents, nesting: OpNesting) -> Iterator[PythonCalls]:
    """Yield what the functions of the program called, on threads that run ops."""
    frames = np.flatnonzero(events.kind == Kind.FRAME)
    outermost = nesting.order[nesting.parent[nesting.order] == NONE]
    for lane in np.intersect1d(events.lane[frames], events.lane[outermost]).tolist():
        own = _Thread(events, nesting, lane, frames[events.lane[frames] == lane])
        own.visit_all()
        for (name, source, is_of_loader, line), times in own.found.items():
            yield PythonCalls(lane, name, source, *times, is_of_loader, line)


class _Thread:
    """Goes through the functions of a thread, from the outermost ones on."""

    def __init__(self, events: KinetoEvents, nesting: OpNesting, lane: int, frames: Int64s) -> None:
        self._frames: ThreadFunctions = nested(events, frames)
        self._texts = [events.texts[at] for at in events.name[self._frames.boxes].tolist()]
        ops = nesting.order[events.lane[nesting.order] == lane]
        trains = nesting.is_backward[ops] | (nesting.link[ops] > 0)
        notes = np.flatnonzero((events.kind == Kind.ANNOTATION) & (events.lane == lane))
        updates = [box for box in notes.tolist() if _UPDATES.match(_text(events, box))]
        inside = [
            at for at, text in enumerate(self._texts) if _TRAINS.match(text) or _LOADER.match(text)
        ]
        self._training = sorted(
            [
                *events.start_ns[ops[trains]].tolist(),
                *events.start_ns[updates].tolist(),
                *(self._frames.starts_ns[at] for at in inside),
            ]
        )
        own = ops[nesting.parent[ops] == NONE]
        self._ops = [
            (int(events.start_ns[op]), int(events.duration_ns[op]), _text(events, op))
            for op in own.tolist()
        ]
        self._op_starts = [start_ns for start_ns, _, _ in self._ops]
        self._ops_ns_before = [0, *accumulate(took_ns for _, took_ns, _ in self._ops)]
        call = events.call[self._frames.boxes].tolist()
        self._lines = [events.call_lines[at] if at != NONE else ("", 0) for at in call]
        self.found: dict[tuple[str, str, bool, int], tuple[int, int, int]] = {}

    def visit_all(self) -> None:
        """Visit every outermost function, and what it calls."""
        waiting = [(at, "") for at in self._frames.inside[-1]]
        while waiting:
            at, source = waiting.pop()
            text = self._texts[at]
            if _TRAINS.match(text):
                continue
            if _LOADER.match(text):
                self._load(at)
                continue
            # The agent stands around calls of the program, and calls much itself.
            source = "" if AGENT.match(text) else source
            own = _source(text)
            if own:
                source = own
                self._itself(at, source)
                if self._has_training(at):
                    self._sum(RUNS_TRAINING, source, self._frames.starts_ns[at], 0)
            elif source and not self._has_training(at):
                self._add(text, source, at)
                continue
            waiting += [(child, source) for child in self._frames.inside[at]]

    def _has_training(self, at: int) -> bool:
        place = bisect_left(self._training, self._frames.starts_ns[at])
        return place < len(self._training) and self._training[place] < self._frames.ends_ns[at]

    def _itself(self, at: int, source: str) -> None:
        """Add what a function of the program does between its calls and ops, and what it reads."""
        start_ns, end_ns = self._frames.starts_ns[at], self._frames.ends_ns[at]
        calls = [
            (self._frames.starts_ns[child], self._frames.ends_ns[child])
            for child in self._frames.inside[at]
        ]
        first, last = (bisect_left(self._op_starts, edge_ns) for edge_ns in (start_ns, end_ns))
        ops = [(begun, begun + took, text) for begun, took, text in self._ops[first:last]]
        known = sorted([(*call, "") for call in calls] + ops)
        reached_ns = start_ns
        for begun_ns, until_ns, text in known:
            if begun_ns >= reached_ns:
                if begun_ns - reached_ns >= _LEAST_OWN_NS:
                    self._sum(ITSELF, source, reached_ns, begun_ns - reached_ns)
                if text in _READS:
                    self._sum(text, source, begun_ns, until_ns - begun_ns)
            reached_ns = max(reached_ns, until_ns)
        if end_ns - reached_ns >= _LEAST_OWN_NS:
            self._sum(ITSELF, source, reached_ns, end_ns - reached_ns)

    def _load(self, at: int) -> None:
        """Add the stages by which a loader makes a batch in this thread."""
        waiting = [*self._frames.inside[at]]
        while waiting:
            child = waiting.pop()
            text = self._texts[child]
            if _PINS.match(text) or _COLLATES.match(text):
                stage = PIN if _PINS.match(text) else COLLATE
                self._add(stage, self._innermost(child), child, is_of_loader=True)
            elif _source(text):
                stage = DATASET if _FETCHED.search(text) else COLLATE
                self._add(stage, self._innermost(child), child, is_of_loader=True)
            elif _FETCHED_BY_PACKAGE.match(text) and (frame := FRAME.match(text)):
                source = self._innermost(child) or _place(frame)
                self._add(DATASET, source, child, is_of_loader=True)
            else:
                waiting += self._frames.inside[child]

    def _innermost(self, at: int) -> str:
        """Return the innermost function of the program that takes most of a call, "" if none."""
        frames, source = self._frames, ""
        least_ns = (frames.ends_ns[at] - frames.starts_ns[at]) / 2
        while True:
            source = _source(self._texts[at]) or source
            longest = max(frames.inside[at], key=self._length_ns, default=at)
            if longest == at or self._length_ns(longest) < least_ns:
                return source
            at = longest

    def _length_ns(self, at: int) -> int:
        return self._frames.ends_ns[at] - self._frames.starts_ns[at]

    def _add(self, name: str, source: str, at: int, *, is_of_loader: bool = False) -> None:
        start_ns = self._frames.starts_ns[at]
        file, line = self._lines[at]
        line = line if file == source.rpartition(":")[0] and not is_of_loader else 0
        took_ns = self._length_ns(at)
        if not is_of_loader and _COMPUTES.match(name):
            took_ns = max(took_ns - self._ops_ns(start_ns, self._frames.ends_ns[at]), 0)
        self._sum(name, source, start_ns, took_ns, line, is_of_loader=is_of_loader)

    def _ops_ns(self, start_ns: int, end_ns: int) -> int:
        """Return how long the thread's ops took that began in this time; they do not overlap."""
        first, last = (bisect_left(self._op_starts, edge_ns) for edge_ns in (start_ns, end_ns))
        return self._ops_ns_before[last] - self._ops_ns_before[first]

    def _sum(
        self,
        name: str,
        source: str,
        start_ns: int,
        took_ns: int,
        line: int = 0,
        *,
        is_of_loader: bool = False,
    ) -> None:
        key = name.partition(" object at 0x")[0], source, is_of_loader, line
        first_ns, total_ns, count = self.found.get(key, (start_ns, 0, 0))
        self.found[key] = min(first_ns, start_ns), total_ns + took_ns, count + 1


def _text(events: KinetoEvents, box: int) -> str:
    return events.texts[int(events.name[box])]


def _source(text: str) -> str:
    """Return "file:line" of a function of the program, "" of any other."""
    frame = FRAME.match(text)
    return "" if frame is None or is_of_library(frame["file"]) else _place(frame)


def _place(frame: re.Match[str]) -> str:
    return "{file}:{line}".format(**frame.groupdict())
