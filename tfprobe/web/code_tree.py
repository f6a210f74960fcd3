"""The code that made the ops of a loop as a tree, and trees of costs cut for a page."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfprobe.analysis.core.names import bounded, by_layer
from tfprobe.analysis.ops.code_view import CodeView, FileCost, code, files
from tfprobe.analysis.ops.cost_tree import TreeNode, ViewOptions
from tfprobe.analysis.ops.op_stats import AT
from tfprobe.analysis.ops.scope_view import scope
from tfprobe.errors import Missing
from tfprobe.profile.graph import Frame, Graph, Node, is_of_library
from tfprobe.web.loop_costs import LoopCosts, NothingRecorded
from tfprobe.web.opened import OpenRun

# Deeper ones are those of a function that calls itself: of those the ends tell enough.
MOST_FRAMES = 256
_NO_CODE = "The recording does not say which code made these ops."
_HINT = "Its code map was not written: record with --every or --steps, or for longer."


@dataclass(frozen=True, slots=True, eq=False)
class CodeTree:
    """The view, and its places in the order in which a question counts them: parents first."""

    view: CodeView
    places: tuple[TreeNode, ...]


def code_tree(run: OpenRun, found: LoopCosts, *, with_libraries: bool) -> CodeTree:
    """Return the tree of calls, without those inside libraries or with them.

    Raises NothingRecorded if the code is not known.
    """
    if not found.sampled.graph.has_traces:
        raise NothingRecorded(_NO_CODE, hint=_HINT)
    key = ("code tree", found.place, with_libraries)
    return run.made(key, lambda: _tree(found, with_libraries=with_libraries))


def code_files(run: OpenRun, found: LoopCosts) -> tuple[FileCost, ...]:
    """Return the files, costliest first, those of the job before those of libraries.

    A question names one by its place here.
    """
    tree = code_tree(run, found, with_libraries=True)
    return run.made(("code files", found.place), lambda: _by_cost(files(tree.view.shown)))


def file_places(run: OpenRun, found: LoopCosts) -> Mapping[str, int]:
    """Return the place of each file in that list, nothing if the code is not known."""
    if not found.sampled.graph.has_traces:
        return {}
    return {file.file: place for place, file in enumerate(code_files(run, found))}


def _by_cost(found: Sequence[FileCost]) -> tuple[FileCost, ...]:
    time_ns = AT["time_ns"]
    return tuple(
        sorted(
            found,
            key=lambda each: (
                each.is_library,
                -int(each.own[time_ns]),
                -int(each.total[time_ns]),
                each.file,
            ),
        )
    )


def _tree(found: LoopCosts, *, with_libraries: bool) -> CodeTree:
    nodes = tuple(_cut(node, with_libraries=with_libraries) for node in found.sampled.graph.nodes)
    sampled = replace(found.sampled, graph=Graph(nodes))
    # A level of the view is one of the tree; there is no deeper one.
    choice = ViewOptions(max_depth=MOST_FRAMES + 2, order_by="micros")
    view = code(sampled, found.costs, choice)
    places: list[TreeNode] = []
    waiting = [view.shown]
    while waiting:
        places.append(waiting.pop())
        waiting.extend(reversed(places[-1].children))
    return CodeTree(view, tuple(places))


def _cut(node: Node, *, with_libraries: bool) -> Node:
    trace = node.trace
    if not trace:
        return node
    kept: Sequence[Frame] = trace
    if not with_libraries:
        kept = [frame for frame in trace if not is_of_library(frame.file)] or trace
    if len(kept) > MOST_FRAMES:
        kept = (*kept[: MOST_FRAMES // 2], *kept[-MOST_FRAMES // 2 :])
    return node if len(kept) == len(trace) else replace(node, trace=tuple(kept))


MOST_BYTES = 2_000_000
SUFFIXES = (".py", ".pyw")
_OPENING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The lines of a file, and when it was changed last."""

    lines: tuple[str, ...]
    changed_unix_ns: int


def read_source(name: str, *, directory: str = "") -> SourceFile | Missing:
    """Return a file; one that is not absolute lies below `directory`, where the job was started."""
    if "\0" in name or not name.endswith(SUFFIXES):
        return Missing("it is not named as a source file of Python is")
    path = Path(directory) / name
    if not path.is_absolute():
        return Missing("the recording does not say in which directory it is")
    try:
        # Links are followed, virtual environments are made of them. What they lead to is opened
        # by its own name, which no link can be behind any more.
        place = os.path.realpath(path, strict=True)
        if not place.endswith(SUFFIXES):
            return Missing("it is a link to something that is not named as a source file")
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return Missing("it is no regular file")
        return _read(place)
    except (OSError, ValueError) as exc:
        return Missing(_reason(exc))


