"""Account, filter and order a tree of nodes, for the scope, graph and code views.

The rules are those of TensorFlow's core/profiler/internal/tfprof_show.cc and related files. No
function is recursive: a chain of ten thousand ops is a tree of that depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tfprobe.analysis.core.names import compile_patterns
from tfprobe.analysis.ops.op_stats import AT, column, nothing, value
from tfprobe.profile.tables import Int64s

ROOT_DEPTH = 1
TOP_DEPTH = 2


@dataclass(slots=True, eq=False)
class Branch:
    """A place in the tree of a view: a scope, node or line.

    `own` are the costs of the place alone, `total` includes all below it. `members` are the ids of
    its accounted nodes; `types` are theirs, or that of a scope without a node.
    """

    name: str
    own: Int64s
    types: frozenset[str] = frozenset()
    members: tuple[int, ...] = ()
    children: list[Branch] = field(default_factory=list)
    total: Int64s = field(default_factory=nothing)
    is_accounted: bool = False


@dataclass(slots=True, eq=False)
class TreeNode:
    """A place that is shown, with the places shown below it, in order."""

    branch: Branch
    total: Int64s
    children: list[TreeNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rules:
    """The differences between the views.

    `below_missed`: what happens to a place that no account pattern matches. With "keep" it stays
    if anything below it does, with "lift" its children replace it. `trims_itself`: a trimmed place
    is removed together with everything below it. `least_of_total`: the metrics whose least value is
    compared with the total; others are compared with `own`. `counts_members`: the order by
    occurrence is by the number of members, not by name.
    """

    below_missed: Literal["keep", "lift"]
    trims_itself: bool
    least_of_total: frozenset[str]
    least_ignored: frozenset[str] = frozenset()
    can_account_displayed: bool = True
    counts_members: bool = False


def show(root: Branch, choice: ViewOptions, rules: Rules) -> TreeNode:
    """Return what is shown of the accounted tree below `root`."""
    root.total = _sum(root.children)
    if choice.start_name_regexes == (".*",):
        tops = root.children
    else:
        tops = _starts(root.children, compile_patterns(choice.start_name_regexes).any_matches)
    shown = _shown(root, tops, choice, rules)
    if choice.account_displayed_op_only and rules.can_account_displayed:
        for node in reversed(shown):
            node.total = _sum(node.children)
            if node.branch.is_accounted or choice.as_engine:
                node.total += node.branch.own
        shown[0].total[AT["definitions"]] += 1 if choice.as_engine else 0
    order = _order(choice.order_by, rules)
    if order is not None:
        for node in shown:
            node.children.sort(key=order)
    return shown[0]


def account(
    tops: Iterable[Branch], matches: Callable[[Branch], bool], rules: Rules, *, as_engine: bool
) -> list[Branch]:
    """Sum up the tree and return its top places that match or that lead to a match."""
    tops = list(tops)
    left: dict[int, list[Branch]] = {}
    for branch in reversed(_preorder(tops)):
        children = [kept for child in branch.children for kept in left[id(child)]]
        branch.is_accounted = matches(branch)
        if not branch.is_accounted and (rules.below_missed == "lift" or not children):
            left[id(branch)] = children
            continue
        branch.children = children
        branch.total = _sum(children)
        if branch.is_accounted or as_engine:
            branch.total += branch.own
        left[id(branch)] = [branch]
    return [kept for top in tops for kept in left[id(top)]]


def type_matcher(choice: ViewOptions) -> Callable[[Branch], bool]:
    """Return the test whether an account pattern matches a type of a branch."""
    patterns = compile_patterns(choice.account_type_regexes)
    return lambda branch: patterns.takes_all or any(map(patterns.any_matches, branch.types))


def _shown(
    root: Branch, tops: Sequence[Branch], choice: ViewOptions, rules: Rules
) -> list[TreeNode]:
    """Return all places that are shown, parents before children, the root first.

    To the engine the root is an ordinary place, which a pattern such as `.*` trims.
    """
    shows = compile_patterns(choice.show_name_regexes)
    hides = compile_patterns(choice.hide_name_regexes)
    trims = compile_patterns(choice.trim_name_regexes)
    shown = [TreeNode(root, root.total.copy())]
    waiting = [(branch, TOP_DEPTH, shown[0]) for branch in reversed(tops)]
    if choice.max_depth < ROOT_DEPTH or (choice.as_engine and trims.any_matches(root.name)):
        waiting = []
    while waiting:
        branch, depth, parent = waiting.pop()
        is_trimmed = trims.any_matches(branch.name)
        if is_trimmed and rules.trims_itself:
            continue
        if (
            depth <= choice.max_depth
            and _is_large_enough(branch, choice, rules)
            and shows.any_matches(branch.name)
            and not hides.any_matches(branch.name)
        ):
            shown.append(TreeNode(branch, branch.total.copy()))
            parent.children.append(shown[-1])
            parent = shown[-1]
        if depth <= choice.max_depth and not is_trimmed:
            waiting.extend((child, depth + 1, parent) for child in reversed(branch.children))
    return shown


def _is_large_enough(branch: Branch, choice: ViewOptions, rules: Rules) -> bool:
    for metric, least in choice.least.items():
        if metric in rules.least_ignored:
            continue
        of_total = metric in rules.least_of_total or not choice.as_engine
        if value(branch.total if of_total else branch.own, metric) < least:
            return False
    return True


def _starts(tops: Sequence[Branch], matches: Callable[[str], bool]) -> list[Branch]:
    """Return the first matching place on each path downwards."""
    found, waiting = [], list(reversed(tops))
    while waiting:
        branch = waiting.pop()
        if matches(branch.name):
            found.append(branch)
        else:
            waiting.extend(reversed(branch.children))
    return found


def _order(order_by: str, rules: Rules) -> Callable[[TreeNode], str | int] | None:
    if not order_by:
        return None
    if order_by == "occurrence" and rules.counts_members:
        return lambda shown: -len(shown.branch.members)
    if order_by in (*METRICS, ACCESSED) and order_by != "occurrence":
        at = column(order_by)
        return lambda shown: -int(shown.total[at])
    return lambda shown: shown.branch.name


def _preorder(tops: Sequence[Branch]) -> list[Branch]:
    found, waiting = [], list(reversed(tops))
    while waiting:
        found.append(waiting.pop())
        waiting.extend(reversed(found[-1].children))
    return found


def _sum(branches: Iterable[Branch | TreeNode]) -> Int64s:
    total = nothing()
    for branch in branches:
        total += branch.total
    return total


# The costs of a node, in the order of the options of tfprof.
METRICS: tuple[str, ...] = (
    "bytes",
    "peak_bytes",
    "residual_bytes",
    "output_bytes",
    "micros",
    "accelerator_micros",
    "cpu_micros",
    "params",
    "float_ops",
    "occurrence",
)
# A cost that tfprof does not have: what an instruction of a compiled program reads and writes.
ACCESSED = "accessed_bytes"
ATTRIBUTES: tuple[str, ...] = (
    *(*METRICS, ACCESSED),
    *("tensor_value", "device", "op_types", "input_shapes"),
)
ORDERS: tuple[str, ...] = ("name", *METRICS, ACCESSED)


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Which nodes a view accounts and shows, and how it orders them.

    `least` has the smallest value of a metric that is shown, by default 0. `step` -1 is the average
    over the steps in which a node ran. Regexes are RE2's and match whole names.

    `as_engine`: do as tfprof's engine does where that differs from its documentation. A scope that
    is not accounted adds its own costs; a node counts once for each pattern that matches it;
    `least` of params, float_ops and occurrence is compared with the node alone, and in the op view
    with everything after it in the list, which has one entry more than `max_depth`.
    """

    max_depth: int = 10
    least: Mapping[str, int] = field(default_factory=dict)
    step: int = -1
    order_by: str = "name"
    account_type_regexes: tuple[str, ...] = (".*",)
    start_name_regexes: tuple[str, ...] = (".*",)
    trim_name_regexes: tuple[str, ...] = ()
    show_name_regexes: tuple[str, ...] = (".*",)
    hide_name_regexes: tuple[str, ...] = ()
    account_displayed_op_only: bool = False
    select: tuple[str, ...] = ("micros",)
    as_engine: bool = False
