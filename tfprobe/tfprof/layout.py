"""Lay out views as tfprof's report bodies, byte for byte from the column header down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tfprobe.analysis.ops.cost_tree import TreeNode, ViewOptions
from tfprobe.analysis.ops.op_stats import AT, NS_PER_US, Costs, value
from tfprobe.analysis.ops.op_view import OpEntry, OpView, Signature, input_shapes, signatures
from tfprobe.analysis.ops.scope_view import types_of
from tfprobe.profile.graph import Placed, Shape
from tfprobe.profile.records import Tensor


def number(value: int) -> str:
    """Write a count."""
    return _scaled(value, ("", "k", "m", "b"))


def micros(value: int) -> str:
    """Write a time given in microseconds."""
    return _scaled(value, ("us", "ms", "sec"))


def memory(value: int) -> str:
    """Write an amount of memory given in bytes."""
    return _scaled(value, ("B", "KB", "MB"))


def shape(dimensions: tuple[int, ...]) -> str:
    """Write a shape as 3x3x3x6."""
    return "x".join(map(str, dimensions))


def _scaled(value: int, units: tuple[str, ...]) -> str:
    power = 0
    while power < len(units) - 1 and value >= 1000 ** (power + 1):
        power += 1
    return f"{value / 1000**power:.2f}{units[power]}" if power else f"{value}{units[0]}"


_TITLES: Mapping[str, tuple[str, ...]] = {
    "params": ("# parameters",),
    "float_ops": ("# float_ops",),
    "bytes": ("requested bytes",),
    "peak_bytes": ("peak bytes",),
    "residual_bytes": ("residual bytes",),
    "output_bytes": ("output bytes",),
    "micros": ("total execution time", "accelerator execution time", "cpu execution time"),
    "accelerator_micros": ("accelerator execution time",),
    "cpu_micros": ("cpu execution time",),
    "device": ("assigned devices",),
    "op_types": ("op types",),
    "occurrence": ("op count (run|defined)",),
    "input_shapes": ("input shapes",),
}
_SCOPE_COLUMNS = tuple(_TITLES)
# The op and code views put what nodes are after what they cost.
_OP_COLUMNS = (
    *(name for name in _TITLES if name.endswith(("bytes", "micros"))),
    *("params", "float_ops", "device", "op_types", "occurrence", "input_shapes"),
)
_TIMES = ("micros", "accelerator_micros", "cpu_micros")
_UNITS: Mapping[str, Callable[[int], str]] = {
    "params": lambda value: f"{number(value)} params",
    "float_ops": lambda value: f"{number(value)} float_ops",
    "bytes": memory,
    "peak_bytes": memory,
    "residual_bytes": memory,
    "output_bytes": memory,
    "micros": micros,
    "accelerator_micros": micros,
    "cpu_micros": micros,
}


def scope_body(
    profile: Placed,
    shown: TreeNode,
    choice: ViewOptions,
    value_of: Callable[[str], str] = lambda _name: "",
) -> str:
    """Return the body of a scope or graph report; `value_of` a node goes below its line."""
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}

    def infos(each: TreeNode, column: str) -> Iterator[str]:
        branch = each.branch
        node = branch.members[0] if branch.members else None
        if column == "params" and node is not None and profile.graph.nodes[node].shape:
            yield shape(profile.graph.nodes[node].shape)
        if column in _UNITS:
            yield from _own_and_total(each, column)
        elif column == "device":
            device = profile.devices[node] if node is not None else None
            yield from [device] if device else []
        elif column == "op_types":
            yield "|".join(sorted(branch.types))
        elif column == "occurrence":
            runs = _pair(each, "occurrence", number)
            own = "1" if branch.is_accounted else "--"
            yield f"{runs}|{own}/{number(int(each.total[AT['definitions']]))}"
        elif column == "input_shapes":
            shapes = input_shapes(profile, ids, node) if node is not None else ()
            yield "|".join(f"{index}:{shape(each) or 'unknown'}" for index, each in shapes)

    columns = _chosen(_SCOPE_COLUMNS, choice)
    return _header(columns) + "".join(_tree_lines(shown, columns, infos, value_of))


def code_body(profile: Placed, shown: TreeNode, choice: ViewOptions) -> str:
    """Return the body of a code report."""

    def infos(each: TreeNode, column: str) -> Iterator[str]:
        members = each.branch.members
        if column in _UNITS:
            yield from _own_and_total(each, column)
        elif column == "device":
            if members:
                yield "|".join(sorted({profile.devices[at] or "" for at in members}))
        elif column == "op_types":
            yield "|".join(sorted(each.branch.types))
        else:
            yield f"{column} N/A in code view"

    columns = _chosen(_OP_COLUMNS, choice)
    return _header(columns, is_op=True) + "".join(_tree_lines(shown, columns, infos))


def op_body(profile: Placed, costs: Costs, view: OpView, choice: ViewOptions) -> str:
    """Return the body of an op report."""
    columns = _chosen(_OP_COLUMNS, choice)
    lines = []
    for entry in view.entries:
        infos = [
            info for column in columns for info in _op_infos(profile, costs, view, entry, column)
        ]
        lines.append(f"{entry.name:<25}{', '.join(infos)}\n")
        if "input_shapes" in columns and entry.members:
            found = [
                _signature(signature) for signature in signatures(profile, costs, entry.members)
            ]
            found.sort(key=lambda each: (-each[0], each[1]))
            lines.append("\n" + "".join(f"{text}\n" for _, _, text in found) + "\n")
    return _header(columns, is_op=True) + "".join(lines)


def _op_infos(
    profile: Placed, costs: Costs, view: OpView, entry: OpEntry, column: str
) -> Iterator[str]:
    members = entry.members
    if column == "micros":
        for name in _TIMES:
            yield _share(view, entry, name)
    elif column in _UNITS:
        yield _share(view, entry, column)
    elif column == "device":
        yield "|".join(sorted({profile.devices[at] or "" for at in members}))
    elif column == "op_types":
        yield "|".join(sorted(frozenset().union(*(types_of(profile, at) for at in members))))
    elif column == "occurrence":
        # Once for each member, though `own` holds as many as patterns matched it.
        runs = int(costs.rows[list(members), AT["runs"]].sum())
        yield f"{f'{runs}|{len(members)}':>10}"


def _share(view: OpView, entry: OpEntry, column: str) -> str:
    own, rest, total = (value(row, column) for row in (entry.own, entry.rest, view.total))
    is_nothing = (own if column.endswith("bytes") else rest) == 0
    shares = (0.0, 0.0) if is_nothing else (100 * rest / total, 100 * own / total)
    return f"{f'{_UNITS[column](own)} ({shares[0]:.2f}%, {shares[1]:.2f}%)':>30}"


def _signature(signature: Signature) -> tuple[int, str, str]:
    shapes = ",\t".join(f"{index}:{shape(each) or 'unknown'}" for index, each in signature.shapes)
    runs = f"(run*{signature.runs}|defined*{signature.members})"
    text = f"input_type: {shapes}\t{runs}\texec_time: {micros(signature.time_ns // NS_PER_US)}"
    return signature.runs, shapes, text


def _tree_lines(
    shown: TreeNode,
    columns: tuple[str, ...],
    infos: Callable[[TreeNode, str], Iterator[str]],
    value_of: Callable[[str], str] = lambda _name: "",
) -> Iterator[str]:
    waiting = [(shown, 0)]
    while waiting:
        each, depth = waiting.pop()
        text = ", ".join(info for column in columns for info in infos(each, column))
        yield f"{'  ' * depth}{each.branch.name} ({text})\n{value_of(each.branch.name)}"
        waiting.extend((child, depth + 1) for child in reversed(each.children))


def _own_and_total(shown: TreeNode, column: str) -> Iterator[str]:
    if column == "micros":
        for name in _TIMES:
            yield _pair(shown, name, micros)
    elif column == "params":
        yield f"{_pair(shown, column, number)} params"
    elif column == "float_ops":
        yield f"{_pair(shown, column, number)} flops"
    else:
        yield _pair(shown, column, _UNITS[column])


def _pair(shown: TreeNode, column: str, write: Callable[[int], str]) -> str:
    own, total = value(shown.branch.own, column), value(shown.total, column)
    return f"{write(own) if shown.branch.is_accounted else '--'}/{write(total)}"


def _chosen(columns: tuple[str, ...], choice: ViewOptions) -> tuple[str, ...]:
    """Return the columns that were selected; the parts of a time that is shown whole are in it."""
    chosen = tuple(column for column in columns if column in choice.select)
    if "micros" in chosen:
        chosen = tuple(column for column in chosen if column not in _TIMES[1:])
    return chosen


def _header(columns: tuple[str, ...], *, is_op: bool = False) -> str:
    titles = [title for column in columns for title in _TITLES[column]]
    if is_op:
        titles = [title.replace("op count", "op occurrence") for title in titles]
    return f"node name | {' | '.join(titles)}\n"


_MOST_CHARACTERS = 10_000
_OMITTED = "...omitted from display\n\n"


def text_of(tensor: Tensor) -> str:
    """Return the lines below a node that show its value."""
    parts: list[str] = []
    length = 0
    for part in _parts(tensor.shape or (1,), iter(tensor.values)):
        parts.append(part)
        length += len(part)
        if length > _MOST_CHARACTERS:
            return "".join(parts)[:_MOST_CHARACTERS] + _OMITTED
    return "".join(parts)


def _parts(shape: Shape, values: Iterator[float | int | str]) -> Iterator[str]:
    """Give opening brackets, values and closing brackets, as deep as there are dimensions."""
    yield "["
    for _ in range(shape[0]):
        if len(shape) > 1:
            yield from _parts(shape[1:], values)
        else:
            yield _value(next(values))
    yield "],\n"


def _value(value: float | int | str) -> str:
    if isinstance(value, str):
        return f"'{value}' "
    if isinstance(value, int):
        return f"{value} "
    # Through six digits, as the engine's own stream does before it cuts to two.
    return f"{float(f'{value:.6g}'):.2f} "
