"""Say which functions of the job take time inside steps of PyTorch, and what kind of work they do.

From one update of the model to the next all is inside a step. The line is that of the calls which
take most of the time, if it is known, else the first one of the function.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping
from statistics import median_low
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.breakdown.python_lines import LineKind, PythonLine
from tfprobe.analysis.breakdown.torch_phases import loading
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import SpanKind
from tfprobe.profile.profile import Capture, Profile

# PyTorch's profiler calls functions "<built-in method item of Tensor" and "json/encoder.py(9): f".
_KINDS: tuple[tuple[LineKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(name))
    for kind, name in (
        (LineKind.SLEEP, r"<built-in function sleep>"),
        (LineKind.SYNC_TO_DISK, r"<built-in function (fsync|fdatasync|sync)>"),
        (LineKind.COLLECTION, r"<built-in function collect>"),
        (
            LineKind.SUBPROCESS,
            r"(.*/)?subprocess\.py\(|<built-in function (system|fork|fork_exec)>",
        ),
        (LineKind.NETWORK, r"(.*/)?(socket|ssl|urllib/\w+|http/client|requests/\w+)\.py\("),
        (
            LineKind.WAIT,
            r"(.*/)?(threading|queue|selectors|concurrent/futures/\w+|multiprocessing/\w+)\.py"
            r"\(\d+\): (join|wait\w*|result|acquire|select|recv\w*|get)$",
        ),
        (
            LineKind.READS,
            r"<built-in method (item|tolist|numpy|cpu|__bool__|__float__|__int__) of (Tensor|Param)"
            r"|aten::(item|is_nonzero)$",
        ),
        (
            LineKind.OUTPUT,
            r"<built-in function print>|<built-in method (write|writelines|flush) of "
            r"|(.*/)?(logging/\w+|json/\w+|csv|pickle|tempfile|torch/_tensor_str)\.py\("
            r"|(.*/)?(torch/utils/tensorboard|tensorboardX|matplotlib|mlflow|tqdm|wandb)/",
        ),
    )
)
_NAME = re.compile(r"<built-in (?:function|method) (\w+)|.*\(\d+\): (\S+)|aten::(\w+)")
# Of PyTorch, what reads nothing belongs to what is computed; saves are activities of their own.
_OF_TORCH = re.compile(
    r"(.*/)?torch/|<built-in (?:function|method) \w+ of (Tensor|Parameter|type)|aten::"
    r"|<built-in function (?!sum|sorted|map|eval|exec)\w+>"
)
# One read is a loss; more read a tensor element by element, or every weight. So many in each call
# of a function that runs the model, which may well be called that often.
_READS_LEAST = 8
# The time of these does not depend on how fast Python runs, which tracing slows down.
_AS_LONG = frozenset(
    {LineKind.SLEEP, LineKind.SUBPROCESS, LineKind.SYNC_TO_DISK, LineKind.NETWORK, LineKind.WAIT}
)
_TOP = 5
_ITSELF = "itself"
_RUNS_TRAINING = "runs the training"


class _Call(NamedTuple):
    kind: LineKind
    name: str
    ns: int
    times: int
    line: int


def inside_lines(
    profile: Profile, captures: tuple[Capture, ...], usual_step_ns: float
) -> tuple[PythonLine, ...] | Missing:
    """Return the functions of the job that take longest in these steps, of a mean one.

    `ratio` is the share of the step. Of what only waits, it is the share of the usual step.
    """
    numbers = [capture.index for capture in captures]
    spans = profile.spans
    chosen = np.flatnonzero((spans.kind == SpanKind.PYTHON_CALLS) & np.isin(spans.capture, numbers))
    if not len(chosen):
        return Missing("the traced steps have no calls of Python")
    # Each step has a row for what it called.
    rows: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for at in chosen.tolist():
        name, source = (spans.strings[int(column[at])] for column in (spans.name, spans.detail))
        row = int(spans.duration_ns[at]), int(spans.identity[at])
        rows.setdefault((source, name, int(spans.parent[at])), []).append(row)
    by_source: dict[str, list[_Call]] = {}
    trainings: Counter[str] = Counter()
    for (source, name, line), known in rows.items():
        times = sum(times for _, times in known)
        if name == _RUNS_TRAINING:
            trainings[source] = times
            continue
        by_source.setdefault(source, []).append(
            _Call(_kind(name), name, _usual_ns(_kind(name), known), times, line)
        )
    traced_ns = sum(capture.duration_ns for capture in captures)
    usual_ns = usual_step_ns * len(captures)
    lines = (
        _line(source, calls, traced_ns, usual_ns, len(captures), trainings[source])
        for source, calls in by_source.items()
    )
    return tuple(sorted((line for line in lines if line.ratio), key=_share))[:_TOP]


def _usual_ns(kind: LineKind, rows: list[tuple[int, int]]) -> int:
    """Return how long a function takes in the steps that call it, if each takes as long as usual.

    A function in which the process loses its CPU seems to take long. Waits are taken as they are.
    """
    times_ns = [ns for ns, _ in rows]
    return sum(times_ns) if kind in _AS_LONG else len(rows) * median_low(times_ns)


def _share(line: PythonLine) -> float:
    return -line.ratio


def _line(
    source: str,
    calls: list[_Call],
    traced_ns: int,
    usual_ns: float,
    captures: int,
    trainings: int,
) -> PythonLine:
    """Return what a function does, if it does anything besides what the step computes.

    `trainings` is how many of its calls run a part of the training.
    """
    reads = sum(call.times for call in calls if call.kind is LineKind.READS)
    file, _, line = source.rpartition(":")
    if reads >= _READS_LEAST * max(captures, trainings):
        # What it computes is computed to be read.
        kept = [call._replace(kind=LineKind.READS) if _is_plain(call) else call for call in calls]
    else:
        kept = [call for call in calls if call.kind is not LineKind.READS]
        kept = [call for call in kept if not (_is_plain(call) and _OF_TORCH.match(call.name))]
    ns_of: Counter[LineKind] = Counter()
    for call in kept:
        ns_of[call.kind] += call.ns
    ratio = sum(_ratio(kind, ns, traced_ns, usual_ns) for kind, ns in ns_of.items())
    if not kept:
        return PythonLine("", file, int(line), LineKind.PYTHON, 0.0, 0)
    kind, main_ns = ns_of.most_common(1)[0]
    if 2 * main_ns <= ns_of.total():
        kind = LineKind.PYTHON
    of_kind = [call for call in calls if call.kind is kind] or kept
    longest = max(of_kind, key=lambda call: call.ns)
    # Of several lines none stands for the time of all, unless it takes most.
    of_line_ns = sum(call.ns for call in kept if call.line == longest.line)
    is_most = longest.line > 0 and 2 * of_line_ns > ns_of.total()
    return PythonLine(
        _shown(longest.name),
        file,
        longest.line if is_most else int(line),
        kind,
        min(ratio, 1.0),
        longest.times // captures,
    )


def _is_plain(call: _Call) -> bool:
    return call.kind is LineKind.PYTHON


def _ratio(kind: LineKind, ns: int, traced_ns: int, usual_ns: float) -> float:
    whole_ns = usual_ns if kind in _AS_LONG else float(traced_ns)
    return ns / whole_ns if whole_ns else 0.0


@functools.lru_cache(maxsize=10_000)
def _kind(name: str) -> LineKind:
    return next((kind for kind, names in _KINDS if names.match(name)), LineKind.PYTHON)


def _shown(name: str) -> str:
    if name == _ITSELF:
        return "Python itself"
    known = _NAME.match(name)
    return name if known is None else next(group for group in known.groups() if group)


def loader_calls(profile: Profile, captures: tuple[Capture, ...]) -> Mapping[tuple[str, str], int]:
    """Return how long stages of a loader took in these steps, in all: by stage and line.

    What tracing added is left out, if it is known how long batches take in other steps.
    """
    spans = profile.spans
    numbers = [capture.index for capture in captures]
    ratios = {
        number: 1.0 if batches is None else batches.ratio
        for number, batches in zip(numbers, loading(captures, spans, numbers), strict=True)
    }
    found: Counter[tuple[str, str]] = Counter()
    chosen = (spans.kind == SpanKind.LOADER_CALLS) & np.isin(spans.capture, numbers)
    for at in np.flatnonzero(chosen).tolist():
        stage, source = (spans.strings[int(column[at])] for column in (spans.name, spans.detail))
        found[stage, source] += round(spans.duration_ns[at] * ratios[int(spans.capture[at])])
    return found
