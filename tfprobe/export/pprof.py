"""Write the code view as a profile that pprof opens: gzip'ed, of the format of its profile.proto.

The engine's file holds one metric, loses the ops that were made at a line which goes on to call
others, and has the line of the caller under the name of the called. Ours has all metrics, every op
that is accounted, and each line under its own function.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfprobe.analysis.ops.code_view import GRADIENT, CodeView, Line, Stack, code_stacks
from tfprobe.analysis.ops.cost_tree import Branch, TreeNode
from tfprobe.analysis.ops.op_stats import COLUMNS, Costs, value
from tfprobe.formats.schema import message_class
from tfprobe.profile.graph import Frame, Placed

# Metric of tfprof's options -> its unit, and the engine's comment on it.
ENGINE_METRICS: Mapping[str, tuple[str, str]] = {
    "micros": ("microseconds", "Sum of accelerator execution time and cpu execution time."),
    "accelerator_micros": ("microseconds", "Accelerator execution time."),
    "cpu_micros": ("microseconds", "CPU execution time."),
    "bytes": ("bytes", "Sum of operation total memory requests, excluding deallocations."),
    "peak_bytes": ("bytes", "Sum of operation peak memory usage."),
    "residual_bytes": ("bytes", "Sum of operation allocated memory after finish."),
    "output_bytes": ("bytes", "Sum of operation output size."),
    "params": ("count", "Model parameters."),
    "float_ops": ("count", "Model float operations (Only available if defined)."),
}
# Column of costs -> its name and unit in pprof. The first is the default.
SAMPLE_TYPES: Mapping[str, tuple[str, str]] = {
    "time_ns": ("time", "nanoseconds"),
    "accelerator_ns": ("accelerator", "nanoseconds"),
    "cpu_ns": ("cpu", "nanoseconds"),
    "bytes": ("bytes", "bytes"),
    "peak_bytes": ("peak_bytes", "bytes"),
    "residual_bytes": ("residual_bytes", "bytes"),
    "output_bytes": ("output_bytes", "bytes"),
    "params": ("params", "count"),
    "float_ops": ("float_ops", "count"),
    "runs": ("occurrence", "count"),
}
NOWHERE = "(no line shown)"
UNKNOWN = "(no line known)"
_UNSIGNED = 1 << 64


def engine_pprof(profile: Placed, costs: Costs, shown: TreeNode, metric: str) -> bytes:
    """Return the profile of one of ENGINE_METRICS as tfprof's engine writes it."""
    return packed(engine_message(profile, costs, shown, metric))


def pprof(
    profile: Placed,
    costs: Costs,
    view: CodeView,
    *,
    known: Iterable[str] = tuple(SAMPLE_TYPES),
    comments: Sequence[str] = (),
) -> bytes:
    """Return the profile with those columns of costs that are `known`, and every accounted op.

    Labels name the node, its op and its device. What was made at no shown line stands below a
    function that says so.
    """
    return packed(full_message(profile, costs, view, known=known, comments=comments))


def engine_message(profile: Placed, costs: Costs, shown: TreeNode, metric: str) -> Any:
    """Return what `engine_pprof` packs; Any, because messages are made at run time."""
    tables = PprofTables()
    samples = _EngineSamples(profile, costs, metric, tables)
    waiting: list[tuple[TreeNode, TreeNode | None, tuple[int, ...]]] = [(shown, None, ())]
    while waiting:
        each, above, path = waiting.pop()
        line, caller = _frame(each), _frame(above)
        if line is not None and caller is not None:
            path = (tables.call(caller, _line(each)), *path)
        if line is not None and not each.children:
            samples.add(each.branch, path)
        waiting.extend((child, each, path) for child in reversed(each.children))
    unit, comment = ENGINE_METRICS[metric]
    return tables.message(
        [("count", "count"), (metric, unit)], samples.in_order(), comments=[comment]
    )


def full_message(
    profile: Placed,
    costs: Costs,
    view: CodeView,
    *,
    known: Iterable[str] = tuple(SAMPLE_TYPES),
    comments: Sequence[str] = (),
) -> Any:
    """Return what `pprof` packs; Any, because messages are made at run time."""
    chosen = [name for name in SAMPLE_TYPES if name in set(known)]
    columns = [COLUMNS.index(name) for name in chosen]
    tables = PprofTables()
    samples = []
    for stack in code_stacks(view):
        path = _path(stack, tables)
        for at in stack.nodes:
            values = [int(costs.rows[at][column]) for column in columns]
            if any(values):
                samples.append(sample(path, values, _labels(profile, at), tables))
    types = [SAMPLE_TYPES[name] for name in chosen]
    message = tables.message(types, samples, comments=comments)
    message.default_sample_type = message.sample_type[0].type if types else 0
    return message


class _EngineSamples:
    """One sample for each node of a leaf, under unique names."""

    def __init__(self, profile: Placed, costs: Costs, metric: str, tables: PprofTables) -> None:
        self._profile = profile
        self._rows = costs.rows
        self._metric = metric
        self._tables = tables
        self._by_name: dict[str, Any] = {}

    def add(self, branch: Branch, path: tuple[int, ...]) -> None:
        nodes = self._profile.graph.nodes
        for leaf in _leaves(branch):
            for at in sorted(leaf.members, key=lambda member: nodes[member].name):
                name = nodes[at].name
                while name in self._by_name:
                    name += "@"
                values = [1, value(self._rows[at], self._metric)]
                labels = [("graph node:", nodes[at].name)]
                self._by_name[name] = sample(path, values, labels, self._tables)

    def in_order(self) -> list[Any]:
        return [self._by_name[name] for name in sorted(self._by_name)]


