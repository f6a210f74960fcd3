"""Render what nodes cost: a tree of scopes, edges or code, or a list of op types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from tfprobe.analysis.ops.cost_tree import ACCESSED, TreeNode, ViewOptions
from tfprobe.analysis.ops.flops.count import Coverage
from tfprobe.analysis.ops.op_stats import AT, has_accessed_bytes, has_float_ops, has_parameters
from tfprobe.analysis.ops.op_view import OpView, in_graph
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.tables import Int64s
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

Cell = Callable[["_Line"], str]
# Columns of tfprof that traced steps have no data for.
UNKNOWN = ("peak_bytes", "residual_bytes", "tensor_value", "input_shapes")

# The line about unknown FLOPs names at most this many ops.
_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A line of the table, in any view."""

    name: str
    own: Int64s
    total: Int64s
    members: tuple[int, ...]
    share_of: Int64s


def render_tree(
    sampled: TracedLoop,
    title: str,
    shown: TreeNode,
    choice: ViewOptions,
    *,
    remarks: Sequence[str] = (),
    width: int,
    colour: bool,
) -> str:
    """Return a tree as text: each place is indented below its parent; remarks come last."""
    top = shown.total
    lines = [
        _Line("  " * depth + name, each.branch.own, each.total, each.branch.members, top)
        for each, depth, name in _preorder(shown)
    ]
    lines[0] = _Line("(all)", shown.branch.own, top, (), top)
    parts = [*_parts(sampled, title, lines, choice, width, is_tree=True), *_below(remarks)]
    return page.render(parts, width=width, colour=colour)


def render_ops(
    sampled: TracedLoop,
    title: str,
    view: OpView,
    choice: ViewOptions,
    *,
    remarks: Sequence[str] = (),
    width: int,
    colour: bool,
) -> str:
    """Return op types as text, in their order; remarks come last."""
    lines = [
        _Line(entry.name, entry.own, entry.own, entry.members, view.total)
        for entry in view.entries
    ]  # fmt: skip
    parts = [
        *_parts(sampled, title, lines, choice, width, is_tree=False),
        *_below(remarks),
    ]
    return page.render(parts, width=width, colour=colour)


def _parts(
    sampled: TracedLoop,
    title: str,
    lines: Sequence[_Line],
    choice: ViewOptions,
    width: int,
    *,
    is_tree: bool,
) -> Iterator[RenderableType]:
    yield page.heading(title)
    yield page.paragraph(_summary(sampled, choice))
    yield page.blank()
    chosen = list(_columns(sampled, choice, is_tree=is_tree))
    columns = [TextColumn("", is_number=False, may_be_cut=True), *(column for column, _ in chosen)]
    rows = [[line.name, *(cell(line) for _, cell in chosen)] for line in lines]
    yield page.table(columns, rows, width=width)


def _below(remarks: Sequence[str]) -> Iterator[RenderableType]:
    for remark in remarks:
        yield page.blank()
        yield page.paragraph(remark)


def describe_coverage(coverage: Coverage) -> str:
    """Return a sentence on how many FLOPs are known. Less than all never reads as 100 %."""
    if not coverage.unknown:
        return "FLOPs: known for all ops that ran."
    known, ops = _part(coverage.float_ops_ratio), _part(coverage.ops_ratio)
    text = f"FLOPs: about {known} of them are known, of {ops} of the ops run"
    by_op: dict[str, float] = {}
    for each in coverage.unknown:
        by_op[each.op] = by_op.get(each.op, 0.0) + each.time_ratio
    named = [f"{op} ({numbers.percent(ratio)} of the time)" for op, ratio in by_op.items()]
    rest = len(named) - _NAMED
    more = [f"and {numbers.count(rest)} more ops"] if rest > 0 else []
    return f"{text}; unknown: {', '.join([*named[:_NAMED], *more])}."


def describe_accessed(ratio: float) -> str:
    """Return a sentence on how many ops have known bytes that they read and write."""
    return (
        f"Accessed bytes: known for {_part(ratio)} of the ops run, instructions of XLA's programs."
    )


def _part(ratio: float) -> str:
    if 0.999 <= ratio < 1:
        return ">99.9 %"
    return "100 %" if ratio == 1 else numbers.percent(ratio)


