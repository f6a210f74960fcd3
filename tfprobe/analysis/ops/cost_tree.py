"""Account, filter, show and order a tree of nodes: what the scope, graph and code views share.

The rules are those of TensorFlow's core/profiler/internal/tfprof_show.cc and its kin. Nothing here
calls itself: a chain of ten thousand ops is a tree ten thousand deep.
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
    """A place in a view's tree.

    `own` are the costs of the place alone, `total` with all below it. `members` are the ids of the
    nodes that count here; `types` are theirs, and what a scope without a node calls itself.
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
    """A place that is shown, with those shown below it, in order."""

    branch: Branch
    total: Int64s
    children: list[TreeNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs between the views.

    `below_missed` says what becomes of a place that no account pattern matches: with "keep" it
    stays as long as something below it does, with "lift" its children take its place.
    `trims_itself`: whether a trimmed place goes with what is below it. `least_of_total`: the
    metrics whose least value is compared with the total; the others are compared with `own`.
    `counts_members`: whether the order by occurrence is by members, and not by name.
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
        for each in reversed(shown):
            each.total = _sum(each.children)
            if each.branch.is_accounted or choice.as_engine:
                each.total += each.branch.own
        shown[0].total[AT["definitions"]] += 1 if choice.as_engine else 0
    order = _order(choice.order_by, rules)
    if order is not None:
        for each in shown:
            each.children.sort(key=order)
    return shown[0]


def account(
    tops: Iterable[Branch], matches: Callable[[Branch], bool], rules: Rules, *, as_engine: bool
) -> list[Branch]:
    """Total up the tree and return what is left of its top: what matches, and what leads there."""
    tops = list(tops)
    left: dict[int, list[Branch]] = {}
    for branch in reversed(_preorder(tops)):
        children = [each for child in branch.children for each in left[id(child)]]
        branch.is_accounted = matches(branch)
        if not branch.is_accounted and (rules.below_missed == "lift" or not children):
            left[id(branch)] = children
            continue
        branch.children = children
        branch.total = _sum(children)
        if branch.is_accounted or as_engine:
            branch.total += branch.own
        left[id(branch)] = [branch]
    return [each for top in tops for each in left[id(top)]]


def type_matcher(choice: ViewOptions) -> Callable[[Branch], bool]:
    """Return the test whether one of the account patterns matches a type of a branch."""
    patterns = compile_patterns(choice.account_type_regexes)
    return lambda branch: patterns.takes_all or any(map(patterns.any_matches, branch.types))


def _shown(
    root: Branch, tops: Sequence[Branch], choice: ViewOptions, rules: Rules
) -> list[TreeNode]:
    """Return all that is shown, the root first, each with its children; parents before children.

    To the engine the root is a place like any other, which a pattern such as `.*` trims.
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
            and _is_dear_enough(branch, choice, rules)
            and shows.any_matches(branch.name)
            and not hides.any_matches(branch.name)
        ):
            shown.append(TreeNode(branch, branch.total.copy()))
            parent.children.append(shown[-1])
            parent = shown[-1]
        if depth <= choice.max_depth and not is_trimmed:
            waiting.extend((child, depth + 1, parent) for child in reversed(branch.children))
    return shown


def _is_dear_enough(branch: Branch, choice: ViewOptions, rules: Rules) -> bool:
    for metric, least in choice.least.items():
        if metric in rules.least_ignored:
            continue
        of_total = metric in rules.least_of_total or not choice.as_engine
        if value(branch.total if of_total else branch.own, metric) < least:
            return False
    return True


def _starts(tops: Sequence[Branch], matches: Callable[[str], bool]) -> list[Branch]:
    """Return the first on each way down whose name matches."""
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
    if order_by in METRICS and order_by != "occurrence":
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


# What a node costs, in the order that tfprof lists the options about it.
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
ATTRIBUTES: tuple[str, ...] = (*METRICS, "tensor_value", "device", "op_types", "input_shapes")
ORDERS: tuple[str, ...] = ("name", *METRICS)


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Which nodes a view accounts, shows and orders, and by what.

    `least` holds the smallest value of a metric that is shown, 0 where it is not named. `step` -1
    stands for the average over the steps in which a node ran. Regexes are RE2's, of whole names.

    `as_engine` asks for what tfprof's engine does where that is not what its words say: a scope
    that is not accounted adds its own costs, a node counts once for each pattern that matches it,
    `least` of params, float_ops and occurrence is compared with the node alone, and in the op view
    with all that follows in the list, of which one more entry is shown than `max_depth` says.
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
