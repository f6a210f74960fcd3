"""Write a code or scope view as a file that https://www.speedscope.app opens.

Of its format the kind "sampled": for each metric the stacks and what each weighs. The innermost
frame is the op itself, the frames above it are the shown lines or scopes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tfprobe.analysis.ops.code_view import Line, Stack
from tfprobe.analysis.ops.cost_tree import Branch
from tfprobe.analysis.ops.op_stats import COLUMNS, Costs
from tfprobe.analysis.system.stack_lines import stacks_of
from tfprobe.analysis.system.stack_samples import CallTree, ProcessTrees
from tfprobe.errors import Missing
from tfprobe.export.pprof import PprofTables, packed, sample
from tfprobe.profile.graph import Placed

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
# Column of costs -> the profile's name, and its unit in speedscope's words.
PROFILES: dict[str, tuple[str, str]] = {
    "time_ns": ("time", "nanoseconds"),
    "accelerator_ns": ("accelerator time", "nanoseconds"),
    "cpu_ns": ("cpu time", "nanoseconds"),
    "bytes": ("requested bytes", "bytes"),
    "peak_bytes": ("peak bytes", "bytes"),
    "residual_bytes": ("residual bytes", "bytes"),
    "output_bytes": ("output bytes", "bytes"),
    "params": ("parameters", "none"),
    "float_ops": ("float operations", "none"),
    "runs": ("runs", "none"),
}
UNKNOWN = "(no line known)"


def speedscope(
    profile: Placed,
    costs: Costs,
    stacks: Iterable[Stack],
    *,
    name: str,
    known: Iterable[str] = tuple(PROFILES),
) -> str:
    """Return the file's text: a profile for each `known` column of costs that is not all 0.

    A file without any has the first, empty, for speedscope opens none without a profile.
    """
    frames = Frames()
    placed = [
        (frames.stack(profile, stack, at), costs.rows[at]) for stack in stacks for at in stack.nodes
    ]
    columns = [(each, COLUMNS.index(each)) for each in PROFILES if each in set(known)]
    filled = [pair for pair in columns if any(row[pair[1]] for _, row in placed)]
    profiles = []
    for column, at in filled or columns[:1]:
        weighed = [(stack, int(row[at])) for stack, row in placed if row[at]]
        profiles.append(sampled_profile(*PROFILES[column], weighed))
    return file_text(name, frames, profiles)


def file_text(name: str, frames: Frames, profiles: Sequence[dict[str, Any]]) -> str:
    """Return the text of a file with these profiles."""
    document = {
        "$schema": SCHEMA,
        "shared": {"frames": frames.written},
        "profiles": list(profiles),
        "name": name,
        "activeProfileIndex": 0,
        "exporter": "tfprobe",
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


class Frames:
    """The frames of a file, without duplicates."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, int], int] = {}
        self.written: list[dict[str, Any]] = []

    def stack(self, profile: Placed, stack: Stack, at: int) -> list[int]:
        """Return the frames that lead to a node and that of the node, outermost first."""
        node = profile.graph.nodes[at]
        branches = stack.branches
        if branches and branches[-1].name == node.name and not branches[-1].children:
            branches = branches[:-1]  # of a scope view: the node would stand below itself
        numbers = [self._of_branch(branch) for branch in branches]
        if not stack.is_known:
            numbers.append(self.number(UNKNOWN))
        return [*numbers, self.number(f"{node.name} [{node.op}]")]

    def _of_branch(self, branch: Branch) -> int:
        if isinstance(branch, Line) and branch.frame is not None:
            return self.number(branch.name, branch.frame.file, branch.frame.line)
        return self.number(branch.name)

    def number(self, name: str, file: str = "", line: int = 0) -> int:
        """Return the position of a frame."""
        key = (name, file, line)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            place = {"file": file, "line": line} if file else {}
            self.written.append({"name": name, **place})
        return self._numbers[key]


def sampled_profile(
    name: str, unit: str, weighed: Sequence[tuple[list[int], int]]
) -> dict[str, Any]:
    """Return stacks with their weights as one profile of a file."""
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": sum(weight for _, weight in weighed),
        "samples": [stack for stack, _ in weighed],
        "weights": [weight for _, weight in weighed],
    }


NO_PYTHON = "(no Python frame)"


class _Named(NamedTuple):
    """A call tree and its label."""

    process: str
    thread: str
    phase: str
    tree: CallTree


def stacks_speedscope(trees: Sequence[ProcessTrees], *, name: str) -> str:
    """Return a file with a profile for each thread, and for each phase of the main thread."""
    frames = Frames()
    profiles = []
    for tree in trees:
        for part in (*_threads(tree), *_phases(tree)):
            weighed = [
                ([frames.number(frame.function, frame.file, frame.line) for frame in stack], own_ns)
                for stack, own_ns in stacks_of(part.tree)
            ]
            if part.tree.no_python_ns:
                weighed.append(([frames.number(NO_PYTHON)], part.tree.no_python_ns))
            title = " · ".join(filter(None, (part.process, part.thread, part.phase)))
            profiles.append(sampled_profile(title, "nanoseconds", weighed))
    return file_text(name, frames, profiles)


def stacks_pprof(trees: Sequence[ProcessTrees], *, comments: Sequence[str] = ()) -> bytes:
    """Return a profile of time; its label names process, thread and phase of the main thread."""
    tables = PprofTables()
    samples = []
    for tree in trees:
        phases = list(_phases(tree))
        main = "" if isinstance(tree.main, Missing) else _title(tree.main.id, tree.main.name)
        others = [part for part in _threads(tree) if not phases or part.thread != main]
        for part in (*phases, *others):
            labels = [("process", part.process), ("thread", part.thread)]
            labels += [("phase", part.phase)] if part.phase else []
            for stack, own_ns in stacks_of(part.tree):
                path = [tables.call_site(*frame) for frame in reversed(stack)]
                samples.append(sample(path, [own_ns], labels, tables))
            if part.tree.no_python_ns:
                path = [tables.nowhere(NO_PYTHON)]
                samples.append(sample(path, [part.tree.no_python_ns], labels, tables))
    return packed(tables.message([("time", "nanoseconds")], samples, comments=comments))


def _threads(each: ProcessTrees) -> Iterator[_Named]:
    for part in each.threads:
        thread = _title(part.thread.id, part.thread.name)
        yield _Named(each.process.label, thread, "", part.tree)


def _phases(each: ProcessTrees) -> Iterator[_Named]:
    if isinstance(each.phases, Missing) or isinstance(each.main, Missing):
        return
    for part in each.phases:
        thread = _title(each.main.id, each.main.name)
        yield _Named(each.process.label, thread, part.name, part.tree)


def _title(number: int, name: str) -> str:
    return f"{name or 'thread'} ({number})"