def _summary(sampled: TracedLoop, choice: ViewOptions) -> str:
    loop = sampled.loop
    steps = [capture.step for capture in sampled.captures]
    if choice.step >= 0:
        of = f"step {choice.step}"
    else:
        of = "one traced step" if len(steps) == 1 else f"the average of {len(steps)} traced steps"
    return f"{loop.kind} {loop.name}: {of} of {numbers.count(loop.count)}"


def _columns(
    sampled: TracedLoop, choice: ViewOptions, *, is_tree: bool
) -> Iterator[tuple[TextColumn, Cell]]:
    has_accelerator = any("GPU" in (device or "") for device in sampled.devices)
    for name in ("micros", "accelerator_micros", "cpu_micros"):
        if name in choice.select:
            yield from _time_columns(name, has_accelerator=has_accelerator, is_tree=is_tree)
    for name, heading in (("bytes", "requested"), ("output_bytes", "outputs")):
        if name in choice.select:
            yield TextColumn(heading), _amount(name, numbers.size, known=sampled.has_memory)
    if ACCESSED in choice.select:
        yield TextColumn("accessed"), _accessed
    if "params" in choice.select:
        yield TextColumn("params"), _amount("params", numbers.count, known=has_parameters(sampled))
    if "float_ops" in choice.select:
        yield TextColumn("FLOPs"), _float_ops
    if "occurrence" in choice.select:
        yield TextColumn("runs"), _amount("runs", numbers.count)
        yield TextColumn("ops"), _amount("definitions", numbers.count)
    if "device" in choice.select:
        column = TextColumn("device", is_number=False, may_be_cut=True)
        yield column, lambda line: _devices(sampled, line)
    if "op_types" in choice.select:
        column = TextColumn("types", is_number=False, may_be_cut=True)
        yield column, lambda line: _types(sampled, line)
    for name in UNKNOWN:
        if name in choice.select:
            yield TextColumn(name), lambda _line: numbers.NOTHING


def _time_columns(
    name: str, *, has_accelerator: bool, is_tree: bool
) -> Iterator[tuple[TextColumn, Cell]]:
    column = {"micros": "time_ns", "accelerator_micros": "accelerator_ns", "cpu_micros": "cpu_ns"}
    heading = {"micros": "time", "accelerator_micros": "accelerator", "cpu_micros": "cpu"}
    at = AT[column[name]]
    yield TextColumn(heading[name]), _amount(column[name], numbers.duration)
    yield TextColumn("share"), lambda line: _share(int(line.total[at]), int(line.share_of[at]))
    if is_tree:
        yield TextColumn("self"), lambda line: numbers.duration(int(line.own[at]))
    if name == "micros" and has_accelerator:
        yield TextColumn("accelerator", may_go=True), _amount("accelerator_ns", numbers.duration)
        yield TextColumn("cpu", may_go=True), _amount("cpu_ns", numbers.duration)


def _amount(column: str, write: Callable[[int], str], *, known: bool = True) -> Cell:
    if not known:
        return lambda _line: numbers.NOTHING
    return lambda line: write(int(line.total[AT[column]]))


def _float_ops(line: _Line) -> str:
    if not has_float_ops(line.total):
        return numbers.NOTHING
    return numbers.flops(int(line.total[AT["float_ops"]]))


def _accessed(line: _Line) -> str:
    if not has_accessed_bytes(line.total):
        return numbers.NOTHING
    return numbers.size(int(line.total[AT["accessed_bytes"]]))


def _share(part: int, whole: int) -> str:
    return numbers.percent(part / whole) if whole else numbers.NOTHING


def _devices(sampled: TracedLoop, line: _Line) -> str:
    devices = {each for at in line.members for each in (sampled.devices[at] or "").split("|")}
    return " ".join(sorted(each.rpartition("device:")[2] for each in devices if each))


def _types(sampled: TracedLoop, line: _Line) -> str:
    nodes = [sampled.graph.nodes[at] for at in line.members]
    return " ".join([*sorted({node.op for node in nodes}), *in_graph(nodes)])


def _preorder(shown: TreeNode) -> Iterator[tuple[TreeNode, int, str]]:
    """Yield each place, its depth, and its name without that of the enclosing scope."""
    waiting = [(shown, 0, "")]
    while waiting:
        each, depth, scope = waiting.pop()
        name = each.branch.name
        yield each, depth, name.removeprefix(scope) or name
        waiting.extend((child, depth + 1, f"{name}/") for child in reversed(each.children))