class PprofTables:
    """The strings, functions and locations of a profile, numbered in the order of their use."""

    def __init__(self) -> None:
        self._strings = {"": 0}
        # Keys end with a number as C++ compares it: without a sign.
        self._functions: dict[tuple[str, str, int], Any] = {}
        self._locations: dict[tuple[str, str, int], Any] = {}

    def string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def call(self, caller: Frame, called: Line) -> int:
        """Return the location of a call, as the engine has it: the caller's line, the called."""
        assert called.frame is not None
        function = _function_name(called)
        key = (caller.file, function, caller.line % _UNSIGNED)
        return self._location(key, caller.line, called.frame, function)

    def line(self, line: Line) -> int:
        """Return the location of a line in its own function."""
        assert line.frame is not None
        function = _function_name(line)
        key = (line.frame.file, function, line.frame.line % _UNSIGNED)
        return self._location(key, line.frame.line, line.frame, function)

    def call_site(self, file: str, line: int, function: str) -> int:
        """Return the location of a line, by the names that the interpreter gives."""
        return self._location(
            (file, function, line), line, Frame(file, line, function, 0), function
        )

    def nowhere(self, text: str) -> int:
        """Return a location that only has a name."""
        return self._location(("", text, 0), 0, Frame("", 0, text, 0), text)

    def message(
        self, types: Iterable[tuple[str, str]], samples: Iterable[Any], *, comments: Iterable[str]
    ) -> Any:
        message = message_class("tfprobe.pprof.Profile")()
        for kind, unit in types:
            message.sample_type.add(type=self.string(kind), unit=self.string(unit))
        message.sample.extend(samples)
        message.location.extend(self._locations[key] for key in sorted(self._locations))
        message.function.extend(self._functions[key] for key in sorted(self._functions))
        message.comment.extend(self.string(text) for text in comments)
        message.string_table.extend(self._strings)
        return message

    def _location(self, key: tuple[str, str, int], number: int, frame: Frame, function: str) -> int:
        found = self._locations.get(key)
        if found is None:
            found = message_class("tfprobe.pprof.Location")(id=len(self._locations) + 1)
            self._locations[key] = found
            found.line.add(function_id=self._function(frame, function), line=number)
        return int(found.id)

    def _function(self, frame: Frame, function: str) -> int:
        key = (frame.file, function, frame.function_line % _UNSIGNED)
        found = self._functions.get(key)
        if found is None:
            found = message_class("tfprobe.pprof.Function")(id=len(self._functions) + 1)
            self._functions[key] = found
            found.name = self.string(_qualified(frame.file, function))
            found.filename = self.string(frame.file)
            found.start_line = frame.function_line
        return int(found.id)


def sample(
    path: Iterable[int],
    values: Iterable[int],
    labels: Iterable[tuple[str, str]],
    tables: PprofTables,
) -> Any:
    """Return a sample; its path has the innermost location first."""
    sample = message_class("tfprobe.pprof.Sample")(location_id=path, value=values)
    for key, text in labels:
        sample.label.add(key=tables.string(key), str=tables.string(text))
    return sample


def _labels(profile: Placed, at: int) -> list[tuple[str, str]]:
    node = profile.graph.nodes[at]
    labels = [("node", node.name), ("op", node.op)]
    device = profile.devices[at]
    return [*labels, ("device", device)] if device else labels


def _path(stack: Stack, tables: PprofTables) -> list[int]:
    """Return the locations of a stack, innermost first."""
    if not stack.is_known:
        return [tables.nowhere(UNKNOWN)]
    lines = [branch for branch in reversed(stack.branches) if isinstance(branch, Line)]
    return [tables.line(line) for line in lines] or [tables.nowhere(NOWHERE)]


def _leaves(branch: Branch) -> list[Line]:
    found: list[Line] = []
    waiting = [branch]
    while waiting:
        line = waiting.pop()
        assert isinstance(line, Line)
        if line.lines:
            waiting.extend(reversed(line.lines))
        else:
            found.append(line)
    return found


def _line(shown: TreeNode) -> Line:
    assert isinstance(shown.branch, Line)
    return shown.branch


def _frame(shown: TreeNode | None) -> Frame | None:
    return None if shown is None else _line(shown).frame


def _function_name(line: Line) -> str:
    assert line.frame is not None
    return line.frame.function + (GRADIENT if line.is_gradient else "")


def _qualified(file: str, function: str) -> str:
    """Return `train:main` for a function of train.py."""
    name = file.rpartition("/")[2]
    stem = name[: name.rindex(".")] if "." in name else name
    return f"{stem}:{function}" if file else function


def packed(message: Any) -> bytes:
    """Return a message as the file that pprof opens."""
    # Without a time stamp, so that the same profile gives the same file.
    return gzip.compress(message.SerializeToString(deterministic=True), mtime=0)
