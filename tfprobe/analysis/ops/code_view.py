"""The code view: the nodes of a graph by the lines of Python that made them, outermost first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tfprobe.analysis.core.names import Patterns, compile_patterns
from tfprobe.analysis.core.source_lines import SourceLines, innermost
from tfprobe.analysis.ops.cost_tree import Branch, Rules, TreeNode, ViewOptions, account, show
from tfprobe.analysis.ops.op_stats import Costs, nothing
from tfprobe.analysis.ops.scope_view import RULES as SCOPE_RULES
from tfprobe.analysis.ops.scope_view import types_of
from tfprobe.profile.graph import Frame, Placed, is_of_library
from tfprobe.profile.tables import Int64s

ROOT = "_TFProfRoot"
RULES = Rules(
    below_missed="keep",
    trims_itself=True,
    least_of_total=SCOPE_RULES.least_of_total | {"params", "float_ops"},
    least_ignored=frozenset({"occurrence"}),
    can_account_displayed=False,
    counts_members=True,
)
GRADIENT = " (gradient)"
_GRADIENT_SCOPE, _GRADIENT_SUFFIX = "gradients/", "_grad/"
# Longer function names are cut, as in tfprof.
_LONGEST_FUNCTION = 19


@dataclass(slots=True, eq=False)
class Line(Branch):
    """A place in the code view: a line of Python, called from the lines above it.

    `attached` are the nodes made by this line; `members` those of them that are accounted. `lines`
    are those called from here, accounted or not. `is_gradient`: the nodes are gradients of what the
    line made.
    """

    frame: Frame | None = None
    attached: list[int] = field(default_factory=list)
    lines: tuple[Branch, ...] = ()
    is_gradient: bool = False


@dataclass(frozen=True, slots=True)
class CodeView:
    """The code that made the nodes.

    `lost_gradients` is the number of gradients with an unknown forward op. `unplaced` are the
    accounted nodes without a line, these gradients among them.
    """

    shown: TreeNode
    lost_gradients: int
    unplaced: tuple[int, ...]


def code(profile: Placed, costs: Costs, choice: ViewOptions) -> CodeView:
    """Return the lines that `choice` shows; nodes without a trace are left out."""
    root, lost = _tree_of_engine(profile) if choice.as_engine else (_tree(profile), 0)
    patterns = compile_patterns(choice.account_type_regexes)
    placed: set[int] = set()
    for line in _lines(root):
        placed.update(line.attached)
        line.lines = tuple(line.children)
        line.members = _accounted(profile, line.attached, patterns)
        once = tuple(dict.fromkeys(line.members))
        line.own = nothing()
        for at in line.members if choice.as_engine else once:
            line.own += costs.rows[at]
        line.members = once
        line.types = frozenset().union(*(types_of(profile, at) for at in line.members))
    root.children = account(
        root.children,
        lambda branch: patterns.takes_all or bool(branch.members),
        RULES,
        as_engine=choice.as_engine,
    )
    others = tuple(at for at in range(len(profile.graph.nodes)) if at not in placed)
    unplaced = tuple(dict.fromkeys(_accounted(profile, others, patterns)))
    return CodeView(show(root, choice, RULES), lost, unplaced)


def _tree(profile: Placed) -> Line:
    nodes = profile.graph.nodes
    ids = {node.name: at for at, node in enumerate(nodes)}
    lines = SourceLines({node.name: node for node in nodes})
    root = Line(name=ROOT, own=nothing())
    below: dict[tuple[int, str], Line] = {}
    forward = {name: lines.forward(name) for name in ids}
    # Forward ops first, so that their lines come before those of their gradients.
    is_backward = {node.name: node.is_backward or forward[node.name] is not None for node in nodes}
    for name in sorted(ids, key=lambda name: (is_backward[name], name)):
        suffix = GRADIENT if is_backward[name] else ""
        _attach(root, below, lines.trace(name), ids[name], suffix=suffix)
    return root


def _tree_of_engine(profile: Placed) -> tuple[Line, int]:
    """Return the lines as tfprof has them, and how many gradients it loses."""
    nodes = profile.graph.nodes
    ids = {node.name: at for at, node in enumerate(nodes)}
    root = Line(name=ROOT, own=nothing())
    below: dict[tuple[int, str], Line] = {}
    gradients, lost = [], 0
    for name in sorted(ids):
        node = nodes[ids[name]]
        if not node.trace:
            continue
        forward = _forward_name(name)
        if forward is not None:
            gradients.append((ids[name], forward))
        else:
            _attach(root, below, node.trace, ids[name], suffix="")
    # By forward op, as in the engine.
    for at, forward in sorted(gradients, key=lambda gradient: gradient[1]):
        trace = nodes[ids[forward]].trace if forward in ids else None
        if trace:
            _attach(root, below, trace, at, suffix=GRADIENT)
        else:
            lost += 1
    return root, lost


def _attach(
    root: Line,
    below: dict[tuple[int, str], Line],
    trace: tuple[Frame, ...],
    at: int,
    *,
    suffix: str,
) -> None:
    if not trace:
        return
    line = root
    for frame in trace:
        key = (id(line), _label(frame) + suffix)
        if key not in below:
            below[key] = Line(name=key[1], own=nothing(), frame=frame, is_gradient=bool(suffix))
            line.children.append(below[key])
        line = below[key]
    line.attached.append(at)


def _label(frame: Frame) -> str:
    function = frame.function
    if len(function) > _LONGEST_FUNCTION:
        function = function[: _LONGEST_FUNCTION - 2] + "..."
    return f"{frame.file.rpartition('/')[2]}:{frame.line}:{function}"


def _forward_name(name: str) -> str | None:
    """Return the name of the op whose gradient this one belongs to, None if to none."""
    scope, suffix = name.find(_GRADIENT_SCOPE), name.find(_GRADIENT_SUFFIX)
    if scope < 0 or suffix < 0:
        return None
    start = scope + len(_GRADIENT_SCOPE)
    if start == suffix:
        return None
    # As in the engine: a negative length wraps, and the text runs to the end.
    return name[start:suffix] if suffix > start else name[start:]


def _accounted(profile: Placed, attached: Sequence[int], patterns: Patterns) -> tuple[int, ...]:
    """Return the accounted nodes, each once for every pattern that matches it."""
    if patterns.takes_all:
        return tuple(attached)
    return tuple(
        at
        for pattern in patterns.compiled
        for at in attached
        if any(pattern.fullmatch(text) for text in types_of(profile, at))
    )


def _lines(root: Line) -> Iterator[Line]:
    waiting: list[Branch] = [root]
    while waiting:
        line = waiting.pop()
        waiting.extend(line.children)
        if isinstance(line, Line):
            yield line


@dataclass(slots=True, eq=False)
class LineCost:
    """A line of a file. `own` is the cost of what it made; `total` includes what its callees made.

    A line of the job counts as the maker of what libraries made for it: the library's line, closest
    to the op, is rarely what one can change.
    """

    line: int
    function: str
    own: Int64s = field(default_factory=nothing)
    total: Int64s = field(default_factory=nothing)


@dataclass(slots=True, eq=False)
class FileCost:
    """A file, with its lines by number. An op that several lines led to counts once in `total`."""

    file: str
    is_library: bool
    own: Int64s = field(default_factory=nothing)
    total: Int64s = field(default_factory=nothing)
    lines: dict[int, LineCost] = field(default_factory=dict)


def files(shown: TreeNode) -> list[FileCost]:
    """Return the files of a code view that shows everything, by name."""
    found: dict[str, FileCost] = {}
    for stack in scope_stacks(shown):
        own = stack.branches[-1].own
        frames = [
            branch.frame for branch in stack.branches if isinstance(branch, Line) and branch.frame
        ]
        for line in _line_costs_lines(found, frames):
            line.total += own
        # Once for each file, not each frame: a recursive function has several.
        for file in {frame.file for frame in frames}:
            found[file].total += own
        maker = innermost(frames)
        if maker is not None:
            found[maker.file].own += own
            found[maker.file].lines[maker.line].own += own
    return [found[name] for name in sorted(found)]


def _line_costs_lines(found: dict[str, FileCost], frames: Iterable[Frame]) -> Iterable[LineCost]:
    """Return the lines of these frames, each once, adding new ones to `found`."""
    for frame in {(frame.file, frame.line): frame for frame in frames}.values():
        file = found.get(frame.file)
        if file is None:
            file = found[frame.file] = FileCost(frame.file, is_of_library(frame.file))
        yield file.lines.setdefault(frame.line, LineCost(frame.line, frame.function))


@dataclass(frozen=True, slots=True)
class Stack:
    """Nodes, and the shown places they are in, outermost first.

    If not `is_known`, the lines that made the nodes are unknown.
    """

    branches: tuple[Branch, ...]
    nodes: tuple[int, ...]
    is_known: bool = True


def code_stacks(view: CodeView) -> Iterator[Stack]:
    """Yield the stacks of a code view, last those of the nodes without a line."""
    yield from scope_stacks(view.shown)
    if view.unplaced:
        yield Stack((), view.unplaced, is_known=False)


def scope_stacks(shown: TreeNode) -> Iterator[Stack]:
    """Yield the stacks of a tree, those of the same place together."""
    # For each place that is shown, the places around it and itself; the root is not a place.
    paths: dict[int, tuple[Branch, ...]] = {id(shown.branch): ()}
    above = [shown]
    while above:
        node = above.pop()
        for child in node.children:
            paths[id(child.branch)] = (*paths[id(node.branch)], child.branch)
            above.append(child)
    waiting = [(shown.branch, paths[id(shown.branch)])]
    while waiting:
        branch, path = waiting.pop()
        path = paths.get(id(branch), path)
        if branch.is_accounted and branch.members:
            yield Stack(path, branch.members)
        waiting.extend((child, path) for child in reversed(branch.children))