def _read(place: str) -> SourceFile | Missing:
    with os.fdopen(os.open(place, _OPENING | os.O_NOFOLLOW), "rb") as file:
        status = os.fstat(file.fileno())
        # Looked at again: it may have been another one a moment ago.
        if not stat.S_ISREG(status.st_mode):
            return Missing("it is no regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        return Missing(f"it has more than {MOST_BYTES // 1_000_000} MB")
    return SourceFile(tuple(_text(content).split("\n")), status.st_mtime_ns)


def _text(content: bytes) -> str:
    # Whatever encoding a file declares, a stranger's too: some decoders take forever.
    text = content.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _reason(exc: OSError | ValueError) -> str:
    if isinstance(exc, FileNotFoundError):
        return "it is not on this machine, or no longer there"
    if isinstance(exc, PermissionError):
        return "who runs tfprobe may not read it"
    return f"it cannot be read ({type(exc).__name__})"


# Less than a pixel of a wide screen.
SMALLEST_RATIO = 1 / 2000
MOST_PLACES = 3000
# Deeper levels are requested when a reader gets there; no screen has the rows.
MOST_LEVELS = 120


@dataclass(slots=True, eq=False)
class TreePlace:
    """A place that is shown; `parent` is the number of the one above it, -1 of the first.

    `smaller` places directly below it are not shown, and cost `smaller_cost` together.
    """

    shown: TreeNode
    parent: int
    smaller: int = 0
    smaller_cost: int = 0
    children: list[TreeNode] = field(default_factory=list)


def fold(top: TreeNode, column: int, *, most: int = MOST_PLACES) -> list[TreePlace]:
    """Return the places from `top` down, parents first, costliest first below one parent.

    The costliest in a column of costs are returned, but none below 1/2,000 of the top and none
    that costs nothing.
    """
    shown_places = _costliest(top, column, most)
    places: list[TreePlace] = []
    waiting = [(top, -1)]
    while waiting:
        shown, parent = waiting.pop()
        place = TreePlace(shown, parent)
        kept = [child for child in shown.children if id(child) in shown_places]
        left = [
            child
            for child in shown.children
            if id(child) not in shown_places and _is_used(child, column)
        ]
        place.children = sorted(kept, key=lambda child: (-_cost(child, column), child.branch.name))
        place.smaller = len(left)
        place.smaller_cost = sum(_cost(child, column) for child in left)
        waiting.extend((child, len(places)) for child in reversed(place.children))
        places.append(place)
    return places


def _costliest(top: TreeNode, column: int, most: int) -> Mapping[int, TreeNode]:
    """Return, by identity, the places that are shown."""
    least = max(_cost(top, column) * SMALLEST_RATIO, 1)
    chosen = {id(top): top}
    heap: list[tuple[int, str, int, int, TreeNode]] = []

    def add(children: Iterable[TreeNode], level: int) -> None:
        if level > MOST_LEVELS:
            return
        for child in children:
            cost = _cost(child, column)
            if cost >= least:
                heapq.heappush(heap, (-cost, child.branch.name, id(child), level, child))

    add(top.children, 1)
    while heap and len(chosen) < most:
        *_, level, shown = heapq.heappop(heap)
        chosen[id(shown)] = shown
        add(shown.children, level + 1)
    return chosen


def _cost(shown: TreeNode, column: int) -> int:
    return int(shown.total[column])


def _is_used(shown: TreeNode, column: int) -> bool:
    return _cost(shown, column) > 0


@dataclass(frozen=True, slots=True, eq=False)
class ScopeTree:
    """Everything below one root, and each place by its path, the root by ""."""

    root: TreeNode
    by_path: Mapping[str, TreeNode]


def scope_tree(run: OpenRun, found: LoopCosts, *, layers: bool) -> ScopeTree:
    """Return the tree of scopes, or of layers, which have their gradients below them."""
    return run.made(
        ("scope tree", found.place, layers), lambda: _prune_tree_tree(found, layers=layers)
    )


def _prune_tree_tree(found: LoopCosts, *, layers: bool) -> ScopeTree:
    sampled = found.sampled
    if layers:
        sampled = replace(sampled, graph=by_layer(sampled.graph))
    sampled = replace(sampled, graph=Graph(tuple(_bounded(each) for each in sampled.graph.nodes)))
    deepest = max((node.name.count("/") for node in sampled.graph.nodes), default=0)
    root = scope(sampled, found.costs, ViewOptions(max_depth=deepest + 3, order_by="micros"))
    by_path = {"": root}
    waiting = [root]
    while waiting:
        children = waiting.pop().children
        by_path.update((child.branch.name, child) for child in children)
        waiting.extend(children)
    return ScopeTree(root, by_path)


def _bounded(node: Node) -> Node:
    name = bounded(node.name)
    return node if name == node.name else replace(node, name=name)
