"""Check a profile as tfprof's advise does, in its words. Shows nothing.

The rules are those of TensorFlow's core/profiler/internal/advisor, with what is odd in them: the
most expensive graph nodes are top-level scopes with what they cost without what is inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprobe.analysis.ops.code_view import code
from tfprobe.analysis.ops.cost_tree import TreeNode, ViewOptions
from tfprobe.analysis.ops.op_stats import Costs, value
from tfprobe.analysis.ops.op_view import op
from tfprobe.analysis.ops.scope_view import scope
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.errors import UsageError
from tfprobe.profile.records import GraphProfile, Record
from tfprobe.profile.tables import Int64s
from tfprobe.tfprof.layout import micros

_AVERAGE = -1
_TOP = 3
# What the engine adds to a sum before it divides by it: it turns 34.375 % into 34.37.
_NO_ZERO_US = 1e-10
# Lines of Python that take less, and those further down, are not reported.
_LEAST_LINE_US = 1000
_DEEPEST_LINE = 3
# Below this an accelerator has low utilization.
_BUSY_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class TfprofAdvice:
    """What each checker reports, in the order they ran, and what they could not check."""

    reports: Mapping[str, tuple[str, ...]]
    remarks: tuple[str, ...] = ()


def advise(profile: GraphProfile, checkers: Iterable[str] | None = None) -> TfprofAdvice:
    """Run the named checkers, or all, always in the order of CHECKERS.

    Raises UsageError for a name that is none.
    """
    chosen = tuple(CHECKERS) if checkers is None else tuple(checkers)
    for name in chosen:
        if name not in CHECKERS and name != NO_CHECKER:
            known = ", ".join([*CHECKERS, NO_CHECKER])
            raise UsageError(f"There is no checker {name!r}.", hint=f"Checkers: {known}.")
    remarks: list[str] = []
    reports = {
        name: tuple(check(profile, remarks)) for name, check in CHECKERS.items() if name in chosen
    }
    return TfprofAdvice(reports, tuple(remarks))


def advice_text(advice: TfprofAdvice) -> str:
    """Return what advise prints."""
    lines: list[str] = []
    for name, reports in advice.reports.items():
        lines += ["", f"{name}:", *reports]
    return "".join(f"{line}\n" for line in lines)


def _accelerator_utilization(profile: GraphProfile, remarks: list[str]) -> Iterator[str]:
    """Report how much of the time from its first to its last kernel each GPU was busy.

    As in tfprof, of the last step in which each node ran; kernels of several streams add up.
    """
    del remarks
    by_device: dict[str, list[Record]] = {}
    for device, records in zip(profile.devices, profile.records, strict=True):
        if device is not None and "gpu" in device and records:
            by_device.setdefault(device, []).append(records[max(records)])
    for device, last in sorted(by_device.items()):
        starts = [record.start_us for record in last if record.start_us]
        whole_us = max(record.end_us for record in last) - min(starts, default=0)
        if not starts or whole_us <= 0:
            continue
        ratio = sum(map(_busy_us, last)) / whole_us
        low = "" if ratio >= _BUSY_RATIO else "low "
        yield f"device: {device} {low}utilization: {ratio:.2f}"


def _operation(profile: GraphProfile, remarks: list[str]) -> Iterator[str]:
    """Report ops that have a faster variant. As in tfprof, only the first FusedBatchNorm counts."""
    del remarks
    nodes = profile.graph.nodes
    if any("BatchNorm" in node.name for node in nodes) and not any(
        "FusedBatchNorm" in node.types for node in nodes
    ):
        yield "Maybe use faster FusedBatchNorm instead of BatchNorm"
    if any(
        node.attributes.get("data_format") == "NHWC" and device is not None and "gpu" in device
        for node, device in zip(nodes, profile.devices, strict=True)
    ):
        yield "Found operation using NHWC data_format on GPU. Maybe NCHW is faster."


def _expensive_operation(profile: GraphProfile, remarks: list[str]) -> Iterator[str]:
    """Report the most expensive op types, top-level scopes and Python lines of a mean step."""
    if not profile.steps:
        remarks.append("ExpensiveOperationChecker has nothing to go by: no step was added.")
        return
    of_steps = costs(profile, _AVERAGE)
    yield from _joined(_dear_ops(profile, of_steps))
    yield from _joined(_dear_scopes(profile, of_steps))
    if not profile.graph.has_traces:
        remarks.append("ExpensiveOperationChecker tells no lines of Python: no code is known.")
        return
    start = _first_fork(code(profile, of_steps, _choice(max_depth=100, least_us=1)).shown)
    # The engine reports lines even if none is expensive enough.
    if start.children:
        yield "\n".join(_dear_lines(start))


def _dear_ops(profile: GraphProfile, of_steps: Costs) -> Iterator[str]:
    view = op(profile, of_steps, _choice(max_depth=3, least_us=1))
    whole_us = value(view.total, "micros") + _NO_ZERO_US
    for place, entry in enumerate(view.entries[:_TOP], 1):
        share = 100 * value(entry.own, "micros") / whole_us
        yield f"top {place} operation type: {entry.name}, {_times(entry.own)} ({share:.2f}%)"


def _dear_scopes(profile: GraphProfile, of_steps: Costs) -> Iterator[str]:
    shown = scope(profile, of_steps, _choice(max_depth=100, least_us=100))
    for place, child in enumerate(shown.children[:_TOP], 1):
        yield f"top {place} graph node: {child.branch.name}, {_times(child.branch.own)}"


def _first_fork(shown: TreeNode) -> TreeNode:
    while len(shown.children) == 1:
        shown = shown.children[0]
    return shown


def _dear_lines(start: TreeNode) -> Iterator[str]:
    waiting = [(child, 0) for child in reversed(_most_expensive(start))]
    while waiting:
        each, depth = waiting.pop()
        yield f"{'  ' * depth}{each.branch.name}, {_times(each.total)}"
        if depth < _DEEPEST_LINE:
            waiting.extend((child, depth + 1) for child in reversed(_most_expensive(each)))


def _most_expensive(shown: TreeNode) -> list[TreeNode]:
    if len(shown.children) < 2:
        return []
    return [
        child for child in shown.children[:_TOP] if value(child.total, "micros") >= _LEAST_LINE_US
    ]


def _choice(*, max_depth: int, least_us: int) -> ViewOptions:
    return ViewOptions(
        max_depth=max_depth,
        least={"micros": least_us},
        order_by="micros",
        select=("micros",),
        as_engine=True,
    )


def _times(row: Int64s) -> str:
    cpu, accelerator = value(row, "cpu_micros"), value(row, "accelerator_micros")
    return (
        f"cpu: {micros(cpu)}, accelerator: {micros(accelerator)}, "
        f"total: {micros(value(row, 'micros'))}"
    )


def _joined(lines: Iterable[str]) -> Sequence[str]:
    text = "\n".join(lines)
    return [text] if text else []


def _busy_us(record: Record) -> int:
    return sum(span.duration_us for spans in record.accelerator.values() for span in spans)


# tfprof's own order is that of a hash map and changes from run to run.
CHECKERS: Mapping[str, Callable[[GraphProfile, list[str]], Iterator[str]]] = {
    "AcceleratorUtilizationChecker": _accelerator_utilization,
    "OperationChecker": _operation,
    "ExpensiveOperationChecker": _expensive_operation,
}
# Ran inside Google only; elsewhere tfprof accepts its name and reports nothing.
NO_CHECKER = "JobChecker"
