"""The scope view and the graph view: the nodes of a graph by their names, and along its edges."""

from __future__ import annotations

from tfprobe.analysis.ops.cost_tree import (
    Branch,
    Rules,
    TreeNode,
    ViewOptions,
    account,
    show,
    type_matcher,
)
from tfprobe.analysis.ops.op_stats import AT, Costs, nothing
from tfprobe.profile.graph import Node, Placed

ROOT = "_TFProfRoot"
# The type of a scope that is not a node.
SCOPE_TYPE = "_kTFScopeParent"
RULES = Rules(
    below_missed="keep",
    trims_itself=False,
    least_of_total=frozenset(
        {
            "bytes",
            "peak_bytes",
            "residual_bytes",
            "output_bytes",
            "micros",
            "accelerator_micros",
            "cpu_micros",
        }
    ),
)


def scope(profile: Placed, costs: Costs, choice: ViewOptions) -> TreeNode:
    """Return the scopes and nodes that `choice` shows, below one root."""
    branches: dict[str, Branch] = {}
    for at, node in enumerate(profile.graph.nodes):
        # Below their layers, gradients of two tapes can have the same name.
        same = branches.get(node.name)
        branches[node.name] = Branch(
            name=node.name,
            own=costs.rows[at] if same is None else same.own + costs.rows[at],
            types=types_of(profile, at) | (frozenset() if same is None else same.types),
            members=(at,) if same is None else (*same.members, at),
        )
    for name in list(branches):
        _add_scopes(branches, name, counted=choice.as_engine)
    tops: list[Branch] = []
    for name in sorted(branches):
        above = name.rpartition("/")[0]
        (branches[above].children if above else tops).append(branches[name])
    root = Branch(name=ROOT, own=nothing(), types=frozenset({SCOPE_TYPE}))
    root.children = account(tops, type_matcher(choice), RULES, as_engine=choice.as_engine)
    return show(root, choice, RULES)


def types_of(profile: Placed, at: int) -> frozenset[str]:
    """Return the types of a node: its op, those in the op log, and the devices it ran on."""
    device = profile.devices[at]
    return profile.graph.nodes[at].types | frozenset(device.split("|") if device else ())


def of_other_scopes(node: Node) -> tuple[str, ...]:
    """Return the ops in a fusion that are in other scopes than its root, whose scope it has."""
    own = [op for op in node.fused if node.name == op or node.name.startswith(f"{op}/")]
    scope = (own or [node.name])[0].rpartition("/")[0]
    return tuple(op for op in node.fused if op.rpartition("/")[0] != scope)


def _add_scopes(branches: dict[str, Branch], name: str, *, counted: bool) -> None:
    """Add the scopes above a name; the engine counts each as a definition."""
    while name := name.rpartition("/")[0]:
        if name in branches:
            continue
        own = nothing()
        own[AT["definitions"]] = counted
        branches[name] = Branch(name=name, own=own, types=frozenset({SCOPE_TYPE}))


ROOT_TYPE = "_TFGraphParent"
GRAPH_RULES = Rules(below_missed="lift", trims_itself=False, least_of_total=RULES.least_of_total)


def graph(profile: Placed, costs: Costs, choice: ViewOptions) -> TreeNode:
    """Return the nodes that `choice` shows, each below the first consumer that reaches it."""
    root = Branch(name=ROOT, own=nothing(), types=frozenset({ROOT_TYPE}))
    root.children = account(
        _tree(profile, costs), type_matcher(choice), GRAPH_RULES, as_engine=choice.as_engine
    )
    return show(root, choice, GRAPH_RULES)


def _tree(profile: Placed, costs: Costs) -> list[Branch]:
    """Make a tree of the graph, depth first, without unreachable cycles."""
    nodes = profile.graph.nodes
    ids = {node.name: at for at, node in enumerate(nodes)}
    inputs = [
        [ids[node.inputs[index]] for index in sorted(node.inputs) if node.inputs[index] in ids]
        for node in nodes
    ]
    used = {producer for producers in inputs for producer in producers}
    visited: set[int] = set()
    tops: list[Branch] = []
    for top in sorted(set(range(len(nodes))) - used, key=lambda at: nodes[at].name):
        waiting = [(top, tops)]
        while waiting:
            at, siblings = waiting.pop()
            if at in visited:
                continue
            visited.add(at)
            branch = Branch(
                name=nodes[at].name,
                own=costs.rows[at],
                types=types_of(profile, at),
                members=(at,),
            )
            siblings.append(branch)
            waiting.extend((producer, branch.children) for producer in reversed(inputs[at]))
    return tops
