"""Say which lines of the job take the time between steps, and what kind of work they do.

The line is that of the code around the step; the kind is that of the innermost call whose kind is
known. Watched gaps give the shares, even where watching made them longer.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tfprobe.analysis.breakdown.gap_breakdown import gaps_before_steps, watched_gaps
from tfprobe.analysis.breakdown.gap_calls import Usual, own_times
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.main_loop import fills_queue
from tfprobe.errors import Missing
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.graph import is_of_library
from tfprobe.profile.profile import Loop, Profile


class LineKind(Enum):
    """What Python does between steps. The value is its name in documents."""

    SLEEP = "sleep"
    SUBPROCESS = "subprocess"
    SYNC_TO_DISK = "fsync"
    COLLECTION = "collection"
    WAIT = "wait"
    NETWORK = "network"
    READS = "reads"
    GRAPH = "graph"
    LOCK = "lock"
    OUTPUT = "output"
    OPS = "ops"
    PYTHON = "python"

    __hash__ = object.__hash__


_KINDS: tuple[tuple[LineKind, re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (kind, re.compile(file), re.compile(function))
    for kind, file, function in (
        (LineKind.SUBPROCESS, r"/subprocess\.py$", r""),
        (
            LineKind.SUBPROCESS,
            r"^$",
            r"^(posix\.(fork|system|wait\w*|posix_spawn\w*)|_posixsubprocess)",
        ),
        (LineKind.SLEEP, r"^$", r"^time\.sleep$"),
        (LineKind.SYNC_TO_DISK, r"^$", r"^posix\.(fsync|fdatasync|sync)$"),
        (LineKind.COLLECTION, r"^$", r"^gc\.collect$"),
        (LineKind.NETWORK, r"/(socket|ssl|urllib/\w+|http/client|requests/\w+)\.py$", r""),
        (LineKind.NETWORK, r"^$", r"^_?(socket|ssl)\."),
        (
            LineKind.WAIT,
            r"/(threading|queue|selectors|concurrent/futures/\w+|multiprocessing/\w+)\.py$",
            r"^(join|wait\w*|result|acquire|select|recv\w*|get|_wait_for_tstate_lock)$",
        ),
        (LineKind.WAIT, r"^$", r"^(_thread\.\w*lock\.(acquire|__enter__)|select\.)"),
        (
            LineKind.GRAPH,
            r"tensorflow(_core)?/python/framework/(ops|op_def_library|importer)\.py$",
            r"^_?(create_op\w*|apply_op\w*|import_graph_def|add_op)$",
        ),
        # What each op of JAX passes that runs by itself, rather than in a compiled function.
        (LineKind.OPS, r"/jax/_src/(dispatch|(lax|numpy)/\w+|random)\.py$", r""),
        (LineKind.OUTPUT, r"/(logging/\w+|json/\w+|csv|pickle|numpy/lib/npyio)\.py$", r""),
        (LineKind.OUTPUT, r"^$", r"^(builtins\.print|_io\.\w+\.(write|flush)|_?pickle\.|_json\.)"),
    )
)
_RELEASES = re.compile(r"^_thread\.\w*[lL]ock\.(__exit__|release)$")
_ACQUIRES = re.compile(r"^_thread\.\w*[lL]ock\.(acquire|__enter__)$")
_REMEMBERED = 10_000
# Trees of arrays are walked in Python around their ops.
_LEAST_OPS_RATIO = 0.2
_OF_LOOP = (Part.IDLE, Part.FETCH, Part.SYNC_WAIT)


@dataclass(frozen=True, slots=True)
class PythonLine:
    """A line of the job that takes `ratio` of the time between steps.

    `calls` is how often the line made its longest call in one gap. `runs_ops`: a good part of its
    time goes to ops of JAX that run one by one, whatever the rest goes to.
    """

    what: str
    file: str
    line: int
    kind: LineKind
    ratio: float
    calls: int
    runs_ops: bool = False

    @property
    def source(self) -> str:
        """Return the line as "file:line"."""
        return f"{self.file}:{self.line}"


def python_lines(gaps: Sequence[Gap], usual: Usual | None = None) -> tuple[PythonLine, ...]:
    """Return the lines of the job that run between the steps of a loop, most expensive first.

    `usual` is the unwatched gap, where watching made these longer.
    """
    total_ns = 0
    by_line: dict[tuple[str, int], _Times] = {}
    for gap in gaps:
        lock = _lock_line(gap.calls)
        for own in own_times(gap, usual):
            total_ns += own.own_ns
            if own.part not in _OF_LOOP or is_of_library(own.file):
                continue
            place = _Place(own.what, own.file, own.line)
            kind = LineKind.READS if own.part is not Part.IDLE else _kind_of(gap.calls, own.call)
            # `with lock:` is not recorded as a call when it acquires, only when it releases.
            if kind is LineKind.PYTHON and gap.calls[own.call].parent is None and lock:
                kind, place = LineKind.LOCK, place._replace(line=lock)
            leaf, count = place, gap.calls[own.call].count
            if kind not in (LineKind.PYTHON, LineKind.LOCK):
                leaf, count = _leaf(gap.calls, own.call, place)
            times = by_line.setdefault((place.file, place.line), _Times())
            times.add(kind, leaf, own.own_ns, count)
    lines = [
        PythonLine(
            **times.place._asdict(),
            kind=times.main,
            ratio=times.total_ns / (total_ns or 1),
            calls=times.calls,
            runs_ops=times.runs_ops,
        )
        for times in by_line.values()
    ]
    return tuple(sorted(lines, key=lambda line: -line.ratio))


class _Place(NamedTuple):
    """A call, and the line of the job that makes it."""

    what: str
    file: str
    line: int


class _Times:
    """The time of a line, by kind and by what was called."""

    def __init__(self) -> None:
        self._by_kind: dict[LineKind, int] = {}
        self._by_place: dict[tuple[LineKind, _Place], tuple[int, int]] = {}

    def add(self, kind: LineKind, place: _Place, own_ns: int, count: int) -> None:
        """Add the own time of so many calls."""
        self._by_kind[kind] = self._by_kind.get(kind, 0) + own_ns
        time_ns, calls = self._by_place.get((kind, place), (0, 0))
        self._by_place[kind, place] = (time_ns + own_ns, max(calls, count))

    @property
    def total_ns(self) -> int:
        return sum(self._by_kind.values())

    @property
    def runs_ops(self) -> bool:
        return self._by_kind.get(LineKind.OPS, 0) >= _LEAST_OPS_RATIO * self.total_ns

    @property
    def place(self) -> _Place:
        return self._longest[1]

    @property
    def calls(self) -> int:
        return self._by_place[self._longest][1]

    @property
    def main(self) -> LineKind:
        """Return the kind that more than half of the time is spent on, else Python."""
        kind = max(self._by_kind, key=self._by_kind.__getitem__)
        return kind if 2 * self._by_kind[kind] > self.total_ns else LineKind.PYTHON

    @property
    def _longest(self) -> tuple[LineKind, _Place]:
        of_main = [key for key in self._by_place if key[0] is self.main] or [*self._by_place]
        return max(of_main, key=self._by_place.__getitem__)


def _leaf(calls: Sequence[Call], at: int, place: _Place) -> tuple[_Place, int]:
    """Return the innermost line of the job that led to a call, what it calls, and how often."""
    call = calls[at]
    while call.parent is not None:
        caller = calls[call.parent]
        if not is_of_library(caller.file):
            # TensorFlow wraps its functions to shorten tracebacks: that name would say nothing.
            what = place.what if call.file.endswith("/traceback_utils.py") else call.function
            return _Place(what, caller.file, call.called_line or place.line), call.count
        call = caller
    return place, calls[at].count


def _kind_of(calls: Sequence[Call], at: int) -> LineKind:
    """Return the kind of the innermost call, this one or one around it, that has a kind."""
    position: int | None = at
    while position is not None:
        call = calls[position]
        kind = _known(call.file, call.function)
        # Queues and events acquire locks, too: those are waits for others.
        if _ACQUIRES.search(call.function) and position == at and call.parent is not None:
            of_library = is_of_library(calls[call.parent].file)
            kind = kind if of_library else LineKind.LOCK
        if kind is not None:
            return kind
        position = call.parent
    return LineKind.PYTHON


def _lock_line(calls: Sequence[Call]) -> int:
    """Return the line at which the code around a step releases a lock, 0 where it has none."""
    lines = (
        call.called_line
        for call in calls
        if _RELEASES.search(call.function)
        and call.parent is not None
        and calls[call.parent].parent is None
    )
    return next(lines, 0)


@functools.lru_cache(maxsize=_REMEMBERED)
def _known(file: str, function: str) -> LineKind | None:
    return next(
        (kind for kind, files, names in _KINDS if files.search(file) and names.search(function)),
        None,
    )


_TOP = 5


@dataclass(frozen=True, slots=True)
class GapPython:
    """The lines of the job that take longest between steps, from so many watched `gaps`.

    `step_source` is the innermost line of the job that runs the steps, `loop_source` the outermost
    one; "" where there is none.
    """

    lines: tuple[PythonLine, ...]
    gaps: int
    step_source: str = ""
    loop_source: str = ""

    def of_kind(self, kind: LineKind) -> PythonLine | None:
        """Return the line of this kind that takes longest."""
        return next((line for line in self.lines if line.kind is kind), None)


def gap_python(profile: Profile, loop: Loop) -> GapPython | Missing:
    """Return the lines, from gaps that are no longer than usual if such gaps were watched."""
    if fills_queue(loop):
        return Missing("its steps fill a queue for the steps of the job")
    key = (loop.process, loop.index)
    watched = watched_gaps(profile, {key: loop}).get(key)
    if watched is None:
        return Missing("the time between its steps was not watched")
    gaps = tuple(watched.by_step.values())
    # In a loop with long gaps all of them may look unusual.
    usual = watched.usual if gaps else None
    gaps = gaps or tuple(g for g in gaps_before_steps(profile) if (g.process, g.loop) == key)
    lines = python_lines(gaps, usual)[:_TOP]
    around = _lines_on_stack(gaps[-1])
    return GapPython(lines, len(gaps), *((around[0], around[-1]) if around else ()))


def _lines_on_stack(gap: Gap) -> list[str]:
    """Return the lines of the job on the stack when a step ended, innermost first."""
    around = [call for call in gap.calls if call.parent is None and not is_of_library(call.file)]
    return [f"{call.file}:{call.called_line}" for call in around if call.called_line]


# The class of eager tensors is in one of these files.
_EAGER = re.compile(r"tensorflow(_core)?/python/(framework/(ops|tensor)|eager/context)\.py$")
_READS = re.compile(r"^(_?numpy|_numpy_internal|__(float|int|bool|array|index|complex|long)__)$")
_IN_C = re.compile(r"EagerTensor\._?numpy|_numpy_internal")
_LIBRARY = re.compile(r"/(site-packages|dist-packages|lib/python\d)|^<frozen|^$")


@dataclass(frozen=True, slots=True)
class TensorReads:
    """Reading the value of a tensor between steps, as `.numpy()` and `float(loss)` do.

    `ratio` is the share of the watched gaps with a read, `calls` and `ns` the number and the time
    of reads in the mean gap. `source` is the line of the job that reads most often.
    """

    gaps: int
    ratio: float
    calls: float
    ns: float
    function: str
    source: str


def tensor_reads(profile: Profile, loop: Loop) -> TensorReads | Missing:
    """Return the reads of tensors in the watched gaps of a loop."""
    gaps = [
        gap
        for gap in gaps_before_steps(profile)
        if gap.process == loop.process and gap.loop == loop.index
    ]
    if not gaps:
        return Missing("the time between its steps was not watched")
    sources: Counter[tuple[str, str]] = Counter()
    total_ns, with_one = 0, 0
    for gap in gaps:
        reads = _reads(gap)
        with_one += bool(reads)
        total_ns += sum(_whole_ns(gap, at) for at in reads)
        for at in reads:
            sources[gap.calls[at].function, _reading_line(gap.calls, at)] += gap.calls[at].count
    function, source = sources.most_common(1)[0][0] if sources else ("", "")
    return TensorReads(
        gaps=len(gaps),
        ratio=with_one / len(gaps),
        calls=sum(sources.values()) / len(gaps),
        ns=total_ns / len(gaps),
        function=function,
        source=source,
    )


def waits_source(profile: Profile, loop: Loop) -> str:
    """Return the line of the job that waits most often for queued steps of a loop, "" if unseen."""
    sources: Counter[str] = Counter()
    for gap in profile.gaps:
        if (gap.process, gap.loop) == (loop.process, loop.index):
            for wait in gap.waits:
                if wait.file:
                    sources[f"{wait.file}:{wait.line}"] += wait.times
    return sources.most_common(1)[0][0] if sources else ""


def _reads(gap: Gap) -> list[int]:
    """Return the outermost calls that read a tensor."""
    reads: list[int] = []
    inside: set[int] = set()
    for index, call in enumerate(gap.calls):
        if call.parent is not None and call.parent in inside:
            inside.add(index)
        elif _is_read(call):
            reads.append(index)
            inside.add(index)
    return reads


def _is_read(call: Call) -> bool:
    if not call.file:
        return bool(_IN_C.search(call.function))
    return bool(_EAGER.search(call.file) and _READS.match(call.function))


def _whole_ns(gap: Gap, index: int) -> int:
    """Return the time of a call with all calls below it, without the cost of watching them."""
    below = {index}
    for position, call in enumerate(gap.calls):
        if call.parent in below:
            below.add(position)
    calls = [gap.calls[position] for position in below]
    all_count = sum(call.count for call in gap.calls) or 1
    cost_ns = gap.cost_ns * sum(call.count for call in calls) // all_count
    return max(sum(call.self_ns for call in calls) - cost_ns, 0)


def _reading_line(calls: tuple[Call, ...], at: int) -> str:
    """Return the line of the job's own code from which a call was reached."""
    line, parent = calls[at].called_line, calls[at].parent
    while parent is not None:
        caller = calls[parent]
        if not _LIBRARY.search(caller.file):
            return f"{caller.file}:{line}"
        line, parent = caller.called_line, caller.parent
    return ""
